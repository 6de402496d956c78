"""Who an HTTP request belongs to: by a bearer token the operator handed out, or by a header a trusted proxy sets.

The rule: a configured way that yields nobody refuses (`identify` returns None, the face answers 401); it never falls
back to anonymous. Without any way configured everybody is `ANONYMOUS`. Tokens never appear in messages, logs or a
``repr``; only their digests are kept.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

ANONYMOUS: Final = "anonymous"
Identify = Callable[[Mapping[str, str]], str | None]
"""From a request's headers (names in lower case) to the principal, or None: refuse the request."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)  # RFC 6750: what a bearer token may look like.
_SHORTEST_TOKEN: Final = 16
_LONGEST_NAME: Final = 256


class PrincipalsError(ValueError):
    """A setting that cannot be used; the message is a sentence for the operator and never holds a token."""


def everybody_is_anonymous(headers: Mapping[str, str]) -> str | None:
    """For loopback, and where the operator says that sessions are shared."""
    del headers
    return ANONYMOUS


class Tokens:
    """Principals by bearer token."""

    __slots__ = ("_names",)

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = tuple((_digest(token), name) for token, name in names.items())

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Tokens:
        """Read lines of a token and a name, separated by white space; ``#`` starts a comment line."""
        shown = os.fspath(path)
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            raise PrincipalsError(f"The token file {shown} is not text in UTF-8.") from None
        except OSError as error:
            raise PrincipalsError(f"The token file {shown} cannot be read: {error.strerror or error}.") from error
        names: dict[str, str] = {}
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            if (fault := _fault(line, names)) is not None:
                raise PrincipalsError(f"{shown}, line {number}: {fault}")
            token, name = line.split(None, 1)
            names[token] = name.strip()
        if not names:
            raise PrincipalsError(f"The token file {shown} names nobody; give one token and one name a line.")
        return cls(names)

    def identify(self, headers: Mapping[str, str]) -> str | None:
        """The principal of ``Authorization: Bearer …``; every known token is compared, each in constant time."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest, found = _digest(token.strip()), None
        for known, name in self._names:
            if hmac.compare_digest(known, digest):
                found = name
        return found


class TrustedHeader:
    """Principals by a header that a proxy in front sets, and strips from what clients send."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        if not _HEADER_NAME.fullmatch(name):
            raise PrincipalsError("--principal-header takes the name of a header, such as X-Forwarded-User.")
        self._name = name.lower()

    def identify(self, headers: Mapping[str, str]) -> str | None:
        """The header's value. An empty, very long or doubled one (joined by a comma) is nobody's."""
        name = headers.get(self._name, "").strip()
        if not name or "," in name or len(name) > _LONGEST_NAME:
            return None
        return name


def identify_by(*, token_file: str | os.PathLike[str] | None = None, header: str | None = None) -> Identify | None:
    """The configured way; None when none is.

    Raises:
        PrincipalsError: both are given, or one cannot be used.
    """
    if token_file is not None and header is not None:
        raise PrincipalsError("Give either --auth-token-file or --principal-header, not both.")
    if token_file is not None:
        return Tokens.from_file(token_file).identify
    if header is not None:
        return TrustedHeader(header).identify
    return None


def _fault(line: str, names: Mapping[str, str]) -> str | None:
    token, *rest = line.split(None, 1)
    if not rest:
        return "a token and a name are needed, separated by white space."
    if not _TOKEN.fullmatch(token):
        return "the token has characters that no bearer token can have (letters, digits and -._~+/= may be used)."
    if len(token) < _SHORTEST_TOKEN:
        return f"the token is shorter than {_SHORTEST_TOKEN} characters and could be guessed."
    if len(rest[0].strip()) > _LONGEST_NAME or not rest[0].strip().isprintable():
        return f"the name must be at most {_LONGEST_NAME} printable characters."
    if token in names:
        return f"the same token is given to {names[token]} already."
    return None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
