"""A modern client's request as the legacy server gets it [basic/index, Request Metadata; basic/patterns/mrtr].

On the hot path: one pass over ``params`` and one over ``_meta``, values by reference.
"""

from __future__ import annotations

from typing import Any, Final

from bridge.translate import trace
from bridge.translate.meta import ENVELOPE

_NOT_PASSED: Final = frozenset({"_meta", "inputResponses", "requestState", "task"})
"""``task`` is what a client of 2025-11-25 asks for a task with; now the server alone decides [tasks extension]."""


def to_legacy(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """``params`` less what only 2026-07-28 has, and what has no meaning there.

    The envelope keys of ``_meta`` go (the session sets its own progress token), all others stay, trace context if it
    is well formed. ``method`` is for
    symmetry with the other tables: no method has parameters of its own that change.
    """
    legacy = {key: value for key, value in params.items() if key not in _NOT_PASSED}
    meta = params.get("_meta")
    if isinstance(meta, dict):
        left = {key: value for key, value in meta.items() if key not in ENVELOPE}
        if not trace.KEYS.isdisjoint(left):
            left = trace.well_formed(left)
        if left:
            legacy["_meta"] = left
    return legacy
