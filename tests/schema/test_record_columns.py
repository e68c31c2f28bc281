"""The columns stand in one table: what writes and reads rows is made of it, or refuses to work."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from both_cores import CORES, BuiltCore
from limits import PROCESS_S
from one_more_column import VALUES, Copy
from places import ROOT
from processes import run_python
from slow import slow

from timing_logger.native_mpi import build
from timing_logger.reading.plain_files import arrow_types, has_pyarrow
from timing_logger.recording.cores import chosen as core
from timing_logger.recording.cores.protocols import NeverWaitedFor, Timer
from timing_logger.schema.record import (
    COLUMNS,
    FIELDS,
    FURTHER,
    HEADER,
    NUMBERS,
    Kind,
    Record,
    Stated,
    check_columns,
)
from timing_logger.sinks.memory import MemorySink

DOCS = ROOT / "docs"

needs_native = pytest.mark.skipif(core.NAME != "native", reason="the native core was not built, or is off")
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
of_each_kind = pytest.mark.parametrize(
    "kind", [kind if kind == "amount" else slow(kind, "as amounts are") for kind in VALUES]
)

CopyWith = Callable[[str], Copy]


@pytest.fixture(scope="module")
def copy_with(tmp_path_factory: pytest.TempPathFactory) -> CopyWith:
    """What makes the package with a column of some kind, once for all tests: they compile it once."""
    return functools.cache(lambda kind: Copy(tmp_path_factory.mktemp(kind), kind))


@pytest.mark.parametrize(
    ("columns", "recorded"),
    [((*COLUMNS, "invented"), Record._fields), (COLUMNS, (*Record._fields, "invented"))],
    ids=["no record holds it", "no file has it"],
)
def test_a_column_in_one_of_both_lists_is_an_error_that_names_it(
    columns: tuple[str, ...], recorded: tuple[str, ...]
) -> None:
    with pytest.raises(TypeError, match=r"invented.*needs a line in each"):
        check_columns(columns, recorded)


@pytest.mark.slow("copies the package; that its lists of columns are refused is quick")
def test_a_package_whose_records_lack_a_column_is_not_imported(tmp_path: Path) -> None:
    done = Copy(tmp_path, "integer", in_record=False).run("import timing_logger")
    assert done.returncode == 1
    assert "TypeError" in done.stderr
    assert "invented" in done.stderr


# -- the cores -----------------------------------------------------------------------------------

_RECORD = """
import json, sys
import timing_logger
from timing_logger.schema.record import Record
with timing_logger.TimingLogger(0, sys.argv[1]) as logger:
    with logger.record_mpi_operation("ALLREDUCE", 8):
        pass
    logger.record_timing("FORWARD", 1.5)
    logger._channel.put(tuple(Record(*["A"] * 6, 1, 2, *["A"] * 8, invented=VALUE)))
    logger.flush()
print(json.dumps([logger.stats.written, logger.stats.dropped]))
"""


@pytest.mark.slow("a column that is not there yet; for who adds one")
@of_each_kind
def test_lines_have_the_cells_of_their_header_with_one_more_column(
    copy_with: CopyWith, tmp_path: Path, kind: str
) -> None:
    copy = copy_with(kind)
    written, dropped = json.loads(copy.said(_RECORD.replace("VALUE", copy.value), tmp_path / "logs"))
    header, *lines = (tmp_path / "logs" / "timing-rank0.csv").read_text().splitlines()
    assert header.split(",") == [*COLUMNS, "invented"]
    assert [len(line.split(",")) for line in lines] == [len(COLUMNS) + 1] * 3
    assert (written, dropped) == (3, 0)


@pytest.mark.slow("a column that is not there yet; for who adds one")
@needs_native
def test_a_native_core_that_was_built_for_other_columns_is_not_used_and_says_so(copy_with: CopyWith) -> None:
    copy = copy_with("amount")
    asked = "import timing_logger as t; print(t.recording_core, t.recording_core_note)"
    said = copy.said(asked)
    assert said.startswith("python ")
    assert "built for other columns" in said
    assert "Install the package again" in said
    assert "C compiler" not in said  # which is there
    forced = copy.run(asked, core="native")
    assert forced.returncode == 1
    assert "built for other columns" in forced.stderr


@pytest.mark.slow("a column that is not there yet; for who adds one")
@needs_native
def test_a_ring_of_other_columns_is_not_read(copy_with: CopyWith, tmp_path: Path) -> None:
    channel = core.new_channel(10)
    channel.back_by(tmp_path / "a.ring", tmp_path / "timing-rank0.csv", 1, 10**18)
    read = "import os, sys; from timing_logger.schema.ring_file import read_ring; "
    read += "print(read_ring(os.open(sys.argv[1], os.O_RDONLY)).damaged)"
    assert run_python(read, tmp_path / "a.ring").stdout == "0\n"
    refused = copy_with("integer").run(read, tmp_path / "a.ring")
    assert "NotARing: a version of timing_logger with other columns wrote it" in refused.stderr


_LINE_IN_C = """
#include <stdio.h>
#include <string.h>
#include "csv_line.h"

int main(void)
{
    static char out[CSV_BYTES_BESIDE_CELLS + N_NAMES];
    WholeSecond second = {.unix_s = -1};
    Cell text = {"x", 1};
    double real = 0.5;
    int64_t numbers[N_NUMBERS];
    CsvRow row = {1000000000, 2000000000, numbers, HAS_END, {NULL}};
    for (int which = 0; which < N_NUMBERS; which++) {
        numbers[which] = which;
        row.has |= HAS(which);
        if (AMOUNTS & HAS(which)) {
            memcpy(&numbers[which], &real, sizeof real);
            row.has |= IS_REAL(which);
        }
    }
    for (int which = 0; which < N_NAMES; which++)
        row.cells[which] = &text;
    csv_line(out, &second, 1700000000000000000, &row);
    printf("%s%s", CSV_HEADER, out);
}
"""


def _lines_in_c(package: Path, header: str, folder: Path) -> list[list[str]]:
    """Compile the writer of both C libraries with a header of columns; return the cells that it writes."""
    (folder / "columns.h").write_text(header)
    (folder / "line.c").write_text(_LINE_IN_C)
    include = [f"-I{folder}", f"-I{package / 'csrc'}"]
    command = ["cc", "-std=gnu11", *include, str(folder / "line.c"), "-o", str(folder / "line")]
    subprocess.run(command, check=True, timeout=PROCESS_S)
    said = subprocess.run(
        [folder / "line"], capture_output=True, text=True, check=True, timeout=PROCESS_S
    ).stdout
    return [line.split(",") for line in said.splitlines()]


@needs_compiler
@of_each_kind
def test_the_writer_in_c_follows_the_table(copy_with: CopyWith, tmp_path: Path, kind: str) -> None:
    copy = copy_with(kind)
    header = copy.said(
        "from timing_logger.schema.columns_in_c import columns_header; print(columns_header(), end='')"
    )
    names, cells = _lines_in_c(copy.folder / "timing_logger", header, tmp_path)
    assert names == [*COLUMNS, "invented"]
    assert len(cells) == len(names)
    assert cells[-1] == {"text": "x", "integer": cells[-1], "amount": "0.5"}[kind]
    # Where two columns are amounts, the macro that tells which is an expression of two terms.
    assert [cells[names.index(name)] for name in ("iteration", "seq")] == [
        str(NUMBERS.index(name)) for name in ("iteration", "seq")
    ]


def test_the_library_for_mpi_has_the_header_of_the_table() -> None:
    declared = build._texts("int PMPI_Send(int);")["columns.h"]
    (stated,) = re.findall("#define CSV_HEADER (.*)", declared)
    assert json.loads(stated) == HEADER


@pytest.mark.parametrize("column", FURTHER)
def test_every_call_that_takes_columns_takes_each_that_only_programs_state(column: str) -> None:
    calls = [built.recorder for built in CORES.values()]
    names = [
        "operation",
        "record_mpi_operation",
        "record_device_operation",
        "record_timing",
        "record_interval",
    ]
    takes = {
        (of.__name__, name): inspect.signature(getattr(of, name)).parameters for of in calls for name in names
    }
    assert [call for call, parameters in takes.items() if column not in parameters] == []
    assert column in Stated.__annotations__
    assert column in Timer.__annotations__


@pytest.mark.parametrize("column", FURTHER)
def test_every_call_that_takes_a_column_writes_it(each_core: BuiltCore, column: str) -> None:
    (kind,) = [field.kind for field in FIELDS if field.name == column]
    value = ast.literal_eval(VALUES[kind])
    stated: dict[str, Any] = {column: value}
    sink = MemorySink()
    with each_core.logger(0, None, sinks=[sink]) as logger:
        for call in (
            logger.operation,
            logger.record_mpi_operation,
            logger.record_device_operation,
        ):
            with call("A", **stated):
                pass
            with call("A") as timer:
                setattr(timer, column, value)
        logger.record_timing("A", 1.0, **stated)
        logger.record_timing("A", start_counter=1.0, end_counter=2.0, **stated)
        logger.record_interval("A", 1, 2, **stated)
        group = SimpleNamespace(name="", size=1, next_collective=lambda: 0)
        logger.time_call("A", None, None, None, group, NeverWaitedFor, int, ())  # whose callers state none
    assert [getattr(record, column) for record in sink.records] == [*[value] * 9, FURTHER[column]]


# -- what reads ----------------------------------------------------------------------------------

_READ = """
import sys
from pathlib import Path
import pandas as pd
from timing_logger import read_timings
from timing_logger.reading.converting import convert
from timing_logger.schema.record import EARLIER_COLUMNS, HEADER, Record, format_records

folder, engines = Path(sys.argv[1]), sys.argv[2:]
(folder / "logs").mkdir()
plain = Record(0, 0, "l", "A", "p", 1, 10**9, 2 * 10**9, "host", "g", 1, 0, None, "t", "ok")
lines = format_records([plain, plain._replace(invented=VALUE)], 10**18)
(folder / "logs" / "timing-rank0.csv").write_text(HEADER + lines)
earlier = format_records([plain], 10**18).rsplit(",", 1)[0]
(folder / "logs" / "timing-rank1.csv").write_text(",".join(EARLIER_COLUMNS[-1]) + "\\n" + earlier + "\\n")
for to in ["csv", "jsonl", *(["parquet"] if "pyarrow" in engines else [])]:
    convert(folder / "logs", to, folder / ("all." + to))
tables = [read_timings(folder / "logs", engine=engine) for engine in engines]
if "pyarrow" in engines:
    tables += [read_timings(folder / "all.parquet")]
for table in tables:
    blank = [pd.isna(value) or value == "" for value in table["invented"].tolist()]
    assert blank == [True, False, True], table["invented"]
    assert table["invented"].tolist()[1] == VALUE
    assert not any(file["bad_lines"] for file in table.attrs["files"])
print((folder / "all.csv").read_text())
"""


@pytest.mark.slow("a column that is not there yet; for who adds one")
@of_each_kind
def test_files_with_one_more_column_are_read_beside_earlier_ones(
    copy_with: CopyWith, tmp_path: Path, kind: str
) -> None:
    copy = copy_with(kind)
    engines = ["pandas", "pyarrow"] if has_pyarrow() else ["pandas"]
    header, *lines = copy.said(_READ.replace("VALUE", copy.value), tmp_path, *engines).split()
    at = header.split(",").index("invented")
    assert [line.split(",")[at] for line in lines] == ["", copy.value.strip('"'), ""]


def test_every_kind_of_column_has_a_type() -> None:
    pytest.importorskip("pyarrow", reason="reads large files: pip install pyarrow")
    assert set(arrow_types()) == set(get_args(Kind))


# -- what tells of them --------------------------------------------------------------------------


def test_the_page_on_files_has_every_column_in_its_order() -> None:
    table = (
        (DOCS / "files.md").read_text().partition("| column | meaning |\n|---|---|\n")[2].partition("\n\n")[0]
    )
    first_cells = [line.split("|")[1] for line in table.splitlines()]
    assert tuple(name.strip() for cell in first_cells for name in cell.split(",")) == COLUMNS


def test_the_page_on_migrating_has_every_column_that_was_added() -> None:
    (added,) = re.findall("the same ten in the same order, then `(.*?)`", (DOCS / "migrating.md").read_text())
    assert tuple(added.split(", ")) == COLUMNS[10:]
