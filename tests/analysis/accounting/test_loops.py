"""What blocked lines waited for, found for all of them at once, is what a walk from hold to hold finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from timing_logger.analysis.accounting.loops import TRANSFER, UNKNOWN, origins

Piece = tuple[float, float, int]


def drawn(rng: np.random.Generator) -> dict[str, Any]:
    """Holds of a few lines, some of which wait for lines that are blocked themselves, or for unknown ones."""
    edges = [
        np.sort(rng.choice(40, 2 * int(n), replace=False)) / 4.0
        for n in rng.integers(0, 6, rng.integers(1, 5))
    ]
    start_s, end_s = (np.concatenate([of_line[at::2] for of_line in edges]) for at in (0, 1))
    n = len(start_s)
    until_s = np.where(rng.random(n) < 0.2, np.nan, rng.integers(-1, 42, n) / 4.0)
    in_order = rng.random() < 0.7
    return {
        "first": np.cumsum([0, *(len(of_line) // 2 for of_line in edges)]),
        "start_s": start_s, "end_s": end_s, "until_s": until_s, "needed": rng.integers(-1, len(edges), n),
        "order": np.argsort(np.nan_to_num(until_s), kind="stable") if in_order else rng.permutation(n),
        "wanted": rng.random(n) < 0.8,
    }  # fmt: skip


def by_a_walk(
    first: Any, start_s: Any, end_s: Any, until_s: Any, needed: Any, order: Any, wanted: Any
) -> list[tuple[int, float, float, int]]:
    told: dict[int, list[Piece]] = {}

    def what_it_did(line: int, begin_s: float, stop_s: float) -> list[Piece]:
        found, now_s = [], begin_s
        for hold in range(first[line], first[line + 1]):
            held_s, free_s = max(start_s[hold], now_s), min(end_s[hold], stop_s)
            if end_s[hold] <= begin_s or now_s >= stop_s or start_s[hold] >= stop_s:
                continue
            found += [(now_s, held_s, line)] if held_s > now_s else []
            known = told.get(hold, [(held_s, free_s, line)])
            found += [
                (max(a, held_s), min(b, free_s), leads_to)
                for a, b, leads_to in known
                if b > held_s and a < free_s
            ]
            now_s = free_s
        return [*found, (now_s, stop_s, line)] if now_s < stop_s else found

    for hold in order.tolist():
        waits_s = min(until_s[hold], end_s[hold]) if until_s[hold] > start_s[hold] else start_s[hold]
        follows = needed[hold] >= 0 and waits_s > start_s[hold]
        pieces = what_it_did(needed[hold], start_s[hold], waits_s) if follows else []
        rest = UNKNOWN if np.isnan(until_s[hold]) else TRANSFER
        told[hold] = [*pieces, (waits_s, end_s[hold], rest)] if end_s[hold] > waits_s else pieces
    return [(hold, *piece) for hold in np.flatnonzero(wanted).tolist() for piece in told[hold]]


@pytest.mark.parametrize("seed", range(20))
def test_all_lines_at_once_lead_to_what_a_walk_finds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        holds = drawn(rng)
        found = list(zip(*(column.tolist() for column in origins(**holds)), strict=True))
        assert found == by_a_walk(**holds)
