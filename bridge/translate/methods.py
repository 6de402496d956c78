"""Which methods there are between the eras: the tables that everything else looks methods up in.

For a request that is not here there is no legacy form: the modern face answers it itself, or with ``-32601``
[basic/index, Error Codes].
"""

from __future__ import annotations

from typing import Final

SAME_NAME: Final = frozenset(
    {
        "completion/complete",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "tools/call",
        "tools/list",
    }
)
"""Client requests that go to the legacy server under the name that they have in 2026-07-28."""

SUSPENDABLE: Final = frozenset({"prompts/get", "resources/read", "tools/call"})
"""Client requests whose result may be ``input_required`` [basic/patterns/mrtr]."""

ASK_PREFIX: Final = {
    "elicitation/create": "elicit",
    "roots/list": "roots",
    "sampling/createMessage": "sample",
}
"""The requests a server may make of a client, and what their keys in ``inputRequests`` begin with."""

CAPABILITY_OF: Final = {"prompts/get": "prompts", "resources/read": "resources", "tools/call": "tools"}
"""The server capability under which a method names one thing (a tool, a prompt, a resource) that may be unknown."""
