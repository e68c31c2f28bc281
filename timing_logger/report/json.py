"""Reports for programs: strict JSON, in which what is not known is null."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from timing_logger.analysis import RunEnd, Summary, Verdict

if TYPE_CHECKING:
    import pandas as pd


def summary_json(summary: Summary) -> str:
    """One object.

    ``operations``, ``ranks``, ``spread``, ``statuses`` and ``counters`` are as the analyses of these names
    return them, row by row; ``files`` and ``left_out`` as ``read_timings`` does, without the sidecars;
    ``different_runs`` says why the files look as if they were not of one run, or ""; ``end`` is what ``hang``
    says of the end of the run.
    """
    files = [{key: value for key, value in file.items() if key != "sidecar"} for file in summary.files]
    content = {
        "operations": summary.operations.to_dict("records"),
        "ranks": summary.ranks.to_dict("records"),
        "spread": summary.spread.to_dict("records"),
        "statuses": summary.statuses.to_dict("records"),
        "counters": summary.counters,
        "files": files,
        "left_out": summary.left_out,
        "different_runs": summary.different_runs,
        "end": summary.end.as_dict(),
    }
    return _dumped(content)


def verdict_json(verdict: Verdict, windows: pd.DataFrame) -> str:
    """One object: what ``Verdict.as_dict`` has, and ``windows`` as the analysis of this name, row by row."""
    return _dumped({**verdict.as_dict(), "windows": windows.to_dict("records")})


def hang_json(end: RunEnd) -> str:
    """One object: what ``RunEnd.as_dict`` has."""
    return _dumped(end.as_dict())


def rows_json(**tables: pd.DataFrame) -> str:
    """One object with the rows of each table under its name."""
    return _dumped({name: table.to_dict("records") for name, table in tables.items()})


def _dumped(content: dict[str, Any]) -> str:
    return json.dumps(_strict(content), indent=1, allow_nan=False) + "\n"


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return None if type(value).__name__ == "NAType" else value  # pandas' way to know nothing
