"""What an import made, and what of its input could not be used, in words."""

from __future__ import annotations

from timing_logger.importing.imported import Imported
from timing_logger.report._diagnostics import left_out_in_words
from timing_logger.schema.record import escape_text
from timing_logger.schema.sidecar import NOT_TOLD
from timing_logger.words.units import count, listed, page, paragraph


def imported_text(imported: Imported, kind: str, width: int) -> str:
    """Return the report on an import."""
    of_ranks = count(len(imported.ranks), "rank")
    said = [f"{escape_text(str(imported.folder))}: {imported.rows:,} rows of {of_ranks}, from {kind}."]
    if imported.not_told:
        said.append(f"The source does not tell {listed([NOT_TOLD[name] for name in imported.not_told])}.")
    said += imported.notes
    if told := left_out_in_words(imported.left_out):
        said.append(told)
    return page(*paragraph(width, *said))
