"""P16: setting the wall clock changes timestamps from then on, and never a duration."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from processes import rows

from timing_logger import TimingLogger
from timing_logger.recording import clock as _clock
from timing_logger.schema.timing_files import sidecar_path

pytestmark = pytest.mark.both_cores
HOUR_NS = 3600 * 10**9


@pytest.mark.parametrize("step_ns", [HOUR_NS, -HOUR_NS])
def test_a_step_of_the_wall_clock_changes_no_duration(
    step_ns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TimingLogger(0, tmp_path, flush_interval=3600) as logger:
        logger.record_timing("BEFORE", 1.0)
        assert logger.flush()
        with logger.record_mpi_operation("DURING") as timer:
            monkeypatch.setattr(_clock, "unix_ns", lambda: time.time_ns() + step_ns)
        assert logger.flush()
    assert logger.path is not None
    before, during = rows(logger.path)
    assert 0 <= timer.elapsed_ms < 60_000
    assert abs(float(during[7]) - timer.elapsed_ms) < 1e-5
    assert during[0][:13] != before[0][:13]  # the hour
    assert float(before[8]) < float(during[8])
    anchors = json.loads(sidecar_path(logger.path).read_text())["clock_anchors"]
    offsets_ns = [anchor["unix_ns"] - anchor["perf_counter_ns"] for anchor in anchors]
    assert len(offsets_ns) == 2
    assert abs(offsets_ns[1] - offsets_ns[0] - step_ns) < 60 * 10**9
