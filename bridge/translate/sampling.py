"""``sampling/createMessage``: whether a client can read the request, and its answer in the words of an older revision.

Up to 2025-06-18 an answer has one block, in 2024-11-05 a text or an image only; later it may have several, and tool use
[client/sampling]. SDKs of 2025-11-25 still read one block only where the request had no tools.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bridge.translate.shapes import are_objects, are_texts, is_list, is_number, is_object, is_text, is_whole

_Check = Callable[[object], bool]

BLOCKS: Final[Mapping[str, Mapping[str, _Check]]] = {
    "audio": {"data": is_text, "mimeType": is_text},
    "image": {"data": is_text, "mimeType": is_text},
    "text": {"text": is_text},
    "tool_result": {"toolUseId": is_text, "content": is_list},
    "tool_use": {"id": is_text, "name": is_text, "input": is_object},
}
"""What a message may consist of, and what each kind must have."""

OPTIONAL: Final[Mapping[str, _Check]] = {
    "metadata": is_object,
    "modelPreferences": is_object,
    "stopSequences": are_texts,
    "systemPrompt": is_text,
    "temperature": is_number,
    "toolChoice": is_object,
    "tools": are_objects,
}

_ONE_BLOCK: Final = {
    "2024-11-05": frozenset({"image", "text"}),
    "2025-03-26": frozenset({"audio", "image", "text"}),
    "2025-06-18": frozenset({"audio", "image", "text"}),
}
"""The revisions whose answers are a single block, and of which kinds."""
_ROLES: Final = ("assistant", "user")


def request_fault(params: Mapping[str, Any]) -> str | None:
    """The field of a request that no client could read, and why; None if there is none."""
    messages = params.get("messages")
    if not isinstance(messages, list):
        return "messages must be a list"
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            return f"messages[{place}] has no role of user or assistant"
        fault = content_fault(message.get("content"))
        if fault is not None:
            return f"messages[{place}].content {fault}"
    if not is_whole(params.get("maxTokens")):
        return "maxTokens must be a whole number"
    return next(
        (f"{name} has the wrong type" for name, fits in OPTIONAL.items() if not _fits(params, name, fits)), None
    )


def answer_fault(answer: Mapping[str, Any]) -> str | None:
    """What is wrong with the shape of an answer; None if nothing is."""
    if answer.get("role") not in _ROLES:
        return "role must be user or assistant."
    if not isinstance(answer.get("model"), str):
        return "model must be a string."
    fault = content_fault(answer.get("content"))
    return None if fault is None else f"content {fault}."


def content_fault(content: object) -> str | None:
    """What is wrong with a block or a list of blocks."""
    for block in content if isinstance(content, list) else [content]:
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(block, dict) or not isinstance(kind, str) or kind not in BLOCKS:
            return "must be made of text, image, audio, tool_use or tool_result blocks"
        for name, fits in BLOCKS[kind].items():
            if not fits(block.get(name)):
                return f"has a {kind} block whose {name} is missing or of the wrong type"
    return None


def down(content: Any, protocol_version: str, *, with_tools: bool) -> dict[str, Any] | list[Any] | str:
    """Content of a right shape as ``protocol_version`` has it; a string instead says why it cannot be said there."""
    kinds = _ONE_BLOCK.get(protocol_version)
    blocks: list[dict[str, Any]] = content if isinstance(content, list) else [content]
    if kinds is None:
        whole: dict[str, Any] | list[Any] = content
        return whole if with_tools else _single(blocks) or whole
    for block in blocks:
        if block["type"] not in kinds:
            return f"The model answered with {block['type']} content, which {protocol_version} does not have."
    single = _single(blocks)
    if single is not None:
        return single
    if not blocks:
        return f"The model answered with no content, and {protocol_version} takes exactly one block."
    return f"The model answered with several blocks that are not all text, and {protocol_version} takes one."


def _single(blocks: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The blocks as one, if that loses nothing: there is only one, or all are text."""
    if len(blocks) == 1:
        return blocks[0]
    if not blocks or any(block["type"] != "text" for block in blocks):
        return None
    return {"type": "text", "text": "\n".join(block["text"] for block in blocks)}


def _fits(params: Mapping[str, Any], name: str, fits: _Check) -> bool:
    return name not in params or fits(params[name])
