"""The first exchange of a session: ``initialize``, its answer, ``notifications/initialized``.

Rules of 2025-11-25 basic/lifecycle: offer the latest revision we speak, accept any of ours, never cancel
``initialize``, send no other request before it is answered. A server that refuses the revision with an error that lists
those it supports is asked again with one of them; one that may have refused it because it knows no handshake at all is
asked what it speaks (`legacy.probe`).
"""

from __future__ import annotations

from typing import Any

import anyio

from legacy import probe
from legacy.errors import CannotStart, ModernServer, SessionClosed, cannot_start
from legacy.messages import Failure, Lost, Refusal, Reply, Result
from legacy.replies import says_one_session
from legacy.session import Session
from legacy.transports.base import Transport
from legacy.wire import printable

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
_SOMETHING_FAILED = frozenset({-32603, -32000})
"""What a server that has its one session already may say, as it would of anything that it did not expect."""


async def handshake(
    session: Session,
    transport: Transport,
    *,
    client_info: dict[str, Any],
    capabilities: dict[str, Any],
    look: bool = False,
) -> None:
    """Initialise ``session`` and bring ``transport`` to where a server may ask. ``look``: see whether the server, now
    that it has shaken hands, speaks a modern revision as well.

    Raises:
        CannotStart: with the reason as a sentence.
        ModernServer: the server knows no handshake; or it does, and is modern all the same.
    """
    version: str | None = VERSIONS[0]
    tried: set[str] = set()
    while version is not None:
        tried.add(version)
        params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client_info}
        match await _ask(session, "initialize", params):
            case Result(value):
                await _accept(session, transport, value)
                await transport.ready(session.ping)
                if look and not session.closed:  # not before ``initialized`` was taken
                    await _look(session, transport, client_info)
                if session.closed:
                    raise CannotStart(session.ended_because or f"The server {session.name!r} ended while it started.")
                return
            case Failure(code, message, data):
                version = _other(data, tried)
                if version is None:
                    await _tell_modern(session, transport, code, data, client_info)
                    said = f"The server {session.name!r} refused to initialize: {printable(message, 500)} ({code})."
                    raise cannot_start(said, _meant_by(code, message))
            case Lost(reason, refusal=refusal):
                raise cannot_start(reason, refusal)


async def _tell_modern(
    session: Session, transport: Transport, code: int, data: Any, client_info: dict[str, Any]
) -> None:
    """Raise `ModernServer` if the server that refused ``initialize`` is one."""
    said = probe.supported(data)
    if isinstance(said, list):
        _raise_modern(session, transport, probe.modern_versions(said))
    elif probe.may_be_modern(code):
        await _look(session, transport, client_info)


async def _look(session: Session, transport: Transport, client_info: dict[str, Any]) -> None:
    """Raise `ModernServer` if the server answers as one. In a session it costs an old one nothing: it is a method that
    it does not know."""
    params = probe.discover_params(client_info)
    versions: tuple[str, ...] = ()
    try:
        match await session.request(probe.DISCOVER, params, timeout=probe.DISCOVER_WAIT):
            case Result(value):
                versions = probe.modern_versions(value.get("supportedVersions"))
            case Failure(_, _, data):
                versions = probe.modern_versions(probe.supported(data))
            case Lost():
                pass
    except SessionClosed:
        raise CannotStart(session.ended_because or f"The server {session.name!r} ended at once.") from None
    _raise_modern(session, transport, versions)


def _raise_modern(session: Session, transport: Transport, versions: tuple[str, ...]) -> None:
    if versions:
        raise ModernServer(
            f"The server {session.name!r} speaks {', '.join(versions)} itself: a modern client can use it without a "
            "bridge.",
            url=transport.url,
            supported=versions,
        )


async def _ask(session: Session, method: str, params: dict[str, Any]) -> Reply:
    replies: list[Reply] = []
    arrived = anyio.Event()

    def on_reply(reply: Reply) -> None:
        replies.append(reply)
        arrived.set()

    try:
        session.send_plain(method, params, on_reply)
    except SessionClosed:
        raise CannotStart(session.ended_because or f"The server {session.name!r} ended at once.") from None
    await arrived.wait()
    return replies[0]


def _meant_by(code: int, message: str) -> Refusal | None:
    if says_one_session(message):
        return Refusal.ONE_SESSION
    return Refusal.PERHAPS_ONE_SESSION if code in _SOMETHING_FAILED else None


async def _accept(session: Session, transport: Transport, value: dict[str, Any]) -> None:
    version = value.get("protocolVersion")
    if version not in VERSIONS:
        raise CannotStart(
            f"The server {session.name!r} wants protocol version {printable(str(version), 40)!r}, "
            f"which is none of {', '.join(VERSIONS)}."
        )
    session.protocol_version = version
    session.server_info = _object(value.get("serverInfo"))
    session.capabilities = _object(value.get("capabilities"))
    instructions = value.get("instructions")
    session.instructions = instructions if isinstance(instructions, str) else None
    await transport.negotiated(version)
    session.notify("notifications/initialized")


def _other(data: Any, tried: set[str]) -> str | None:
    """The latest revision that we both speak, from the error's ``data.supported``."""
    supported = probe.supported(data)
    if not isinstance(supported, list):
        return None
    return next((version for version in VERSIONS if version in supported and version not in tried), None)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
