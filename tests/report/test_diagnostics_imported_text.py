"""The report on an import."""

from __future__ import annotations

from pathlib import Path

from timing_logger.importing.imported import Imported
from timing_logger.report._diagnostics import imported_text
from timing_logger.schema.sidecar import NOT_TOLD


def test_what_was_made_is_told_and_what_could_not_be_used_if_anything_could_not() -> None:
    whole = Imported(Path("made"), [0, 1], 1200, {}, (), ["A note."])
    assert imported_text(whole, "kineto", 200).strip() == "made: 1,200 rows of 2 ranks, from kineto.\nA note."
    part = imported_text(whole._replace(left_out={"without an end": 3}), "kineto", 200)
    assert part.startswith(imported_text(whole, "kineto", 200).strip())
    assert "without an end" in part


def test_what_the_source_does_not_tell_is_told() -> None:
    made = Imported(Path("made"), [0], 1, {}, ("communication",), [])
    told = imported_text(made, "kineto", 500).strip()
    assert (
        told == f"made: 1 rows of 1 rank, from kineto.\nThe source does not tell {NOT_TOLD['communication']}."
    )
