"""The sealed requestState: what it keeps, what it refuses, and how long it is."""

from __future__ import annotations

import base64
import re
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.keyring import Box, KeyRing, encode, generate
from bridge.state import (
    FROZEN_MESSAGE,
    LAST_STEP,
    LONGEST,
    Reason,
    Sealer,
    State,
    StateError,
    new_call,
    new_instance,
    reject,
)

OLD, NEW = generate(), generate()
SEALER = Sealer(KeyRing.parse(OLD))
NAMES = st.text(max_size=40)
STATES = st.builds(
    State,
    st.binary(min_size=4, max_size=4),
    st.binary(min_size=8, max_size=8),
    st.integers(0, LAST_STEP),
    st.integers(1, 2**63 - 1),
    st.binary(min_size=8, max_size=8),
)
STATE = State(new_instance(), new_call(), 1, 2_000_000_000, b"digest!!")


def refusal(sealer: Sealer, token: object, name: str = "files", now: float = 0) -> Reason:
    with pytest.raises(StateError) as caught:
        sealer.unseal(token, name, now)
    return caught.value.reason


@given(STATES, NAMES)
def test_what_was_sealed_comes_back(state: State, name: str) -> None:
    assert SEALER.unseal(SEALER.seal(state, name), name, now=0) == state


@given(STATES, NAMES)
def test_a_token_is_short_url_safe_text(state: State, name: str) -> None:
    token = SEALER.seal(state, name)
    assert len(token) <= LONGEST
    assert re.fullmatch(r"[A-Za-z0-9_-]+", token)


def test_the_longest_state_just_fits() -> None:
    longest = State(b"\xff" * 4, b"\xff" * 8, LAST_STEP, 2**63 - 1, b"\xff" * 8)
    assert len(SEALER.seal(longest, "files")) == LONGEST
    assert len(SEALER.seal(STATE, "files")) < LONGEST - 8


def test_the_same_state_is_never_sealed_into_the_same_text() -> None:
    assert SEALER.seal(STATE, "files") != SEALER.seal(STATE, "files")


@given(st.data())
def test_any_flipped_bit_is_refused(data: st.DataObject) -> None:
    token = SEALER.seal(STATE, "files")
    raw = bytearray(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= 1 << data.draw(st.integers(0, 7))
    assert refusal(SEALER, encode(bytes(raw))) in {Reason.TAMPERED, Reason.UNKNOWN_KEY}


@given(st.data())
def test_any_other_character_is_refused(data: st.DataObject) -> None:
    token = SEALER.seal(STATE, "files")
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters().filter(lambda c: c != token[at]))
    refusal(SEALER, token[:at] + other + token[at + 1 :])


@given(st.integers(1, LONGEST))
def test_a_shortened_token_is_refused(cut: int) -> None:
    token = SEALER.seal(STATE, "files")
    refusal(SEALER, token[:-cut])


@given(NAMES, NAMES)
def test_another_servers_token_is_refused(mine: str, other: str) -> None:
    token = SEALER.seal(STATE, other)
    if mine != other:
        assert refusal(SEALER, token, mine) is Reason.TAMPERED


@pytest.mark.parametrize("token", [None, 5, True, b"abc", ["a"], {}, "", "a", "A" * (LONGEST + 1), "A" * 10_000_000])
def test_what_cannot_be_a_token_is_malformed(token: object) -> None:
    assert refusal(SEALER, token) is Reason.MALFORMED


@pytest.mark.parametrize(
    "change", ["{} ", " {}", "{}\n", "{}=", "{}==", "{}\0", "{}é", "{}\N{FULLWIDTH LATIN SMALL LETTER A}"]
)
def test_nothing_may_surround_a_token(change: str) -> None:
    assert refusal(SEALER, change.format(SEALER.seal(STATE, "files"))) is Reason.MALFORMED


def test_only_one_spelling_of_a_token_is_good() -> None:
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    token = SEALER.seal(State(b"i" * 4, b"c" * 8, 1, 300, b"d" * 8), "files")
    assert len(token) % 4 != 0, "the last character of this token has spare bits"
    spelled = [token[:-1] + last for last in alphabet]
    good = [text for text in spelled if _opens(text)]
    assert good == [token]


def _opens(token: str) -> bool:
    try:
        SEALER.unseal(token, "files", now=0)
    except StateError:
        return False
    return True


def test_the_other_alphabet_is_malformed() -> None:
    assert refusal(SEALER, "+/" * 40) is Reason.MALFORMED


@pytest.mark.parametrize(("now", "good"), [(1_999_999_999.9, True), (2_000_000_000, False), (2_000_000_000.5, False)])
def test_a_token_ends_at_its_second(now: float, good: bool) -> None:
    token = SEALER.seal(STATE, "files")
    if good:
        assert SEALER.unseal(token, "files", now) == STATE
    else:
        assert refusal(SEALER, token, now=now) is Reason.EXPIRED


def test_a_rotated_ring_still_unseals() -> None:
    token = SEALER.seal(STATE, "files")
    assert Sealer(KeyRing.parse(f"{NEW} {OLD}")).unseal(token, "files", 0) == STATE


def test_a_dropped_key_refuses() -> None:
    token = SEALER.seal(STATE, "files")
    assert refusal(Sealer(KeyRing.parse(NEW)), token) is Reason.UNKNOWN_KEY


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xc1",
        msgpack.packb({}),
        msgpack.packb([1]),
        msgpack.packb([2, b"i" * 4, b"c" * 8, 1, 2_000_000_000, b"d" * 8]),
        msgpack.packb([1, b"i" * 3, b"c" * 8, 1, 2_000_000_000, b"d" * 8]),
        msgpack.packb([1, b"i" * 4, b"c" * 8, -1, 2_000_000_000, b"d" * 8]),
        msgpack.packb([1, b"i" * 4, b"c" * 8, 1, "tomorrow", b"d" * 8]),
        msgpack.packb([1, b"i" * 4, b"c" * 8, 1, 2_000_000_000, b"d" * 8]) + b"\0",
    ],
)
def test_a_key_holders_nonsense_is_malformed(content: bytes) -> None:
    token = Box(SEALER.ring, "requestState").seal(content, b"1 files")
    assert refusal(SEALER, token) is Reason.MALFORMED


@pytest.mark.parametrize(
    "change", [{"instance": b""}, {"call": b"c" * 9}, {"step": LAST_STEP + 1}, {"expires": -1}, {"digest": b"d" * 7}]
)
def test_a_state_of_the_wrong_size_cannot_be_made(change: dict[str, Any]) -> None:
    right: dict[str, Any] = {"instance": b"i" * 4, "call": b"c" * 8, "step": 1, "expires": 1, "digest": b"d" * 8}
    State(**right)
    with pytest.raises(ValueError, match="wrong size"):
        State(**right | change)


def test_every_reason_reads_the_same_to_the_client() -> None:
    bodies = [reject(reason).body() for reason in Reason]
    assert all(body == bodies[0] for body in bodies)
    assert bodies[0]["code"] == -32602
    assert bodies[0]["message"] == FROZEN_MESSAGE
    assert "not, or no longer, valid" in FROZEN_MESSAGE
    assert "if it may be repeated" in FROZEN_MESSAGE
