"""What the tests of `legacy` share: a listener that writes down what it hears, and waiting with a bound."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from legacy.connect import run_session
from legacy.messages import Ask, Reply
from legacy.probe import Found
from legacy.session import Session
from legacy.targets import HttpTarget, Limits, StdioTarget

CLIENT = {"name": "test", "version": "0"}
QUICK = Limits(
    start=5,
    eof_grace=0.3,
    term_grace=0.3,
    kill_grace=1,
    get_wait=0.5,
    ping_wait=0.3,
    post_wait=2,
    order_wait=0.2,
    delete_wait=0.5,
    linger=0.2,
    backoff=0.05,
    backoff_most=0.2,
    resume_tries=3,
    resume_silence=3,
)


@dataclass
class Ears:
    """A listener that remembers; `on_ask` may answer."""

    on_ask: Callable[[Session, Ask], None] | None = None
    asks: list[Ask] = field(default_factory=list)
    withdrawn_asks: list[Ask] = field(default_factory=list)
    notifications: list[tuple[str, dict[str, Any], int | None]] = field(default_factory=list)
    ghosts: list[int] = field(default_factory=list)
    ghost_replies: list[Reply] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    interruptions: int = 0

    def asked(self, session: Session, ask: Ask) -> None:
        self.asks.append(ask)
        if self.on_ask is not None:
            self.on_ask(session, ask)

    def withdrawn(self, session: Session, ask: Ask) -> None:
        self.withdrawn_asks.append(ask)

    def notified(self, session: Session, method: str, params: dict[str, Any], request_id: int | None) -> None:
        self.notifications.append((method, params, request_id))

    def ghost_ended(self, session: Session, request_id: int, reply: Reply) -> None:
        self.ghosts.append(request_id)
        self.ghost_replies.append(reply)

    def interrupted(self, session: Session) -> None:
        self.interruptions += 1

    def lost(self, session: Session, reason: str) -> None:
        self.losses.append(reason)


@asynccontextmanager
async def connected(
    target: StdioTarget | HttpTarget,
    ears: Ears | None = None,
    capabilities: dict[str, Any] | None = None,
    found: Found | None = None,
    look: bool = False,
    **limits: Any,
) -> AsyncIterator[Session]:
    """A session, closed at the end."""
    async with anyio.create_task_group() as tasks:

        async def run(*, task_status: Any) -> None:
            await run_session(
                target,
                client_info=CLIENT,
                capabilities={} if capabilities is None else capabilities,
                listener=ears or Ears(),
                name="srv",
                limits=replace(QUICK, **limits),
                found=found,
                look=look,
                task_status=task_status,
            )

        session: Session = await tasks.start(run)
        yield session
        with anyio.fail_after(10):
            await session.close()


def cause(error: BaseException) -> BaseException:
    """What is inside the groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def eventually(condition: Callable[[], object], seconds: float = 5) -> None:
    """Wait until ``condition()`` holds."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110
            await anyio.sleep(0.005)


def start(session: Session, method: str, params: dict[str, Any] | None = None) -> tuple[int, list[Reply]]:
    """Send a request; its id, and the list its reply will be in."""
    replies: list[Reply] = []
    return session.send(method, params, replies.append), replies
