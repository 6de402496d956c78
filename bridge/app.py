"""Runs a bridge behind one of its faces until it is told to stop: the event loop, signals, and an orderly end.

Whatever ends it (end of stdin, SIGTERM, SIGINT, a fault), every session is closed before the process is, and all of it
is over within 5 s.
"""

from __future__ import annotations

import gc
import logging
import math
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import anyio.abc

from bridge.front import Front
from bridge.keyring import KeyRing
from bridge.serving import Bridge
from bridge.settings import Server
from bridge.settings_http import HttpOptions
from modern.http_app import PATH, Endpoint

log = logging.getLogger("mrtr.app")

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
GRACE = 1.5
"""Seconds that open requests get when the HTTP face is told to stop."""
CLOSE_WITHIN = 8.0
"""Seconds that all sessions together get to end; each has its own bound below this, and usually below 2.5."""


def run_stdio(server: Server, ring: KeyRing) -> int:
    """Serve a client on stdin and stdout until stdin ends; the exit code."""
    from modern.stdio import StdioSettings, serve_stdio

    async def main() -> int:
        # Signals are heard until all has ended: clients end our input, and send one if that takes too long for them.
        async with anyio.create_task_group() as signals:
            async with bridge_running(server, ring) as bridge, anyio.create_task_group() as tasks:
                signals.start_soon(_on_signal, tasks.cancel_scope.cancel)
                settings = StdioSettings(ready=bridge.ready, closing=bridge.stop_listening, judged=bridge.judged)
                await serve_stdio(bridge, settings)
                tasks.cancel_scope.cancel()
            signals.cancel_scope.cancel()
        return 0

    return _run(main)


def run_http(server: Server, ring: KeyRing, options: HttpOptions) -> int:
    """Serve clients of one server over HTTP until told to stop; the exit code.

    Raises:
        CannotListen: see `bridge.settings_http.bind`.
    """
    return _run_http({PATH: server}, ring, options, lambda port: options.url(port))


def run_fleet(servers: Mapping[str, Server], ring: KeyRing, options: HttpOptions) -> int:
    """Serve clients of several servers, each at ``/servers/NAME/mcp``; of one alone, at ``/mcp`` too.

    Raises:
        CannotListen: see `bridge.settings_http.bind`.
    """

    def where(port: int) -> str:
        base = options.url(port).removesuffix(PATH)
        return "".join(f"\n  {base}{fleet_path(name)}" for name in servers)

    paths = {fleet_path(name): server for name, server in servers.items()}
    return _run_http(paths, ring, options, where)


def fleet_path(name: str) -> str:
    """Where a server of a fleet is."""
    return f"/servers/{name}{PATH}"


def _run_http(servers: Mapping[str, Server], ring: KeyRing, options: HttpOptions, ready: Callable[[int], str]) -> int:
    """``servers`` by their path; ``ready``: what is said of where they are, from the port."""
    import uvicorn

    from bridge.settings_http import bind
    from modern.http import HttpFace, HttpSettings

    listener = bind(options)
    port = listener.getsockname()[1]

    class Uvicorn(uvicorn.Server):
        """Leaves signals to us, since its own handling ends the process before the sessions are closed."""

        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            yield

    def face(bridge: Front) -> HttpFace:
        return HttpFace(
            bridge,
            HttpSettings(
                max_body=options.max_body,
                allowed_hosts=options.allowed_hosts,
                allowed_origins=options.allowed_origins,
                identify=options.identify,
                trouble=bridge.trouble,
                judged=bridge.judged,
            ),
        )

    async def main() -> int:
        async with bridges_running(servers, ring) as bridges, anyio.create_task_group() as tasks:
            faces = {path: face(bridge) for path, bridge in bridges.items()}
            if len(faces) == 1:
                faces |= {PATH: next(iter(faces.values()))}
            endpoint = Endpoint(faces)
            config = uvicorn.Config(
                endpoint,
                lifespan="off",
                proxy_headers=False,
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=math.ceil(GRACE) + 1,
            )
            web = Uvicorn(config)

            def stop() -> None:
                endpoint.ending = True
                web.should_exit = True
                for bridge in bridges.values():
                    bridge.stop_listening()
                    tasks.start_soon(_close_after, GRACE, bridge)

            tasks.start_soon(_on_signal, stop)
            print(f"mrtr-bridge is ready: {ready(port)}", file=sys.stderr, flush=True)
            await web.serve(sockets=[listener])
            tasks.cancel_scope.cancel()
        return 0

    return _run(main)


@asynccontextmanager
async def bridge_running(server: Server, ring: KeyRing) -> AsyncIterator[Front]:
    """A bridge, what is before it, and the tasks they own; on leaving, everything they started has ended."""
    async with bridges_running({PATH: server}, ring) as bridges:
        yield bridges[PATH]


@asynccontextmanager
async def bridges_running(servers: Mapping[str, Server], ring: KeyRing) -> AsyncIterator[dict[str, Front]]:
    """The same for several, which end together."""
    async with anyio.create_task_group() as tasks:
        bridges = {key: Front(Bridge(server, ring, tasks)) for key, server in servers.items()}
        for bridge in bridges.values():
            tasks.start_soon(bridge.sweep)
        try:
            yield bridges
        finally:
            with anyio.move_on_after(CLOSE_WITHIN, shield=True):
                async with anyio.create_task_group() as closing:
                    for bridge in bridges.values():
                        closing.start_soon(bridge.close)
            tasks.cancel_scope.cancel()


async def _close_after(seconds: float, bridge: Front) -> None:
    """Answer what still runs and end the sessions, while the web server waits for clients that are slow to go."""
    await anyio.sleep(seconds)
    await bridge.close()


async def _on_signal(stop: Callable[[], Any]) -> None:
    """Call ``stop`` at the first SIGINT or SIGTERM; a second one ends the process at once."""
    if sys.platform == "win32":
        for number in STOP_SIGNALS:
            signal.signal(number, lambda *_: stop())
        await anyio.sleep_forever()
    with anyio.open_signal_receiver(*STOP_SIGNALS) as signals:
        async for number in signals:
            log.info("stopping: %s", signal.Signals(number).name)
            stop()
            break
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    await anyio.sleep_forever()


def _run(main: Callable[[], Awaitable[int]]) -> int:
    gc.collect()
    gc.freeze()  # what is loaded by now stays: the collector need not look at it again and again
    gc.set_threshold(50_000, 20, 20)
    return anyio.run(main, backend_options={"use_uvloop": _has_uvloop()})


def _has_uvloop() -> bool:
    try:
        import uvloop  # noqa: F401
    except ImportError:
        return False
    return True
