"""Rows with instants on one axis, as an account of a run takes them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

Row = dict[str, Any]


def row(rank: int, operation: str, start_ms: float, end_ms: float, **columns: Any) -> Row:
    """Return a row of a collective of the world, of a message with ``peer``, or of own work."""
    plain = {"rank": rank, "operation": operation, "start_s": start_ms / 1e3, "end_s": end_ms / 1e3}
    of_group = {"group": "world", "group_size": 4, "seq": 0} if operation.isupper() else {}
    return {**plain, **of_group, "thread": "MainThread", **columns}


def table(*rows: Row, uncertainty_s: float = 0.0) -> pd.DataFrame:
    made = pd.DataFrame(rows)
    made["start_counter"], made["end_counter"] = made["start_s"], made["end_s"]
    made["elapsed_ms"] = 1e3 * (made["end_s"] - made["start_s"])
    return made.assign(clock_uncertainty_s=uncertainty_s)


def barrier(starts_ms: Sequence[float], end_ms: float, **columns: Any) -> list[Row]:
    n = {"group_size": len(starts_ms)}
    return [row(r, "BARRIER", begin, end_ms, **{**n, **columns}) for r, begin in enumerate(starts_ms)]


def random_run(seed: int) -> tuple[pd.DataFrame, int]:
    """Return the rows of ranks that work, meet in groups of several sizes, and send each other messages."""
    rng = random.Random(seed)
    n = rng.randint(2, 5)
    now, rows, seqs = [rng.uniform(0, 5) for _ in range(n)], [], {}
    for _ in range(rng.randint(3, 25)):
        for r in range(n):
            begin, now[r] = now[r], now[r] + rng.choice([0.0, rng.uniform(0, 8)])
            if rng.random() < 0.7 and now[r] > begin:
                rows.append(row(r, rng.choice(["forward", "load"]), begin, now[r]))
        members = sorted(rng.sample(range(n), rng.randint(2, n)))
        name = "ranks " + ",".join(map(str, members))
        of = {"group": name, "group_size": len(members), "seq": seqs.get(name, 0)}
        seqs[name] = of["seq"] + 1
        starts = [now[r] for r in members]
        for r in members:
            begin, now[r] = now[r], max(starts) + rng.uniform(0.01, 1)
            rows.append(row(r, "ALLREDUCE", begin, now[r], **of))
    return table(*rows), n


def what_at(rows: Sequence[Mapping[str, Any]], rank: int, instant_s: float) -> tuple[str, Any]:
    """Say by the definition what a rank does at an instant: the oracle, slow and simple."""
    mine = [one for one in rows if one["rank"] == rank and one["start_s"] <= instant_s < one["end_s"]]
    calls = [one for one in mine if one["operation"] == "ALLREDUCE"]
    if not calls:
        return (
            ("own work", max(mine, key=lambda one: one["start_s"])["operation"])
            if mine
            else ("not timed", "")
        )
    call = calls[0]
    together = [one for one in rows if (one["group"], one["seq"]) == (call["group"], call["seq"])]
    last = max(together, key=lambda one: one["start_s"])
    if instant_s >= last["start_s"]:
        return "transfer", "ALLREDUCE"
    what, whom = what_at(rows, last["rank"], instant_s)
    return "waiting", {"waiting": whom, "transfer": None}.get(what, last["rank"])
