"""The error ``-32042`` of 2025-11-25: a server refuses a request until its person has been at some URL.

2026-07-28 has no such error; there, the URLs are asked for like anything else [client/elicitation, URL Mode]. To accept
means to consent to the URL being opened; that it is done says ``notifications/elicitation/complete``, by the URL's id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from bridge.rounds import Delivery, Refusal
from bridge.translate import asks
from bridge.translate.capabilities import Profile
from legacy.messages import Ask, Failure

URL_ELICITATION_REQUIRED: Final = -32042
DECLINED: Final = (
    "The server does this only after a page in the browser has been visited, and that was declined or cancelled."
)
_NOBODY: Final = "-32042"
_CAN_OPEN: Final = Profile(url=True)


def pages(failure: Failure, now: float) -> list[Ask]:
    """The URLs that an error wants opened, as asks that no server waits for; none if it is another error, or names
    nothing that a client could open."""
    listed = failure.data.get("elicitations") if isinstance(failure.data, dict) else None
    if failure.code != URL_ELICITATION_REQUIRED or not isinstance(listed, list) or not listed:
        return []
    found = [_page(item, now) for item in listed if isinstance(item, dict)]
    if not all(isinstance(asks.present(page.method, page.params, _CAN_OPEN), asks.Presented) for page in found):
        return []
    return found if len(found) == len(listed) else []


def is_page(ask: Ask) -> bool:
    """Whether an ask was made of such an error."""
    return ask.server_id == _NOBODY


def ids(pages: Iterable[Ask]) -> frozenset[str]:
    """What the server will call the URLs when their completion is announced."""
    return frozenset(id for page in pages if isinstance(id := page.params.get("elicitationId"), str))


def consented(item: Delivery | Refusal) -> bool:
    """Whether the person agreed to open the URL."""
    return isinstance(item, Delivery) and item.result.get("action") == "accept"


def _page(item: dict[str, Any], now: float) -> Ask:
    return Ask("elicitation/create", {**item, "mode": "url"}, server_id=_NOBODY, request_id=None, at=now, open=False)


class SignIns:
    """Who waits for the completion of which URL, within one group.

    Invariant: whoever waits is told of each of its URLs at most once, and of none after `forget`.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[str], None]]] = {}

    def wait(self, ids: Iterable[str], tell: Callable[[str], None]) -> None:
        for id in ids:
            self._waiting.setdefault(id, []).append(tell)

    def forget(self, tell: Callable[[str], None]) -> None:
        if not self._waiting:
            return
        self._waiting = {
            id: left for id, waiting in self._waiting.items() if (left := [other for other in waiting if other != tell])
        }

    def completed(self, params: Mapping[str, Any]) -> None:
        """The server sent ``notifications/elicitation/complete``."""
        id = params.get("elicitationId")
        if isinstance(id, str):
            for tell in self._waiting.pop(id, []):
                tell(id)
