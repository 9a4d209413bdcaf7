"""Values from recipes checked against the types that a class declares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from masquerade.errors import MasqueradeError

WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", type(None): "left out"}


def check_types(values: Mapping[str, Any], kind: type, whose: str) -> None:
    """Raise a MasqueradeError if a value does not have the type that its field of ``kind`` declares. Numbers, text,
    truth values, lists of text and tables are checked; other types are not."""
    for name, declared in _declared(kind).items():
        allowed = get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,)
        if name in values and not any(_fits(values[name], each) for each in allowed):
            said = " or ".join(_described(each) for each in allowed)
            raise MasqueradeError(f"{whose} '{name}' is {values[name]!r}, but it has to be {said}.")


@cache
def _declared(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: object, declared: Any) -> bool:
    """Whether a value has a declared type; true for types that are not checked."""
    origin, inner = get_origin(declared) or declared, get_args(declared)
    if origin is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if origin is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if origin is tuple and inner[1:] == (...,):
        return isinstance(value, tuple | list) and all(_fits(each, inner[0]) for each in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(_fits(each, inner[1]) for each in value.values())
    return isinstance(value, origin) if origin in WORDS else True


def _described(declared: Any) -> str:
    """What a declared type allows, in words."""
    origin, inner = get_origin(declared) or declared, get_args(declared)
    if origin is tuple:
        return "a list" if inner[0] not in WORDS else f"a list of {WORDS[inner[0]]}"
    if origin is Mapping:
        return "a table" if inner[1] not in WORDS else f"a table whose values are each {WORDS[inner[1]]}"
    return WORDS.get(origin, str(declared))
