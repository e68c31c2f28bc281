"""Logs of step times as a trainer writes them, for tests."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

RANKS, STEPS = 4, 60
STEP_S = 0.055
BEGAN_UNIX_S = 1_770_388_245.0


def step_records(slow_rank: int | None = 2) -> list[dict[str, Any]]:
    """Return records of steps that all ranks end together, in which one rank takes twice as long for data."""
    drawn = random.Random(1)
    return [
        {
            "rank": rank,
            "step": step,
            "perf": {"step_s": STEP_S},
            "data": (0.02 if rank == slow_rank else 0.01) * drawn.uniform(0.95, 1.05),
            "forward": 0.03 * drawn.uniform(0.97, 1.03),
            "ended": BEGAN_UNIX_S + (step + 1) * STEP_S,
        }
        for step in range(STEPS)
        for rank in range(RANKS)
    ]


def write_json_lines(path: Path, records: list[dict[str, Any]], *further: str) -> Path:
    """Write records as JSON lines, and further lines as they stand."""
    path.write_text("".join(f"{line}\n" for line in [*map(json.dumps, records), *further]))
    return path
