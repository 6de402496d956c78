"""Keys: how they are read, what a mistake is told, and that no secret shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.keyring import KEY_PREFIX, Box, BoxError, Key, KeyRing, KeyRingError, Unopened, encode, generate


def test_a_generated_key_is_read_back() -> None:
    text = generate()
    assert text.startswith(KEY_PREFIX)
    assert KeyRing.parse(text) == KeyRing.parse(text.removeprefix(KEY_PREFIX))


def test_no_two_generated_keys_are_the_same() -> None:
    assert len({generate() for _ in range(100)}) == 100


@pytest.mark.parametrize("separator", [",", " ", "\n", " , ", "\r\n", "\t", " # a comment, with words\n"])
def test_keys_are_separated_by_commas_or_white_space(separator: str) -> None:
    one, two = generate(), generate()
    ring = KeyRing.parse(one + separator + two)
    assert ring.keys == (*KeyRing.parse(one).keys, *KeyRing.parse(two).keys)


def test_the_first_key_is_the_one_that_seals() -> None:
    one, two = generate(), generate()
    assert KeyRing.parse(f"{one},{two}").first == KeyRing.parse(one).first


def test_the_same_key_twice_does_no_harm() -> None:
    one = generate()
    assert KeyRing.parse(f"{one} {one}").find(KeyRing.parse(one).first.id) is not None


def test_two_keys_with_one_id_are_refused() -> None:
    seen: dict[bytes, Key] = {}
    for number in range(10_000):
        key = Key(number.to_bytes(32, "big"))
        other = seen.setdefault(key.id, key)
        if other is not key:
            with pytest.raises(KeyRingError, match="same short id"):
                KeyRing((other, key))
            return
    pytest.fail("no two ids met")


@pytest.mark.parametrize("text", ["", "  \n", ",", "# only a comment"])
def test_an_empty_ring_is_refused(text: str) -> None:
    with pytest.raises(KeyRingError, match="keygen"):
        KeyRing.parse(text)


@pytest.mark.parametrize("damage", [lambda k: k[:-1], lambda k: k + "A", lambda k: k[:-1] + "é", lambda k: "hunter2"])
def test_a_bad_key_is_refused_by_number_and_never_shown(damage: object) -> None:
    assert callable(damage)
    bad = damage(generate())
    with pytest.raises(KeyRingError, match="Key number 2 is not a key") as caught:
        KeyRing.parse(f"{generate()} {bad}")
    assert bad not in str(caught.value)


def test_the_environment_gives_a_ring_or_none() -> None:
    assert KeyRing.from_env({}) is None
    assert KeyRing.from_env({"MRTR_BRIDGE_KEYS": " "}) is None
    key = generate()
    assert KeyRing.from_env({"MRTR_BRIDGE_KEYS": key}) == KeyRing.parse(key)
    with pytest.raises(KeyRingError, match="MRTR_BRIDGE_KEYS: Key number 1"):
        KeyRing.from_env({"MRTR_BRIDGE_KEYS": "x"})


def test_a_file_gives_a_ring(tmp_path: Path) -> None:
    key = generate()
    path = tmp_path / "keys"
    path.write_text(f"# of today\n{key}\n")
    assert KeyRing.from_file(path) == KeyRing.parse(key)


@pytest.mark.parametrize(("content", "says"), [(None, "cannot be read"), (b"\xff", "not text"), (b"x", "Key number 1")])
def test_a_bad_file_is_named(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "keys"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KeyRingError, match=says) as caught:
        KeyRing.from_file(path)
    assert str(path) in str(caught.value)


def test_a_random_ring_is_another_each_time() -> None:
    assert KeyRing.random() != KeyRing.random()


def test_no_secret_shows_in_a_repr() -> None:
    secret = b"s" * 32
    ring = KeyRing((Key(secret),))
    assert "ssss" not in repr(ring)
    assert encode(secret) not in repr(ring)


def test_every_purpose_has_its_own_key() -> None:
    ring = KeyRing.random()
    sealed = Box(ring, "cursor").seal(b"next", b"")
    assert Box(ring, "cursor").open(sealed, b"", longest=100)[0] == b"next"
    with pytest.raises(BoxError) as caught:
        Box(ring, "requestState").open(sealed, b"", longest=100)
    assert caught.value.reason is Unopened.TAMPERED


def test_what_is_bound_must_be_the_same() -> None:
    box = Box(KeyRing.random(), "cursor")
    with pytest.raises(BoxError):
        box.open(box.seal(b"next", b"session 1"), b"session 2", longest=100)
