"""The shapes that official clients look for in the JSON they read."""

from __future__ import annotations

from typing import Any, TypeGuard


def is_text(value: object) -> TypeGuard[str]:
    return isinstance(value, str)


def are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: object) -> bool:
    """Whether it is an integer to JSON Schema and to JavaScript: ``3.0`` is one."""
    return is_number(value) and (isinstance(value, int) or value.is_integer())


def is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def is_scalar(value: object) -> TypeGuard[str | int | float | bool]:
    return isinstance(value, str | int | float)


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def are_objects(value: object) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)
