"""From a target to a session, and to its end: the one task that owns everything a session has.

`run_session` is for `anyio.abc.TaskGroup.start`: it returns the session when the server may be sent requests, and goes
on until the session was closed or lost, or it is cancelled; whatever ends it, its process or connections have ended,
in bounded time, when it returns.
"""

from __future__ import annotations

from typing import Any

import anyio
import httpx
from anyio.abc import TaskStatus

from legacy.errors import CannotStart
from legacy.handshake import handshake
from legacy.session import Listener, Session
from legacy.targets import HttpTarget, Limits, StdioTarget
from legacy.transports.base import Transport
from legacy.transports.stdio import StdioTransport
from legacy.transports.streamable_http import StreamableHttpTransport


async def run_session(
    target: StdioTarget | HttpTarget,
    *,
    client_info: dict[str, Any],
    capabilities: dict[str, Any],
    listener: Listener,
    name: str,
    limits: Limits | None = None,
    task_status: TaskStatus[Session] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Start the server or reach it, initialise a session, own it to its end.

    Raises:
        CannotStart: before the session was ready; nothing is left running.
    """
    limits = limits or Limits()
    transport = open_transport(target, name, limits)
    await own_session(
        transport,
        client_info=client_info,
        capabilities=capabilities,
        listener=listener,
        name=name,
        limits=limits,
        task_status=task_status,
    )


def open_transport(target: StdioTarget | HttpTarget, name: str, limits: Limits) -> Transport:
    """The transport for a target, not yet entered."""
    match target:
        case StdioTarget():
            return StdioTransport(target, name, limits)
        case HttpTarget():
            url = httpx.URL(target.url)
            if url.scheme not in ("http", "https") or not url.host:
                raise CannotStart(f"{target.url!r} is no URL of a server; it has to begin with http:// or https://.")
            return StreamableHttpTransport(target, name, limits)


async def own_session(
    transport: Transport,
    *,
    client_info: dict[str, Any],
    capabilities: dict[str, Any],
    listener: Listener,
    name: str,
    limits: Limits,
    task_status: TaskStatus[Session] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """`run_session` over any transport."""
    session = Session(name, transport, listener)
    transport.attach(session)
    failure: CannotStart | None = None
    try:
        async with transport:
            # The failure is raised outside, since the transport may be a task group, which would wrap it.
            try:
                failure = await _start(session, transport, client_info, capabilities, limits)
                if failure is None:
                    session.started()
                    task_status.started(session)
                    await session.wait_ended()
            finally:
                session.ended(failure)
    finally:
        session.gone()
    if failure is not None:
        raise failure


async def _start(
    session: Session,
    transport: Transport,
    client_info: dict[str, Any],
    capabilities: dict[str, Any],
    limits: Limits,
) -> CannotStart | None:
    try:
        with anyio.fail_after(limits.start):
            await handshake(session, transport, client_info=client_info, capabilities=capabilities)
    except CannotStart as error:
        return error
    except TimeoutError:
        return CannotStart(
            f"The server {session.name!r} was not ready within {limits.start:g} s; give it longer to start, "
            "or see its output in the log."
        )
    return None
