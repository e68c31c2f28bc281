"""Numbers that decide are in ``Policy``, in ``criteria.py`` and, online, in ``schema/defaults.py``.

The drawing of answers (``cli``, ``report``) and the reading of other tools' formats (``importing``) are left
out: what they decide is how something looks, or follows from the format.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT

from timing_logger.results import criteria
from timing_logger.schema import defaults

PACKAGES = ("timing_logger", "allreduce_instrumentation")
LEFT_OUT = {"cli", "report", "importing"}
TABLES = {Path(table.__file__ or "") for table in (criteria, defaults)}

DECIDES_NOTHING = {
    "bounds what is told, kept or taken": (
        r"(MOST|MAX|KEPT|LARGE)(?!.*_(S|MS|NS|SHARE|TIMES|STEPS)$)(_\w+)?|DEEPEST|BEST|LONGEST_TEXT|LATEST|LEAST"
        r"|ROWS_OF_\w+|ANCHORS_KEPT|DIGITS|COLLECT_AFTER|LEAST_RECORDS|LARGEST\w*|LONGEST|MAX_INSTANT_NS|MOST_MS|LOOKED_AT|LEVEL"
    ),
    "limits an argument": r"(MOST|LONGEST|MAX_TIMEOUT)_(S|SECONDS)",
    "is the size of a block, or tells which way is faster": (
        r"\w+_BYTES|AT_ONCE|\w+_AT_A_TIME|ROWS_PER_\w+|CHUNK|FEW_\w+|MANY|ENOUGH_NODES|FIRST_LOOK|HALVINGS|LEVELS"
        r"|FOLD_EVERY|SURELY_LAST|MILESTONE|SHARE|TIMES_THE_TABLE|FACTOR|ZSTD_LEVEL|NICE"
        r"|MORE_THAN_ANY_ARRAY|LEAST_PAUSE|DIGIT\w*|SAMPLES|HOOKS|TRIES|PATIENT_LOOKS"
    ),
    "waits for a disk, a device, a socket, or another thread or process": (
        r"(\w+_)?(PATIENCE|GRACE|LOOK|LIMIT|PAUSE|POLL|POLLS|CONNECT|TIMEOUT|TICK|CHECK|JOIN|FAILED|LIVENESS|SPARE"
        r"|SETTLE|AGAIN|INIT|FILE|GONE|CLOSE|WORDS|RETRY|EVERY|WITHIN|LISTED|RENEWAL|UP|LONG|WAITS|STARVED"
        r"|FLUSH_INTERVAL)(_S|_NS)|POLLS|LEAST_S|MOST_STAT_NS|MOST_SECONDS|LEAST_SHARE"
    ),
    "converts units, or follows from mathematics": (
        r"\w+_PER_\w+|UNITS\w*|MAD_TO_SIGMA|QUARTILE_OF_SIZES|BETWEEN_QUANTILES|MIDDLE|MEDIAN_ERROR"
        r"|LEAST_(MISFIT|LEFT|CHANCE|MS)|MOST_NS"
    ),
    "belongs to a format, a protocol or an algorithm": (
        r"(SCHEMA_)?VERSION|FORMAT|INTERRUPTED|\w*_?TAG|\w+_(BIT|REAL|WORDS|END|GROUP)|HAS_END|ELSEWHERE|LISTS|SIZES"
        r"|(STATE|START_TICKS|N_THREADS|RESIDENT|RELAXED|FIRST_HIP_WITH_MODES|OLDEST|NEWEST|CLOSE)|INT(32|64)\w*"
        r"|(THRESHOLD|REGION)_PERIOD|ROOT|UNKNOWN"
    ),
}
"""Names of other numbers, without the underscore of private ones, by what they do instead."""


def numbers_outside() -> Iterator[tuple[str, str, ast.expr]]:
    """Yield the module, the name and the value of each numeric constant outside the tables."""
    for package in PACKAGES:
        for module in sorted((ROOT / package).rglob("*.py")):
            if module not in TABLES and LEFT_OUT.isdisjoint(module.relative_to(ROOT).parts):
                for name, value in numbers_of(module.read_text(encoding="utf-8")):
                    yield str(module.relative_to(ROOT)), name, value


def numbers_of(code: str) -> Iterator[tuple[str, ast.expr]]:
    """Yield name and value of each module-level number: of a tuple, all of the tuple."""
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Assign):
            targets: list[ast.expr] = statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        else:
            continue
        if statement.value is not None and is_number(statement.value):
            for target in targets:
                yield from (
                    (one.id, statement.value) for one in ast.walk(target) if isinstance(one, ast.Name)
                )


def is_number(value: ast.expr) -> bool:
    """Tell whether an expression is a number, an operation on numbers, or a tuple of them."""
    if isinstance(value, ast.Constant):
        return type(value.value) in (int, float)
    if isinstance(value, ast.UnaryOp):
        return is_number(value.operand)
    if isinstance(value, ast.BinOp):
        return is_number(value.left) and is_number(value.right)
    return isinstance(value, ast.Tuple) and bool(value.elts) and all(map(is_number, value.elts))


def stands_for_nothing(value: ast.expr) -> bool:
    """Tell whether a number is 0 or negative: it stands in the place of one, or is where a count begins."""
    parts = value.elts if isinstance(value, ast.Tuple) else [value]
    return all(not isinstance(part, ast.BinOp) and ast.literal_eval(part) <= 0 for part in parts)


def decides(name: str, value: ast.expr) -> bool:
    known = any(re.fullmatch(names, name.lstrip("_")) for names in DECIDES_NOTHING.values())
    return not known and not stands_for_nothing(value)


def test_no_number_outside_the_tables_decides() -> None:
    assert [f"{module}: {name}" for module, name, value in numbers_outside() if decides(name, value)] == [], (
        "move it to criteria.py, to a Policy or to schema/defaults.py"
    )


@pytest.mark.parametrize("names", DECIDES_NOTHING.values(), ids=DECIDES_NOTHING)
def test_each_kind_of_other_numbers_occurs(names: str) -> None:
    assert any(re.fullmatch(names, name.lstrip("_")) for _, name, _ in numbers_outside())


@pytest.mark.parametrize("code", ["SLOW_S = 3.0", "_LEAST_GAIN: float = 0.1", "MAX_APART_S, _B = 2 * 30, 1"])
def test_a_number_of_a_module_that_may_decide_is_found(code: str) -> None:
    assert any(decides(name, value) for name, value in numbers_of(code))


@pytest.mark.parametrize("table", [criteria, defaults], ids=["criteria", "defaults"])
def test_each_number_of_a_table_says_why_it_is_what_it_is(table: object) -> None:
    body = ast.parse(Path(table.__file__).read_text(encoding="utf-8")).body  # type: ignore[attr-defined]
    told = [
        isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        for one, after in zip(body, [*body[1:], None], strict=True)
        if isinstance(one, ast.Assign)
    ]
    assert told
    assert all(told)
