"""Reports for programs: strict JSON, in which what is not known is null."""

from __future__ import annotations

import json
import math
from typing import Any

from timing_logger.analysis import Summary


def summary_json(summary: Summary) -> str:
    """One object.

    ``operations``, ``ranks``, ``spread``, ``statuses`` and ``counters`` are as the analyses of these names
    return them, row by row; ``files`` and ``left_out`` as ``read_timings`` does, without the sidecars.
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
    }
    return json.dumps(_strict(content), indent=1, allow_nan=False) + "\n"


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
