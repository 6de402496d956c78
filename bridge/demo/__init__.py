"""`mrtr-bridge demo`: an old server asks three kinds of question in the middle of a call, and an official client of
2026-07-28 answers them through the bridge. Every exchange is shown.
"""

from __future__ import annotations

import sys
from typing import Final

NEEDS_MORE: Final = (
    "The demo needs the official client of 2026-07-28: pip install 'mrtr-bridge[demo]', or use ./scripts/run from a "
    "checkout."
)


def run(interactive: bool) -> int:
    """Play the demo, alone or with the person at the terminal; the exit code."""
    try:
        from bridge.demo.client import play
    except ImportError as error:  # The package is missing, or it is one of the older protocol.
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        print(NEEDS_MORE, file=sys.stderr)
        return 2
    return play(interactive)
