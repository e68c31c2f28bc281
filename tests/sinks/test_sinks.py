"""What sinks raise."""

from __future__ import annotations

from timing_logger.sinks import PartlyWritten


def test_a_batch_that_was_written_in_part_says_so_and_why() -> None:
    error = PartlyWritten(3, OSError(28, "No space left on device"))
    assert str(error) == (
        "only 3 records of a batch could be written: OSError(28, 'No space left on device')"
    )
    assert error.records == 3
