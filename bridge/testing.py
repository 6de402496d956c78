"""A bridge in your own process, around an old server that is in it too: for the tests of servers and clients.

No process, no port: the server is an ASGI application (Streamable HTTP or HTTP+SSE) or a server object of the official
Python SDK of the old protocol, and `http_face` is an ASGI application as well, which `in_process` puts behind an
``AsyncClient`` of httpx or httpx2. What runs between them is what runs in production. asyncio only.

    async with (
        bridge_for(old_server) as bridge,
        httpx.AsyncClient(transport=in_process(http_face(bridge)), base_url=URL) as http,
    ):
        ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import httpx

from bridge.app import bridge_running
from bridge.front import Front
from bridge.keyring import KeyRing
from bridge.settings import Limits, Server, Target
from legacy.sdk import low_level, sdk_target
from legacy.targets import AppTarget, MemoryTarget
from legacy.transports.asgi import Asgi, asgi_transport, lifespan
from modern.http import HttpFace, HttpSettings
from modern.http_app import PATH, Endpoint

__all__ = ["URL", "AppTarget", "MemoryTarget", "bridge_for", "http_face", "in_process"]

URL: Final = "http://127.0.0.1:8000/mcp"
"""Where `http_face` is, as its clients see it."""


@asynccontextmanager
async def bridge_for(
    server: Any,
    *,
    url: str = URL,
    headers: Mapping[str, str] | None = None,
    name: str = "server",
    limits: Limits | None = None,
    **options: Any,
) -> AsyncIterator[Front]:
    """A running bridge around ``server``; when this is left, everything that it started has ended.

    ``server`` is an ASGI application, a server object of an SDK (a new run of it for each session), an `AppTarget` or a
    `MemoryTarget`. An application is started and stopped with the bridge (its lifespan), and asked as if it were at
    ``url``: its path decides, and its host where the application looks at that. ``options`` are fields of
    `bridge.settings.Server`.

    Raises:
        CannotStart: the application could not start.
    """
    if isinstance(server, AppTarget | MemoryTarget):
        inside: AppTarget | MemoryTarget = server
    elif low_level(server) is not None:
        inside = sdk_target(server)
    else:
        inside = AppTarget(url, headers or {}, app=server)
    failure: Exception | None = None
    async with AsyncExitStack() as started:
        if isinstance(inside, AppTarget):
            inside = replace(inside, app=await started.enter_async_context(lifespan(inside.app)))
        settings = Server(target=Target(inside=inside, name=name), limits=limits or Limits(), **options)
        bridge = await started.enter_async_context(bridge_running(settings, KeyRing.random()))
        try:
            yield bridge
        except Exception as error:  # raised outside: the groups of tasks would wrap it
            failure = error
    if failure is not None:
        raise failure


def http_face(bridge: Front, settings: HttpSettings | None = None) -> Asgi:
    """The bridge as an ASGI application that speaks 2026-07-28 at ``/mcp``."""
    face = HttpFace(bridge, settings or HttpSettings(trouble=bridge.trouble, judged=bridge.judged))
    return Endpoint({PATH: face})


def in_process(app: Asgi, library: Any = httpx) -> Any:
    """A transport for ``AsyncClient(transport=...)``, whose responses stream; ``library`` is httpx, or httpx2."""
    return asgi_transport(app, library)
