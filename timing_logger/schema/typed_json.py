"""Check JSON that this package wrote earlier: keep only values of the types it was written from."""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

_INT64 = 2**63

_UNUSABLE: Any = object()
_MOST_PROBLEMS, _MOST_CHARS = 100, 200


class Rules(NamedTuple):
    """The checks that type annotations cannot express.

    Attributes:
        signed: names of integers that may be negative. All others are counts, sizes or instants.
        whole: classes of which an entry is useless if a field is missing. For other classes a missing field
            is no problem, because versions differ.
    """

    signed: Collection[str] = ()
    whole: Collection[type] = ()


class Checked(NamedTuple):
    """The usable part of a JSON value.

    Attributes:
        value: the content without the values of a wrong type, however deeply nested.
        problems: the paths of what was left out, such as ``clock_offsets[2].offset_ns``, in the order of the
            JSON; at most the first 100, each cut to 200 characters.
    """

    value: dict[str, Any]
    problems: list[str]


def checked(content: Mapping[str, Any], schema: type, rules: Rules) -> Checked:
    """Return the part of ``content`` whose types are those of ``schema``.

    A field that the schema does not know is kept. A list entry with a problem in any part is left out as a
    whole.

    Args:
        schema: a dataclass whose annotations are the types. NamedTuples, lists, dicts and unions may be
            nested in it.
    """
    kept, problems = _checked_fields(content, _fields_of(schema), "", rules)
    return Checked(kept, [problem[:_MOST_CHARS] for problem in problems[:_MOST_PROBLEMS]])


def _checked(value: Any, kind: Any, path: str, rules: Rules) -> tuple[Any, list[str]]:
    """Return the usable part of a value, or ``_UNUSABLE``, and the paths of what is not usable."""
    if kind is Any:
        return value, []
    origin, arguments = _form_of(kind)
    if origin in (Union, types.UnionType):
        tried = [_checked(value, one, path, rules) for one in arguments]
        return min(tried, key=lambda one: (one[0] is _UNUSABLE, len(one[1])))
    if origin is list and isinstance(value, list):
        entries = [_checked(one, arguments[0], f"{path}[{i}]", rules) for i, one in enumerate(value)]
        sound = [entry for entry, wrong in entries if not wrong]
        return sound, [place for _, wrong in entries for place in wrong]
    if origin is dict and isinstance(value, dict):
        return _checked_fields(value, dict.fromkeys(value, arguments[1]), f"{path}.", rules)
    if hasattr(kind, "_fields") and isinstance(value, dict):
        kept, problems = _checked_fields(value, _fields_of(kind), f"{path}.", rules)
        lacking = [name for name in kind._fields if kind in rules.whole and name not in value]
        return kept, problems + [f"{path}.{name}" for name in lacking]
    name = path.rpartition(".")[2]
    return (
        (value, []) if _is_plain(value, kind, may_be_negative=name in rules.signed) else (_UNUSABLE, [path])
    )


# Both found once for each type, as that takes longer than to check a sidecar.
_fields_of: Callable[[type], dict[str, Any]] = cache(get_type_hints)
_form_of: Callable[[Any], tuple[Any, tuple[Any, ...]]] = cache(
    lambda kind: (get_origin(kind), get_args(kind))
)


def _checked_fields(
    value: Mapping[str, Any], kinds: Mapping[str, Any], before: str, rules: Rules
) -> tuple[dict[str, Any], list[str]]:
    """Return the usable fields, and the paths of what is not usable; ``before`` stands before each name."""
    kept: dict[str, Any] = {}
    problems: list[str] = []
    for name, one in value.items():
        usable, wrong = _checked(one, kinds.get(name, Any), f"{before}{name}", rules)
        problems += wrong
        if usable is not _UNUSABLE:
            kept[name] = usable
    return kept, problems


def _is_plain(value: Any, kind: Any, *, may_be_negative: bool) -> bool:
    if kind is int:  # JSON has no bounds, and True is an integer to Python
        least = -_INT64 if may_be_negative else 0
        return type(value) is int and least <= value < _INT64
    if kind is float:
        return type(value) in (int, float) and abs(value) < float("inf")
    if kind is type(None):
        return value is None
    return isinstance(kind, type) and type(value) is kind
