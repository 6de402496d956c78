"""Bytes into lines and events: however they are cut, the same comes out."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from legacy.framing import Event, EventDecoder, LineFramer
from legacy.wire import decode, messages, printable

CUTS = st.lists(st.integers(min_value=1, max_value=7), min_size=1, max_size=30)
# Everything that some library takes for the end of a line, and characters of one to four bytes.
TEXT = st.text(alphabet='ab\u2028\u2029\u0085\x0b\x0c\x1c é€🚀\\"\t:', max_size=20)


def cut(data: bytes, sizes: list[int]) -> Iterable[bytes]:
    at = 0
    while at < len(data):
        for size in sizes:
            yield data[at : at + size]
            at += size


@given(st.lists(TEXT, max_size=8), CUTS, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_lines_end_at_newlines_only_however_the_bytes_are_cut(
    texts: list[str], sizes: list[int], end: str, ended: bool
) -> None:
    lines = [json.dumps({"jsonrpc": "2.0", "t": text}, ensure_ascii=False) for text in texts]
    data = end.join([*lines, ""] if ended else lines).encode()
    framer = LineFramer(1000)
    found = [line for piece in cut(data, sizes) for line in framer.feed(piece)] + framer.flush()
    assert [json.loads(line)["t"] for line in found] == texts
    assert [value["t"] for line in found for value in messages(decode(line))] == texts


@given(st.lists(st.integers(min_value=0, max_value=30), max_size=10), CUTS)
def test_overlong_lines_are_skipped_and_counted(sizes: list[int], cuts: list[int]) -> None:
    lines = [b"x" * size for size in sizes]
    data = b"".join(line + b"\n" for line in lines)
    framer, heads = LineFramer(10), LineFramer(10, keep_head=True)
    assert [line for piece in cut(data, cuts) for line in framer.feed(piece)] == [x for x in lines if len(x) <= 10]
    assert framer.overlong == sum(len(line) > 10 for line in lines)
    assert [line for piece in cut(data, cuts) for line in heads.feed(piece)] == [line[:10] for line in lines]


def test_a_large_line_in_small_reads_takes_linear_time() -> None:
    framer, decoder = LineFramer(10**9), EventDecoder(10**9)
    piece = b"x" * 512
    began = time.monotonic()
    decoder.feed(b"data: ")
    for _ in range(40_000):
        framer.feed(piece)
        decoder.feed(piece)
    assert len(framer.feed(b"\n")[0]) == 40_000 * 512
    assert len(decoder.feed(b"\n\n")[0].data) == 40_000 * 512
    assert time.monotonic() - began < 5


EVENTS = st.lists(st.tuples(TEXT.filter(bool), st.one_of(st.none(), st.integers(0, 99))), max_size=6)


@given(EVENTS, CUTS, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_events_are_the_same_however_the_bytes_are_cut(
    events: list[tuple[str, int | None]], sizes: list[int], end: str, bom: bool
) -> None:
    lines: list[str] = [": comment", "retry: 1500", ""]
    for text, number in events:
        lines += ["event: message"] + ([f"id: {number}"] if number is not None else [])
        lines += ["data: " + text, "unknown: x", "data:" + text.replace(" ", "_"), ""]
    data = (b"\xef\xbb\xbf" if bom else b"") + end.join([*lines, ""]).encode()
    decoder = EventDecoder(1000)
    found = [event for piece in cut(data, sizes) for event in decoder.feed(piece)]
    assert found == [
        Event("message", f"{text}\n{text.replace(' ', '_')}".encode(), None if number is None else str(number))
        for text, number in events
    ]
    assert decoder.retry == 1.5
    ids = [number for _, number in events if number is not None]
    assert decoder.last_id == (str(ids[-1]) if ids else None)


def test_a_priming_event_sets_the_id_and_an_unfinished_one_does_not() -> None:
    decoder = EventDecoder(1000)
    assert decoder.feed(b"id: 1\ndata:\n\nid: 2\ndata: x\n") == []
    assert decoder.last_id == "1"
    decoder.restart()
    assert decoder.feed(b"data: y\n\n") == [Event("message", b"y", None)]
    assert decoder.last_id == "1"


def test_an_event_larger_than_the_limit_is_skipped() -> None:
    decoder = EventDecoder(20)
    assert decoder.feed(b"data: 12345678901\ndata: 12345678901\n\ndata: " + b"x" * 20 + b"\n\ndata: ok\n\n") == [
        Event("message", b"ok", None)
    ]
    assert decoder.overlong == 2


def test_what_a_server_prints_cannot_forge_a_log() -> None:
    assert printable("a\x1b[31m\rb\u2028c\td\x9b\x00\u202e\n") == "a\\x1b[31m\\x0db\\x2028c d\\x9b\\x00\\x202e"
    assert len(printable(b"x" * 10_000)) == 4097


def test_only_json_rpc_is_a_message() -> None:
    message = {"jsonrpc": "2.0", "method": "x"}
    assert messages(message) == [message]
    assert messages([message, {"level": 30}, 1, message]) == [message, message]
    for other in ({"level": 30}, {"method": "GET", "id": 1}, [], [1], "x", 1, None):
        assert messages(other) == []
