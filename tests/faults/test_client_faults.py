"""Clients that misbehave in front of the real program: a clear error, or silence where the protocol wants it.

What is the same for all: another call is answered afterwards, nothing of the misbehaviour stays (no open connection, no
call that still runs), and the program ends as if nothing had been (`processes.running` sees to that in every test).
"""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.bridge.harness import Journal
from tests.faults.processes import (
    ASKER,
    PATIENCE,
    Bridge,
    headers,
    post_raw,
    request,
    running,
    says,
    text,
    until,
)

ECHO = request("tools/call", 1, {"name": "echo", "arguments": {"text": "hi"}})
MB = 1024 * 1024


def plain(id: Any, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A call by a client that cannot be asked anything, so that it shares the session with every other."""
    return request("tools/call", id, {"name": tool, "arguments": arguments})


def open_files(bridge: Bridge) -> int:
    return len(os.listdir(f"/proc/{bridge.process.pid}/fd"))


def settled(bridge: Bridge) -> int:
    """How many files are open when every session has been started and nobody is connected."""
    bridge.works()
    assert text(bridge.exchange(ECHO)) == "hi"
    time.sleep(0.1)
    return open_files(bridge)


def received(connection: socket.socket) -> bytes:
    """Everything until the chunk, or the length, or the other side ends it."""
    data = b""
    while part := connection.recv(65536):
        data += part
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if (length is not None and len(body) >= int(length[1])) or body.endswith(b"0\r\n\r\n"):
            break
    return data


@pytest.fixture
def stdio(tmp_path: Path, journal: Journal) -> Iterator[Bridge]:
    with running("stdio", tmp_path, "--", *ASKER, env=journal.env) as bridge:
        yield bridge


@pytest.fixture
def http(tmp_path: Path, journal: Journal) -> Iterator[Bridge]:
    with running("http", tmp_path, "--", *ASKER, env=journal.env) as bridge:
        yield bridge


@pytest.fixture(scope="module")
def lasting_stdio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """One process for many tests: what one does to it, the others would notice."""
    with running("stdio", tmp_path_factory.mktemp("stdio"), "--", *ASKER) as bridge:
        yield bridge


@pytest.fixture(scope="module")
def lasting_http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bridge]:
    """As `lasting_stdio`, by HTTP."""
    with running("http", tmp_path_factory.mktemp("http"), "--", *ASKER) as bridge:
        yield bridge


# -- stdio: lines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "code", "word"),
    [
        (b"rubbish", -32700, "not valid JSON"),
        (b"\x00\x01\x02", -32700, "not valid JSON"),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "ping"', -32700, "not valid JSON"),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "\xff\xfe"}', -32700, "not valid JSON in UTF-8"),
        (b'{"jsonrpc": "2.0", "id": 7, "method": "\\ud800"}', -32700, "not valid JSON"),
        (b"\xff\xfe" + "{}".encode("utf-16-le"), -32700, "not valid JSON in UTF-8"),
        (b'{"jsonrpc": "2.0", "id": NaN}', -32700, "not valid JSON"),
        (b"null", -32600, "one JSON object"),
        (b'"text"', -32600, "one JSON object"),
        (b"[" + json.dumps(ECHO).encode() + b"]", -32600, "batches do not exist"),
        (b"{}", -32600, "'method' must be a string"),
        (b"[" * 100 + b"]" * 100, -32600, "nest"),
        (b"[" * 100_000 + b"]" * 100_000, -32600, "nest"),
        (b'{"a":' * 1000 + b"1" + b"}" * 1000, -32600, "nest"),
    ],
)
def test_a_line_that_is_no_message_gets_one_error_without_an_id(
    lasting_stdio: Bridge, line: bytes, code: int, word: str
) -> None:
    lasting_stdio.write(line + b"\n")
    said = lasting_stdio.next_line()
    says(said, word, code=code)
    assert "id" not in said
    lasting_stdio.works()


def test_many_lines_of_rubbish_get_an_error_each(lasting_stdio: Bridge) -> None:
    lasting_stdio.write(b"rubbish\n" * 1000 + json.dumps(ECHO).encode() + b"\n")
    found = [lasting_stdio.next_line() for _ in range(1001)]
    assert sum(message.get("error", {}).get("code") == -32700 for message in found) == 1000
    assert [text(message) for message in found if "result" in message] == ["hi"]


def test_malformed_notifications_and_answers_to_nothing_asked_for_are_never_fatal(lasting_stdio: Bridge) -> None:
    lasting_stdio.write(b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": 7}\n')
    lasting_stdio.write(b'{"jsonrpc": "2.0", "method": "notifications/never-heard-of"}\n')
    assert lasting_stdio.silent()
    lasting_stdio.write(b'{"jsonrpc": "2.0", "id": 5, "result": {}}\n')
    says(lasting_stdio.answer_to(5), "never responses", code=-32600)
    lasting_stdio.works()


def test_half_a_line_before_the_end_of_input_is_not_answered(stdio: Bridge) -> None:
    stdio.works()
    stdio.write(json.dumps(ECHO).encode()[:40])
    stdio.end()
    assert stdio.silent()


def test_a_line_in_small_pieces_is_one_message(lasting_stdio: Bridge) -> None:
    line = json.dumps(ECHO).encode() + b"\n"
    for at in range(0, len(line), 16):
        lasting_stdio.write(line[at : at + 16])
        time.sleep(0.002)
    assert text(lasting_stdio.answer_to(1)) == "hi"


def test_a_line_of_5_mb_is_served(lasting_stdio: Bridge) -> None:
    long = "x" * (5 * MB)
    assert text(lasting_stdio.exchange(plain("long", "echo", text=long))) == long
    lasting_stdio.works()


# -- stdio: requests ---------------------------------------------------------------------------------------------------


def test_an_id_that_is_in_use_is_refused_and_its_first_request_goes_on(stdio: Bridge, journal: Journal) -> None:
    stdio.send(plain("same", "slow", seconds=0.5), plain("same", "echo", text="second"))
    says(stdio.answer_to("same"), "id is still running", code=-32600)
    assert text(stdio.answer_to("same")) == "slept 0.5"
    assert not journal.calls("echo")
    assert text(stdio.exchange(plain("same", "echo", text="third"))) == "third"


def test_two_thousand_requests_at_once_are_all_answered(lasting_stdio: Bridge) -> None:
    lasting_stdio.works()
    lasting_stdio.send(*(plain(number, "echo", text=str(number)) for number in range(2000)))
    found = {(message := lasting_stdio.next_line())["id"]: message for _ in range(2000)}
    assert {id: text(message) for id, message in found.items()} == {id: str(id) for id in range(2000)}
    lasting_stdio.works()


def test_cancelling_what_is_not_running_does_nothing(stdio: Bridge, journal: Journal) -> None:
    stdio.works()
    for id in (0, -1, 10**30, "never", "", None, 1.5, [], {}):
        stdio.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
    assert stdio.silent()
    assert not journal.messages("notifications/cancelled")
    stdio.works()


def test_a_cancelled_request_is_never_answered_and_the_server_hears_of_it(stdio: Bridge, journal: Journal) -> None:
    stdio.send(plain("gone", "slow", seconds=60))
    until(lambda: journal.calls("slow"))
    for _ in range(3):
        stdio.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "gone"}})
    until(lambda: journal.messages("notifications/cancelled"))
    assert stdio.silent()
    assert len(journal.messages("notifications/cancelled")) == 1
    stdio.works()


def test_a_client_whose_reading_end_is_gone_ends_the_program(stdio: Bridge, journal: Journal) -> None:
    stdio.works()
    stdio.look()
    assert stdio.process.stdin is not None
    stdio.send(plain(1, "slow", seconds=60))
    stdio.process.stdin.close()
    stdio.end()
    assert stdio.silent()


def test_a_client_that_reads_nothing_is_not_waited_for_at_the_end(tmp_path: Path) -> None:
    with running("stdio", tmp_path, "--", *ASKER, reads=False) as bridge:
        bridge.send(*(plain(number, "big", n=100_000) for number in range(50)))
        time.sleep(0.5)
        bridge.end()


# -- HTTP: what is no request ------------------------------------------------------------------------------------------


def post(bridge: Bridge, body: bytes, **fields: str) -> httpx.Response:
    """POST a body with the headers of a correct client, except those given (``_`` for ``-``; empty: left out)."""
    sent = {**headers(ECHO), **{name.replace("_", "-"): value for name, value in fields.items()}}
    kept = {name: value for name, value in sent.items() if value}
    return httpx.post(bridge.url, content=body, headers=kept, timeout=PATIENCE)


GOOD = json.dumps(ECHO).encode()


@pytest.mark.parametrize(
    ("body", "fields", "status", "code", "word"),
    [
        (b"rubbish", {}, 400, -32700, "not valid JSON"),
        (b"", {}, 400, -32700, "not valid JSON"),
        (GOOD[:-20], {}, 400, -32700, "not valid JSON"),
        (GOOD.replace(b"hi", b"\xff\xfe"), {}, 400, -32700, "not valid JSON in UTF-8"),
        (b"[" + GOOD + b"]", {}, 400, -32600, "batches do not exist"),
        (b"[" * 100_000 + b"]" * 100_000, {}, 400, -32600, "nest"),
        (GOOD, {"content_type": "text/plain"}, 415, -32600, "application/json"),
        (GOOD, {"content_type": ""}, 415, -32600, "application/json"),
        (GOOD, {"accept": "text/html"}, 406, -32600, "application/json"),
        (GOOD, {"host": "evil.example"}, 403, -32600, "Host"),
        (GOOD, {"origin": "https://evil.example"}, 403, -32600, "Origin"),
        (GOOD, {"mcp_method": ""}, 400, -32020, "Mcp-Method"),
        (GOOD, {"mcp_method": "tools/list"}, 400, -32020, "Mcp-Method"),
        (GOOD, {"mcp_name": "add"}, 400, -32020, "Mcp-Name"),
        (GOOD, {"mcp_name": "=?base64?%%%?="}, 400, -32020, "Mcp-Name"),
        (GOOD, {"mcp_name": "x" * 4000}, 400, -32020, "Mcp-Name"),
        (GOOD, {"mcp_protocol_version": "2025-06-18"}, 400, -32020, "MCP-Protocol-Version"),
        (b" " * (5 * MB), {}, 413, -32600, "at most"),
    ],
)
def test_what_is_no_request_gets_its_status_and_one_error(
    lasting_http: Bridge, body: bytes, fields: dict[str, str], status: int, code: int, word: str
) -> None:
    answer = post(lasting_http, body, **fields)
    assert answer.status_code == status
    says(answer.json(), word, code=code)
    lasting_http.works()


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
def test_another_method_than_post_is_refused(lasting_http: Bridge, method: str) -> None:
    answer = httpx.request(method, lasting_http.url, timeout=PATIENCE)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    lasting_http.works()


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        b"rubbish\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n\xff\xfe: \x00\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: many\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: -5\r\n\r\nhello",
        b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}",
        b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"POST /mcp HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nhost: localhost\r\n" + b"x: " + b"y" * 200_000 + b"\r\n\r\n",
    ],
    ids=["TLS", "rubbish", "header", "length", "negative", "two lengths", "chunks", "version", "long"],
)
def test_what_is_not_even_http_gets_an_error_or_the_end_of_the_connection(lasting_http: Bridge, raw: bytes) -> None:
    lasting_http.works()
    with socket.create_connection(("127.0.0.1", lasting_http.port), timeout=PATIENCE) as connection:
        try:
            connection.sendall(raw)
            answer = connection.recv(65536)
        except ConnectionError:
            answer = b""
    assert answer == b"" or 400 <= int(answer.split()[1]) < 600, answer
    lasting_http.works()


def test_cancelling_by_id_means_nothing_over_http(http: Bridge, journal: Journal) -> None:
    with post_raw(http.port, json.dumps(plain(9, "slow", seconds=1)).encode(), headers(plain(9, "slow"))) as call:
        until(lambda: journal.calls("slow"))
        for id in (9, "never", None):
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
            answer = post(http, json.dumps(note).encode())
            assert (answer.status_code, answer.content) == (202, b"")
        assert b"slept 1" in received(call)
    assert not journal.messages("notifications/cancelled")
    http.works()


# -- HTTP: clients that vanish or dawdle -------------------------------------------------------------------------------


def test_a_client_that_vanishes_mid_call_cancels_it_at_the_server(http: Bridge, journal: Journal) -> None:
    before = settled(http)
    connection = post_raw(http.port, json.dumps(plain(1, "slow", seconds=60)).encode(), headers(plain(1, "slow")))
    until(lambda: journal.calls("slow"))
    connection.close()
    cancelled = until(lambda: journal.messages("notifications/cancelled"))
    assert [message["params"]["requestId"] for message in cancelled] == [journal.calls("slow")[0]["id"]]
    until(lambda: open_files(http) <= before)
    http.works()


def test_a_client_that_vanishes_while_it_sends_its_body_leaves_nothing(http: Bridge, journal: Journal) -> None:
    before, heard = settled(http), len(journal.calls("echo"))
    for cut in (0, 1, len(GOOD) // 2, len(GOOD) - 1):
        post_raw(http.port, GOOD[:cut], headers(ECHO), length=len(GOOD)).close()
    until(lambda: open_files(http) <= before)
    assert len(journal.calls("echo")) == heard
    http.works()


def test_a_client_that_vanishes_while_its_head_is_sent_leaves_nothing(http: Bridge) -> None:
    before = settled(http)
    head = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\r\n"
    for cut in range(0, len(head) - 1, 3):
        with socket.create_connection(("127.0.0.1", http.port)) as connection:
            connection.sendall(head[:cut])
    until(lambda: open_files(http) <= before)
    http.works()


def test_a_slow_body_is_waited_for_and_holds_up_nobody(lasting_http: Bridge) -> None:
    with post_raw(lasting_http.port, GOOD[:10], headers(ECHO), length=len(GOOD)) as connection:
        for at in range(10, len(GOOD), 40):
            lasting_http.works()
            connection.sendall(GOOD[at : at + 40])
        assert b'"hi"' in received(connection)


@pytest.mark.full
def test_bodies_that_never_end_do_not_hold_up_the_end(http: Bridge) -> None:
    open_ones = [post_raw(http.port, GOOD[:10], headers(ECHO), length=len(GOOD)) for _ in range(5)]
    http.works()
    http.end()
    for connection in open_ones:
        connection.close()


@pytest.mark.full
def test_a_body_that_never_ends_is_given_up_after_a_minute(http: Bridge) -> None:
    with post_raw(http.port, GOOD[:10], headers(ECHO), length=len(GOOD)) as connection:
        connection.settimeout(75)
        assert connection.recv(65536).startswith(b"HTTP/1.1 408 ")
    http.works()


def test_case_50_a_hundred_clients_that_vanish_at_once_leave_nothing(http: Bridge, journal: Journal) -> None:
    before = settled(http)
    body = json.dumps(plain(1, "slow", seconds=60)).encode()
    connections = [post_raw(http.port, body, headers(plain(1, "slow"))) for _ in range(100)]
    until(lambda: len(journal.calls("slow")) == 100)
    for connection in connections:
        connection.close()
    until(lambda: len(journal.messages("notifications/cancelled")) == 100)
    ids = {message["params"]["requestId"] for message in journal.messages("notifications/cancelled")}
    assert ids == {call["id"] for call in journal.calls("slow")}
    until(lambda: open_files(http) <= before)
    assert len(journal.pids()) == 2  # one for each set of capabilities
    http.works()


def test_clients_that_use_the_same_id_do_not_meet(lasting_http: Bridge) -> None:
    bodies = [plain(1, "echo", text=f"client {number}") for number in range(30)]
    connections = [post_raw(lasting_http.port, json.dumps(body).encode(), headers(body)) for body in bodies]
    for number, connection in enumerate(connections):
        with connection:
            assert f'"client {number}"'.encode() in received(connection)
