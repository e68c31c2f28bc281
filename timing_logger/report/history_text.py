"""What became of the history that runs were compared with, in words."""

from __future__ import annotations

from timing_logger.record import escape_text
from timing_logger.report._wording import count
from timing_logger.report.json import strict_json


def history_text(folder: str, n_runs: int, kept: int, *, adds: bool, is_slower: bool) -> str:
    """Return what became of a history: whether the runs were added, and how many it keeps."""
    where = escape_text(folder)
    if adds:
        return f"\n{count(n_runs, 'run')} added to {where}, which keeps {kept:,} now.\n"
    if is_slower:
        return (
            f"\nNot added to {where}, as later runs would be compared with these. If they are meant to be "
            "slower, --accept begins the history anew with them.\n"
        )
    return f"\nNot added to {where} (--no-add), which keeps {kept:,}.\n"


def history_begun_text(folder: str, n_runs: int, *, as_json: bool, adds: bool) -> str:
    """Return that there is nothing to compare with, as the history is empty: as text, or one JSON object."""
    became = f"{count(n_runs, 'run')} added." if adds else "Nothing was added (--no-add)."
    text = f"{escape_text(folder)} keeps no runs yet: nothing is compared. {became}"
    return strict_json({"verdict": None, "text": [text]}) + "\n" if as_json else f"{text}\n"
