"""The timing file has a line for each record, made here or by the batch itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from timing_files import EPOCH_S, content, record

from timing_logger.schema.record import HEADER, NS_PER_S, RawRecord
from timing_logger.schema.timing_files import TimingFile, sidecar_path
from timing_logger.sinks.csv import CsvSink

OFFSET_NS = EPOCH_S * NS_PER_S


class BatchWithLines(list[RawRecord]):
    """A batch as that of the native core, which has its lines."""

    def csv_lines(self, wall_offset_ns: int) -> bytes:
        return b"line at %d\n" % wall_offset_ns * len(self)


def test_records_are_appended_as_lines_and_counted(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path, 3)
    sink.write([record(), record()], OFFSET_NS)
    sink.write([record("BARRIER")], OFFSET_NS)
    sink.close()
    assert sink.path.read_bytes() == content([record(), record(), record("BARRIER")])
    assert [part.rows for part in sink.parts] == [3]


def test_a_batch_that_has_its_lines_is_written_as_it_is(tmp_path: Path) -> None:
    sink = CsvSink(tmp_path, 3)
    sink.write(BatchWithLines([record(), record()]), 7)
    sink.close()
    assert sink.path.read_text() == HEADER + "line at 7\n" * 2
    assert [part.rows for part in sink.parts] == [2]


def of_another(path: Path) -> None:
    sidecar_path(path).write_text("{}")


@pytest.mark.parametrize("there", [Path.touch, of_another])
def test_names_that_a_file_or_a_sidecar_has_are_passed_over(tmp_path: Path, there: object) -> None:
    assert callable(there)
    there(tmp_path / "timing-rank3.csv")
    sink = CsvSink(tmp_path, 3)
    sink.close()
    assert (sink.path.name, sink.name) == ("timing-rank3.run2.csv", TimingFile(3, 2))
