"""A server object of an official Python SDK, or of a framework upon it, in this process, as a target; for tests.

By what it can do, not by its type: a low-level server has ``run(read, write, options)`` and
``create_initialization_options()``, and the frameworks keep one inside. The SDK that it came from is asked for the
envelope of its messages; which SDK, and whether any, is the caller's choice.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, get_type_hints

import anyio
from pydantic import TypeAdapter

from legacy.errors import CannotStart
from legacy.targets import MemoryTarget
from legacy.wire import blame

log = logging.getLogger("mrtr.sdk")

_INSIDE = ("_mcp_server", "_lowlevel_server")
"""Where frameworks keep the server that does the work."""


def low_level(server: Any) -> Any | None:
    """The low-level server that this is, or has inside; None if it is something else."""
    for candidate in (server, *(getattr(server, name, None) for name in _INSIDE)):
        if hasattr(candidate, "run") and hasattr(candidate, "create_initialization_options"):
            return candidate
    return None


def sdk_target(server: Any) -> MemoryTarget:
    """A target that runs the server, once for each session.

    Raises:
        CannotStart: it is no server of an SDK.
    """
    inside = low_level(server)
    if inside is None:
        raise CannotStart(f"A {type(server).__name__} is no server of an official SDK, as far as can be told.")

    @asynccontextmanager
    async def connect() -> AsyncIterator[tuple[Any, Any]]:
        to_server, from_client = anyio.create_memory_object_stream[Any](0)
        to_client, from_server = anyio.create_memory_object_stream[Any](0)

        async def run() -> None:
            with to_client, from_client:
                try:
                    await inside.run(from_client, to_client, inside.create_initialization_options())
                except Exception as error:
                    log.error("the server failed: %s", blame(error))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            with to_server, from_server:
                yield from_server, to_server
            tasks.cancel_scope.cancel()

    return MemoryTarget(connect, _envelope(inside))


def _envelope(server: Any) -> Callable[[dict[str, Any]], Any]:
    """From a dict to what the streams of the server's SDK carry."""
    for kind in type(server).__mro__:
        try:
            envelope: Any = import_module(f"{kind.__module__.partition('.')[0]}.shared.message").SessionMessage
        except (ImportError, AttributeError):
            continue
        adapter: TypeAdapter[Any] = TypeAdapter(get_type_hints(envelope)["message"])
        return lambda message: envelope(adapter.validate_python(message))
    return lambda message: message
