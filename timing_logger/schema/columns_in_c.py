"""The columns in C and Cython, made from ``record.FIELDS`` when the native core or the MPI library is built.

So neither has a list of columns of its own. What was built from other columns says so by ``RECORD_LAYOUT``:
the native core is not loaded then, and a ring that it left is not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from timing_logger.schema.defaults import FILE_MODE
from timing_logger.schema.record import (
    FIELDS,
    FURTHER,
    HEADER,
    LAYOUT,
    NUMBERS,
    ON_SPANS,
    TEXTS,
    Field,
    Record,
)

_WRITERS = {"integer": "csv_number", "amount": "csv_number", "text": "csv_cell"}
# given to the function that makes a record of a span: they are not always its own
_GIVEN = frozenset({"operation", "thread"})
_OTHERS = ("start_ns", "end_ns", "metadata")  # of a record
_AMOUNTS = [field.name for field in FIELDS if field.kind == "amount"]
_CONTINUED = " \\"  # a line of a macro
HEADER_FILE, CYTHON_FILE = "columns.h", "columns.pxi"


def columns_header() -> str:
    """Return ``columns.h``: header and permissions of a file, places of values in a row, cells of a line."""
    return f"""/* Made of record.FIELDS by timing_logger/schema/columns_in_c.py. */
#ifndef TIMING_LOGGER_COLUMNS_H
#define TIMING_LOGGER_COLUMNS_H

#define CSV_HEADER {json.dumps(HEADER)}
#define FILE_MODE 0{FILE_MODE:o}
#define RECORD_LAYOUT {LAYOUT}u
#define AMOUNTS {_bits(_AMOUNTS)} /* which numbers may be doubles */

enum {{ N_COLUMNS = {len(FIELDS)}, N_NAMES = {len(TEXTS)}, N_NUMBERS = {len(NUMBERS)} }};
enum {{ {_listed(TEXTS)} }};
enum {{ {_listed(NUMBERS)} }};

/* The cells of a line in their order. */
#define CSV_CELLS(out, second, wall_offset_ns, row) \\
{_lines((_cell(field) for field in FIELDS), end=_CONTINUED)}

#endif
"""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(str.upper, names))


def _bits(names: Iterable[str]) -> str:
    """Return an expression in parentheses, as the macro stands among other operators."""
    return f"({' | '.join([f'(1u << {name.upper()})' for name in names]) or '0u'})"


def _cell(field: Field) -> str:
    if field.name == "timestamp":
        return "out = csv_timestamp(out, second, (row)->start_ns + (wall_offset_ns));"
    if field.kind in _WRITERS:
        return f"out = {_WRITERS[field.kind]}(out, row, {field.name.upper()});"
    return f"out = csv_{field.name}(out, row);"


# -- Cython --------------------------------------------------------------------------------------


def columns_cython() -> str:
    """Return ``columns.pxi``: records as fields and back, and the columns that a span has."""
    stored = [*TEXTS, *NUMBERS]
    return f"""# Made of record.FIELDS by timing_logger/schema/columns_in_c.py.

cdef extern from "columns.h":
    enum: {_listed(TEXTS)}
    enum: {_listed(NUMBERS)}


cdef inline void fields_of(object record, Fields *fields) noexcept:
    \"\"\"Put the columns of a record, without its instants.\"\"\"
{_lines(f"{_place(name)} = item_of(record, {_at(name)})" for name in stored)}


cdef inline void no_further_fields(Fields *fields) noexcept:
{_lines([*(f"{_place(name)} = <PyObject *> {_blank(name)}" for name in FURTHER), "return"])}


cdef inline bint numbers_packed(Slot *slot, const Fields *fields) except -1:
    \"\"\"Fill in the numbers; return False if one is no integer that its column can hold.\"\"\"
    return (
{_lines((f"_number(slot, {name.upper()}, fields.numbers[{name.upper()}])" for name in NUMBERS), 8, " and")}
    )


cdef inline tuple instants_and_metadata_of(object record):
    return {", ".join(f"<object> item_of(record, {_at(name)})" for name in _OTHERS)}


cdef inline object raw_record(const Fields *fields, object start_ns, object end_ns, object metadata):
    return (
{_lines((f"{_of_record(name)}," for name in Record._fields), 8)}
    )


cdef class Columns(OpenCall):
    \"\"\"The columns of a block.\"\"\"

{_lines(f"cdef public object {name}" for name in ON_SPANS)}

    cdef inline void state_no_further(self) noexcept:
{_lines([*(_emptied(name) for name in FURTHER), "return"], 8)}

    cdef inline void put_columns(self, Fields *fields) noexcept:
{_lines((f"{_place(name)} = <PyObject *> self.{name}" for name in ON_SPANS if name not in _GIVEN), 8)}
"""


def _at(name: str) -> int:
    return Record._fields.index(name)


def _place(name: str) -> str:
    return f"fields.{'names' if name in TEXTS else 'numbers'}[{name.upper()}]"


def _blank(name: str) -> str:
    return "None" if FURTHER[name] is None else "NOTHING"


def _emptied(name: str) -> str:
    return f"if self.{name} is not {_blank(name)}: self.{name} = {_blank(name)}"


def _of_record(name: str) -> str:
    return name if name in _OTHERS else f"<object> {_place(name)}"


def _lines(statements: Iterable[str], indent: int = 4, end: str = "") -> str:
    """Return them as lines, each of which but the last ends in ``end``."""
    return f"{end}\n".join(" " * indent + statement for statement in statements)
