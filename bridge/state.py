"""The sealed `requestState` [basic/patterns/mrtr]: which suspended call a retry resumes, in at most 96 characters.

The text comes back through a client, so it is the attacker's: it is verified, bound and expires. It says which instance
holds the call, which call and which step it is, until when, and (a keyed digest) for whose and which request. It holds
nothing that the bridge can recompute and no question or answer. Format version and server name are bound to it as
associated data and take no room.

Not for this module: single use, and whether the call is still there. Those who know say so with the same `Reason`s; the
client hears the same error whatever the reason was, and the log hears the reason.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import msgpack

from bridge.keyring import Box, BoxError, Key, KeyRing
from modern.errors import INVALID_PARAMS, ProtocolError

FORMAT: Final = 1
LONGEST: Final = 96
"""Characters of the longest text; what is longer is refused before it is decoded."""
INSTANCE_SIZE: Final = 4
CALL_SIZE: Final = 8
DIGEST_SIZE: Final = 8
LAST_STEP: Final = 2**16
_LAST_SECOND: Final = 2**63 - 1
_NOT_DIGESTED: Final = frozenset({"_meta", "inputResponses", "requestState"})

FROZEN_MESSAGE: Final = (
    "This requestState is not, or no longer, valid. Send the request again without requestState and inputResponses to "
    "start it anew, if it may be repeated."
)


class Reason(StrEnum):
    """Why a retry was refused. For the log and the metrics, never for the client."""

    MALFORMED = "malformed"
    UNKNOWN_KEY = "unknown_key"
    TAMPERED = "tampered"
    EXPIRED = "expired"
    USED = "used"
    CALL_GONE = "call_gone"
    OTHER_PRINCIPAL = "other_principal"
    OTHER_REQUEST = "other_request"


class StateError(Exception):
    """A `requestState` that resumes nothing."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(f"the requestState was refused: {reason}")
        self.reason = reason


def reject(reason: Reason) -> ProtocolError:
    """The one error of a refused `requestState`: the same for every reason, which the caller logs."""
    del reason  # Taken so that no caller can refuse without having one to log.
    return ProtocolError(INVALID_PARAMS, FROZEN_MESSAGE, {"reason": "invalid_request_state"})


@dataclass(frozen=True, slots=True)
class State:
    """What a token says. `key` is the key that sealed it: None in one that was never sealed."""

    instance: bytes
    call: bytes
    step: int
    expires: int
    """Unix seconds; at this second the token is no longer good."""
    digest: bytes
    """See `Sealer.digest`."""
    key: Key | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not _admissible([FORMAT, self.instance, self.call, self.step, self.expires, self.digest]):
            raise ValueError("this state has a part of the wrong size")


def new_instance() -> bytes:
    """An id for this process."""
    return os.urandom(INSTANCE_SIZE)


def new_call() -> bytes:
    """An id for a call that nobody can guess and no other call has."""
    return os.urandom(CALL_SIZE)


class Sealer:
    """Seals and unseals states under a key ring."""

    __slots__ = ("_box", "ring")

    def __init__(self, ring: KeyRing) -> None:
        self.ring = ring
        self._box = Box(ring, "requestState")

    def seal(self, state: State, server_name: str) -> str:
        """A text for the client. ``state.digest`` must come from `digest` of this very sealer, without ``of``."""
        parts = (FORMAT, state.instance, state.call, state.step, state.expires, state.digest)
        return self._box.seal(msgpack.packb(parts, use_bin_type=True), _bound(server_name))

    def unseal(self, token: object, server_name: str, now: float) -> State:
        """What a sealed text says.

        Raises:
            StateError: it is malformed, of an unknown key, tampered with (or of another server), or expired.
        """
        try:
            content, key = self._box.open(token, _bound(server_name), longest=LONGEST)
        except BoxError as error:
            raise StateError(Reason(error.reason.value)) from None
        try:
            parts: Any = msgpack.unpackb(content, raw=False, strict_map_key=True)
        except (ValueError, msgpack.UnpackException):
            raise StateError(Reason.MALFORMED) from None
        if not _admissible(parts):
            raise StateError(Reason.MALFORMED)
        _, instance, call, step, expires, digest = parts
        if now >= expires:
            raise StateError(Reason.EXPIRED)
        return State(instance, call, step, expires, digest, key)

    def digest(
        self, principal: str, method: str, params: Mapping[str, Any] | None, *, of: State | None = None
    ) -> bytes:
        """A keyed digest of whose request it is and which: the same for a retry, another for everything else.

        ``of`` is an unsealed state to compare with: its own key is used, since the ring may have rotated meanwhile.
        `matches` does the whole comparison.
        """
        key = self.ring.first if of is None or of.key is None else of.key
        kept = {name: value for name, value in (params or {}).items() if name not in _NOT_DIGESTED}
        mac = hashlib.blake2b(digest_size=DIGEST_SIZE, key=_digest_key(key))
        mac.update(canonical([principal, method, kept]))
        return mac.digest()

    def matches(self, state: State, principal: str, method: str, params: Mapping[str, Any] | None) -> bool:
        """Whether an unsealed state was made for this request of this principal."""
        return hmac.compare_digest(state.digest, self.digest(principal, method, params, of=state))


def canonical(value: Any) -> bytes:
    """JSON data as bytes: equal for equal data whatever the order of keys, different for everything JSON tells apart.

    ``1``, ``1.0``, ``"1"``, ``true`` and null differ, and each part says its length, so no two values run together. A
    loop instead of recursion: how deep the data goes is the client's choice.
    """
    out: list[bytes] = []
    todo: list[Any] = [value]
    while todo:
        match todo.pop():
            case None:
                out.append(b"n")
            case bool() as flag:
                out.append(b"t" if flag else b"f")
            case str() as text:
                raw = text.encode("utf-8", "surrogatepass")
                out.append(b"s%d:%b" % (len(raw), raw))
            case int() as number:
                out.append(b"i%x;" % number)  # Hexadecimal: Python refuses long decimal texts.
            case float() as number:
                out.append(b"d" + struct.pack(">d", number))
            case list() as items:
                out.append(b"[%d:" % len(items))
                todo.extend(reversed(items))
            case dict() as members:
                out.append(b"{%d:" % len(members))
                for name in sorted(members, reverse=True):
                    todo.append(members[name])
                    todo.append(name)
            case other:
                raise TypeError(f"{type(other).__name__} is not JSON data")
    return b"".join(out)


@lru_cache(maxsize=64)
def _digest_key(key: Key) -> bytes:
    return key.derive("requestState digest")


@lru_cache(maxsize=1024)
def _bound(server_name: str) -> bytes:
    return b"%d %b" % (FORMAT, server_name.encode("utf-8", "surrogatepass"))


def _admissible(parts: Any) -> bool:
    """By types and lengths; a pattern would say the same at fifteen times the cost, thrice a round."""
    if type(parts) not in (list, tuple) or len(parts) != 6:
        return False
    version, instance, call, step, expires, digest = parts
    if not (
        type(version) is type(step) is type(expires) is int and type(instance) is type(call) is type(digest) is bytes
    ):
        return False
    return (
        version == FORMAT
        and len(instance) == INSTANCE_SIZE
        and len(call) == CALL_SIZE
        and len(digest) == DIGEST_SIZE
        and 0 <= step <= LAST_STEP
        and 0 <= expires <= _LAST_SECOND
    )
