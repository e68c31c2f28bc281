"""Check a wheel where it was installed: the native core is in it, and records.

``[tool.cibuildwheel]`` in pyproject.toml runs it; or: python tests/wheel_check.py
"""

from __future__ import annotations

import tempfile

import timing_logger
from timing_logger import TimingLogger, read_timings


def main() -> None:
    assert timing_logger.recording_core == "native", (
        f"the {timing_logger.recording_core} core records: the wheel lacks the native one"
    )
    with tempfile.TemporaryDirectory() as folder:
        with TimingLogger(0, folder) as logger:
            for iteration in range(1000):
                with logger.record_mpi_operation("ALLREDUCE", 8, iteration=iteration):
                    pass
        assert read_timings(folder).iteration.tolist() == list(range(1000))
    print(f"{timing_logger.__file__}: 1000 rows by the native core")


if __name__ == "__main__":
    main()
