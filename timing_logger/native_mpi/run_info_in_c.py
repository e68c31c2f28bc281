"""The fields of a sidecar in C, made from ``sidecar.RunInfo`` when the library is built.

Each class becomes a struct, and a function that writes it as JSON. The library fills in what it knows by the
names of ``RunInfo``: one that is renamed does not compile, and what it says nothing of is as by default.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields
from typing import Any, Union, get_args, get_origin, get_type_hints

from timing_logger.schema.defaults import HANG_AFTER_S, SIDECAR_REFRESH_S
from timing_logger.schema.sidecar import SCHEMA_VERSION, RunInfo

_PLAIN = {
    int: ("int64_t", "json_integer"),
    int | None: ("struct json_optional", "json_optional"),
    str: ("const char *", "json_text"),
    bool: ("bool", "json_bool"),
    float: ("double", "json_real"),
}
_ESCAPED = frozenset({"group"})  # texts that the library has as in a cell of CSV


def run_info_header() -> str:
    """Return ``run_info.h``: a struct for the sidecar and one for each class in it, which C writes as JSON.

    Raises:
        TypeError: C has nothing for the type of a field, or for its default, which is not blank.
    """
    for field in fields(RunInfo):
        _check_default(field)
    structs = "".join(_struct(kind) for kind in _classes(RunInfo))
    puts = _lines(_put(name, kind, ",\\n ") for name, kind in get_type_hints(RunInfo).items())
    return f"""/* Made of sidecar.RunInfo by timing_logger/native_mpi/run_info_in_c.py. */
#ifndef TIMING_LOGGER_RUN_INFO_H
#define TIMING_LOGGER_RUN_INFO_H

#include "json.h"

#define HANG_AFTER_S {HANG_AFTER_S!r}
#define SIDECAR_REFRESH_S {SIDECAR_REFRESH_S!r}

{structs}static inline void write_run_info(FILE *file, const struct run_info *value)
{{
    fputs("{{\\n \\"schema_version\\": {SCHEMA_VERSION}", file);
{puts}
    fputs("\\n}}\\n", file);
}}

#endif
"""


def _check_default(field: Field[Any]) -> None:
    """Refuse a default that is not what C has in a struct where nothing is stated."""
    blank = field.default_factory in (list, dict) or field.default in (MISSING, None, "", 0)
    if not blank:
        raise TypeError(f"RunInfo.{field.name}: C cannot have the default {field.default!r}")


# -- types --------------------------------------------------------------------------------------------------


def _classes(kind: Any) -> Iterator[type]:
    """Yield the classes that a class is made of, each after those that it has itself, and once."""
    found: dict[type, None] = {}
    for one in get_type_hints(kind).values():
        for part in _parts(one):
            found.update(dict.fromkeys(_classes(part)))
    yield from (*found, kind)


def _parts(kind: Any) -> Iterator[type]:
    if _is_class(kind):
        yield kind
    for argument in get_args(kind):
        yield from _parts(argument)


def _is_class(kind: Any) -> bool:
    return hasattr(kind, "_fields")


def _optional(kind: Any) -> Any:
    """Return the class that a value is of unless it is None; None if the type is another one."""
    if get_origin(kind) not in (Union, types.UnionType):
        return None
    return next((one for one in get_args(kind) if _is_class(one)), None)


def _name(kind: type) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()


def _in_c(name: str, kind: Any) -> tuple[str, str]:
    """Return the declaration of a field, and the statement that writes its value."""
    value = f"value->{name}"
    if kind in _PLAIN:
        before, put = _PLAIN[kind]
        put = "json_escaped" if kind is str and name in _ESCAPED else put
        return f"{before}{'' if before.endswith('*') else ' '}{name};", f"{put}(file, {value});"
    if get_origin(kind) in (list, dict):
        empty = "[]" if get_origin(kind) is list else "{}"
        return f"json_entries *{name};", f'json_all(file, {value}, "{empty}");'
    if optional := _optional(kind):
        of = _name(optional)
        return f"const struct {of} *{name};", f"{value} ? json_{of}(file, {value}) : json_null(file);"
    if _is_class(kind):
        of = _name(kind)
        return f"struct {of} {name};", f"json_{of}(file, &{value});"
    raise TypeError(f"{name}: C has nothing for the type {kind}")


# -- what writes them ---------------------------------------------------------------------------------------


def _struct(kind: type) -> str:
    hints = get_type_hints(kind)
    name = _name(kind)
    declared = f"""struct {name} {{
{_lines(_in_c(field, one)[0] for field, one in hints.items())}
}};

"""
    return declared if kind is RunInfo else declared + _functions(name, hints)


def _functions(name: str, hints: dict[str, Any]) -> str:
    separators = ["", *[", "] * (len(hints) - 1)]
    puts = (_put(*field, before) for field, before in zip(hints.items(), separators, strict=True))
    return f"""static inline void json_{name}(FILE *file, const struct {name} *value)
{{
    fputs("{{", file);
{_lines(puts)}
    fputs("}}", file);
}}

static inline void add_{name}(struct json_list *list, struct {name} value)
{{
    json_next(list);
    json_{name}(list->file, &value);
}}

"""


def _put(name: str, kind: Any, before: str) -> str:
    return f'fputs("{before}\\"{name}\\": ", file); {_in_c(name, kind)[1]}'


def _lines(statements: Iterable[str]) -> str:
    return "\n".join(f"    {statement}" for statement in statements)
