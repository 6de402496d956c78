"""Where running a call again is harmless, so that an answer counts that came too late for its server.

Reading a resource and getting a prompt are. A tool is if it says so in its annotations (hints only, so an operator may
know better): it only reads, or calling it again with the same arguments changes nothing more [server/tools].
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

ALL = "*"


def may_repeat(tool: Mapping[str, Any]) -> bool:
    """Whether the tool's definition says that running it again does no harm."""
    annotations = tool.get("annotations")
    return isinstance(annotations, Mapping) and (
        annotations.get("readOnlyHint") is True or annotations.get("idempotentHint") is True
    )


def replayable(method: str, name: str, *, repeatable_tools: Collection[str], operator: Mapping[str, bool]) -> bool:
    """Whether a call may be run again; ``name`` is the tool's or prompt's name, or the resource's URI. What an operator
    says names tools as they are, prompts and resources as ``prompts/get:NAME`` and ``resources/read:URI``."""
    said = operator.get(name if method == "tools/call" else f"{method}:{name}", operator.get(ALL))
    if said is not None:
        return said
    return method != "tools/call" or name in repeatable_tools
