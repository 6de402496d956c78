"""The seam between a modern face (HTTP, stdio) and whatever serves its requests.

A face turns bytes into a valid `Request`, gives it to a `Handler` and writes what comes back. It knows nothing of how
the answer is made; the handler knows nothing of bytes. Two rules hold the seam together:

* **Cancellation is the client's leaving.** When the client disconnects (HTTP) or sends ``notifications/cancelled``
  (stdio), the face cancels the task that runs `Handler.serve`; nothing is written for that request afterwards.
* **Notifications go by the leg.** While `serve` runs, the handler may call `Leg.notify`; the face delivers them before
  the response, in order. After `serve` has returned, `notify` does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from modern.envelope import Request


class Leg(Protocol):
    """One open request of a client, as far as notifications that belong to it are concerned."""

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Queue a notification for this leg's stream. Never blocks, never raises; a no-op once the leg has ended."""


class Handler(Protocol):
    """What answers valid modern requests."""

    async def serve(self, request: Request, leg: Leg) -> dict[str, Any]:
        """Return the result of ``request`` (``resultType`` included).

        ``subscriptions/listen`` returns only when the stream ends from this side; its notifications, the
        acknowledgement first, go through ``leg``.

        Raises:
            ProtocolError: the request ends with that JSON-RPC error.
        """

    def mirrored_parameters(self, request: Request) -> Mapping[str, Any] | None:
        """The ``inputSchema`` of the tool that ``request`` (a ``tools/call``) names.

        An empty mapping when no such tool is known, None when the tools of the server are not known yet: the face then
        awaits `learn_tools` once and asks again [basic/transports/streamable-http, Custom Headers].
        """

    async def learn_tools(self, request: Request) -> None:
        """Fetch the tools' definitions for this request's principal and capabilities.

        Raises:
            ProtocolError: no server could be asked; the request ends with it.
        """
