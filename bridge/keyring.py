"""The keys that seal what clients carry for the bridge, and the one way to seal something with them.

A ring holds one or more keys. **The first seals, all unseal**, so keys rotate without downtime: put the new key second
everywhere, then first everywhere, and take the old one out once what it sealed has expired. A sealed text names its key
by a short derived id, so unsealing never tries keys one after the other.

No key is ever used as it is: for every purpose another one is derived (HKDF-SHA256), so a text sealed as one thing
cannot be opened as another. Sealing is AES-256-GCM with a random nonce (good for 2**32 texts a key; rotate before).

Key texts never appear in an error message, a log or a ``repr``.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

ENVIRONMENT_VARIABLE: Final = "MRTR_BRIDGE_KEYS"
KEY_PREFIX: Final = "mrtr-key-"
KEY_SIZE: Final = 32
KEY_ID_SIZE: Final = 2
NONCE_SIZE: Final = 12
TAG_SIZE: Final = 16
OVERHEAD: Final = KEY_ID_SIZE + NONCE_SIZE + TAG_SIZE
"""Bytes that sealing adds to what is sealed, before base64."""

_URL_SAFE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class KeyRingError(ValueError):
    """Keys that cannot be used; the message is a sentence for the operator and never holds a key."""


class Unopened(StrEnum):
    """Why a sealed text was not opened."""

    MALFORMED = "malformed"
    UNKNOWN_KEY = "unknown_key"
    TAMPERED = "tampered"


class BoxError(Exception):
    """A sealed text that was not opened."""

    def __init__(self, reason: Unopened) -> None:
        super().__init__(f"the sealed text was not opened: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Key:
    """One secret of 32 bytes; `id` is derived from it and may be shown."""

    secret: bytes = field(repr=False)
    id: bytes = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_SIZE:
            raise KeyRingError(f"A key has {KEY_SIZE} bytes; make one with `mrtr-bridge keygen`.")
        object.__setattr__(self, "id", self.derive("key id", KEY_ID_SIZE))

    def derive(self, purpose: str, length: int = 32) -> bytes:
        """The key for ``purpose``, and for nothing else."""
        info = b"mrtr-bridge " + purpose.encode()
        return HKDF(algorithm=SHA256(), length=length, salt=None, info=info).derive(self.secret)


@dataclass(frozen=True, slots=True)
class KeyRing:
    """At least one key, no two with the same id."""

    keys: tuple[Key, ...]
    _by_id: dict[bytes, Key] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.keys:
            raise KeyRingError("The key ring is empty; make a key with `mrtr-bridge keygen`.")
        by_id: dict[bytes, Key] = {}
        for key in self.keys:
            if by_id.setdefault(key.id, key) != key:
                raise KeyRingError("Two different keys of the ring have the same short id; replace the newer one.")
        object.__setattr__(self, "_by_id", by_id)

    @classmethod
    def parse(cls, text: str) -> KeyRing:
        """Read keys as `mrtr-bridge keygen` prints them, separated by commas or white space; ``#`` starts a comment."""
        words = [word for line in text.splitlines() for word in re.split(r"[,\s]+", line.partition("#")[0]) if word]
        return cls(tuple(_parse_key(word, number) for number, word in enumerate(words, 1)))

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> KeyRing | None:
        """The ring in ``MRTR_BRIDGE_KEYS``, or None when the variable is absent or blank."""
        text = (os.environ if environ is None else environ).get(ENVIRONMENT_VARIABLE, "")
        if not text.strip():
            return None
        try:
            return cls.parse(text)
        except KeyRingError as error:
            raise KeyRingError(f"{ENVIRONMENT_VARIABLE}: {error}") from None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> KeyRing:
        """The ring in a file, one key a line."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise KeyRingError(f"The key file {os.fspath(path)} is not text in UTF-8.") from None
        except OSError as error:
            raise KeyRingError(f"The key file {os.fspath(path)} cannot be read: {error.strerror or error}.") from error
        try:
            return cls.parse(text)
        except KeyRingError as error:
            raise KeyRingError(f"The key file {os.fspath(path)}: {error}") from None

    @classmethod
    def random(cls) -> KeyRing:
        """A ring of one key that lives as long as this process: what it seals is worth nothing afterwards."""
        return cls((Key(secrets.token_bytes(KEY_SIZE)),))

    @property
    def first(self) -> Key:
        """The key that seals."""
        return self.keys[0]

    def find(self, key_id: bytes) -> Key | None:
        return self._by_id.get(key_id)


class Box:
    """Seals bytes for one purpose under a ring, as URL-safe text without padding.

    ``bound`` (the associated data) takes no room in the text and must be the same at both ends.
    """

    __slots__ = ("_purpose", "ring")

    def __init__(self, ring: KeyRing, purpose: str) -> None:
        self.ring = ring
        self._purpose = purpose

    def seal(self, content: bytes, bound: bytes, *, stable: bool = False) -> str:
        """``content`` as text; ``stable``: the same text for the same content, which then can be recognised."""
        key = self.ring.first
        nonce = _nonce_of(key, self._purpose, content, bound) if stable else os.urandom(NONCE_SIZE)
        return encode(key.id + nonce + _cipher(key, self._purpose).encrypt(nonce, content, bound))

    def open(self, text: object, bound: bytes, *, longest: int) -> tuple[bytes, Key]:
        """What was sealed, and the key that sealed it.

        Raises:
            BoxError: ``text`` is longer than ``longest`` characters, is not exactly as `seal` writes, names a key that
                is not in the ring, or was not sealed by it, as it is, for this purpose and ``bound``.
        """
        raw = _decode(text, longest)
        if raw is None or len(raw) < OVERHEAD:
            raise BoxError(Unopened.MALFORMED)
        key = self.ring.find(raw[:KEY_ID_SIZE])
        if key is None:
            raise BoxError(Unopened.UNKNOWN_KEY)
        nonce, sealed = raw[KEY_ID_SIZE : KEY_ID_SIZE + NONCE_SIZE], raw[KEY_ID_SIZE + NONCE_SIZE :]
        try:
            return _cipher(key, self._purpose).decrypt(nonce, sealed, bound), key
        except InvalidTag:
            raise BoxError(Unopened.TAMPERED) from None


def generate() -> str:
    """A new key as text."""
    return KEY_PREFIX + encode(secrets.token_bytes(KEY_SIZE))


def encode(raw: bytes) -> str:
    """Base64 in the URL-safe alphabet without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


@lru_cache(maxsize=64)
def _cipher(key: Key, purpose: str) -> AESGCM:
    return AESGCM(key.derive(purpose))


@lru_cache(maxsize=64)
def _nonce_key(key: Key, purpose: str) -> bytes:
    return key.derive(f"{purpose} nonce")


def _nonce_of(key: Key, purpose: str, content: bytes, bound: bytes) -> bytes:
    """A nonce that comes again only with the very same content and binding, for which it makes the same text."""
    mac = blake2b(b"%d:" % len(bound), key=_nonce_key(key, purpose), digest_size=NONCE_SIZE)
    mac.update(bound)
    mac.update(content)
    return mac.digest()


def _decode(text: object, longest: int) -> bytes | None:
    """The bytes that `encode` turns into exactly ``text``; None for everything else.

    The length is looked at before anything is decoded, and the one spelling of the last character is insisted on: else
    one token would have several texts.
    """
    if not isinstance(text, str) or len(text) > longest or not _URL_SAFE.fullmatch(text):
        return None
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return None
    return raw if encode(raw) == text else None


def _parse_key(word: str, number: int) -> Key:
    secret = _decode(word.removeprefix(KEY_PREFIX), 64)
    if secret is None or len(secret) != KEY_SIZE:
        raise KeyRingError(f"Key number {number} is not a key; make one with `mrtr-bridge keygen`.")
    return Key(secret)
