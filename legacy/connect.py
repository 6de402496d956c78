"""From a target to a session, and to its end: the one task that owns everything a session has.

`run_session` is for `anyio.abc.TaskGroup.start`: it returns the session when the server may be sent requests, and goes
on until the session was closed or lost, or it is cancelled; whatever ends it, its process or connections have ended,
in bounded time, when it returns.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import httpx
from anyio.abc import TaskStatus

from legacy.errors import CannotStart, NoHttpSse, OneSessionOnly
from legacy.handshake import handshake
from legacy.probe import Found
from legacy.session import Listener, Session
from legacy.targets import Limits, MemoryTarget, StdioTarget, Target
from legacy.transports.base import Transport
from legacy.transports.http_sse import HttpSseTransport
from legacy.transports.memory import MemoryTransport
from legacy.transports.one_call import OneCall
from legacy.transports.stdio import StdioTransport
from legacy.transports.streamable_http import StreamableHttpTransport


async def run_session(
    target: Target,
    *,
    client_info: dict[str, Any],
    capabilities: dict[str, Any],
    listener: Listener,
    name: str,
    limits: Limits | None = None,
    found: Found | None = None,
    look: bool = False,
    task_status: TaskStatus[Session] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Start the server or reach it, initialise a session, own it to its end.

    ``found`` is what earlier sessions with this target found out, and learns what this one does. ``look``: a server of
    Streamable HTTP that speaks a modern revision as well is to be called modern.

    Raises:
        CannotStart: before the session was ready; nothing is left running.
        ModernServer: one that is modern.
    """
    limits = limits or Limits()
    found = found or Found()
    log = logging.getLogger(f"mrtr.server.{name}")
    began = time.monotonic()
    refusal: CannotStart | None = None
    for transport in _candidates(target, name, limits, found):
        if refusal is not None:
            limits = replace(limits, start=max(1.0, round(limits.start - (time.monotonic() - began), 1)))
        try:
            await own_session(
                transport,
                client_info=client_info,
                capabilities=capabilities,
                listener=listener,
                name=name,
                limits=limits,
                ready=partial(found.learn, transport.kind, log),
                look=look and not found.legacy and transport.kind == StreamableHttpTransport.kind,
                task_status=task_status,
            )
            return
        except NoHttpSse as error:
            found.transport = None
            if refusal is None:
                refusal = error
            elif not isinstance(refusal, OneSessionOnly):
                refusal = CannotStart(f"{refusal} {error}")
        except CannotStart as error:
            if not isinstance(error, OneSessionOnly):
                found.transport = None
            if not isinstance(transport, StreamableHttpTransport) or not transport.perhaps_http_sse(error):
                raise
            refusal = error
    assert refusal is not None
    raise refusal


def _candidates(target: Target, name: str, limits: Limits, found: Found) -> Iterator[Transport]:
    """The transports to try one after the other, not yet entered; a refused ``initialize`` leads to the next
    (2025-03-26 basic/transports, Backwards Compatibility), and so does a GET where HTTP+SSE was once."""
    if isinstance(target, StdioTarget):
        stdio = StdioTransport(target, name, limits)
        yield OneCall(stdio) if target.one_call else stdio
        return
    if isinstance(target, MemoryTarget):
        yield MemoryTransport(target, name, limits)
        return
    url = httpx.URL(target.url)
    if url.scheme not in ("http", "https") or not url.host:
        raise CannotStart(f"{target.url!r} is no URL of a server; it has to begin with http:// or https://.")
    order: list[type[StreamableHttpTransport] | type[HttpSseTransport]] = [StreamableHttpTransport, HttpSseTransport]
    if target.transport != "auto":
        order = [kind for kind in order if kind.kind == target.transport]
    elif found.transport == HttpSseTransport.kind:
        order.reverse()
    for kind in order:
        yield kind(target, name, limits)


async def own_session(
    transport: Transport,
    *,
    client_info: dict[str, Any],
    capabilities: dict[str, Any],
    listener: Listener,
    name: str,
    limits: Limits,
    ready: Callable[[], None] = lambda: None,
    look: bool = False,
    task_status: TaskStatus[Session] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """`run_session` over any transport; ``ready`` is called when the server has shaken hands."""
    session = Session(name, transport, listener)
    transport.attach(session)
    failure: CannotStart | None = None
    try:
        async with transport:
            # The failure is raised outside, since the transport may be a task group, which would wrap it.
            try:
                failure = await _start(session, transport, client_info, capabilities, limits, look)
                if failure is None:
                    ready()
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
    look: bool,
) -> CannotStart | None:
    try:
        with anyio.fail_after(limits.start):
            await handshake(session, transport, client_info=client_info, capabilities=capabilities, look=look)
    except CannotStart as error:
        return error
    except TimeoutError:
        return CannotStart(
            f"The server {session.name!r} was not ready within {limits.start:g} s; give it longer to start "
            "(--start-timeout), or see its output in the log."
        )
    return None
