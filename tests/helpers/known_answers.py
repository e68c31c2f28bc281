"""The answers of every analysis on simulated runs, kept in ``golden/``: whoever changes one sees it.

Usage: ``known_answers.py`` writes them again. Look at the difference before you commit it.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from places import ROOT, TESTS

sys.path.append(str(ROOT / "benchmarks"))

from verdict_accuracy.kinds import LARGE, kinds
from verdict_accuracy.simulation import Scenario, SimulatedRun, simulate

from timing_logger import analysis

FILE = TESTS / "golden" / "answers.json"
DIGITS = 9
"""Numbers are compared to so many significant digits: sums in another order differ later."""

OFF_TIES = 1 + 3.14159e-11
"""Numbers are multiplied by it before they are rounded: whole ns in ms often lie half-way between two of so
many digits, and processors that add in another order would round them to either."""

NOTHING = 1e-9
"""What is smaller is the rounding of sums."""

LONGEST = 48
"""Of a value whose JSON is longer than so many characters a digest is kept."""

SEED = 1

Question = Callable[[SimulatedRun], Any]

ASKED_ALL = (
    "training / all rows / steady / moves / 8",
    "overlapped / all rows / steady / slow 30% / 8 / 100 steps",
    "experts / all rows / steady / hot expert / 8 / 60 steps",
    "SENDRECV ring / all rows / steady / link later / 8 / 60 steps",
)
"""Runs that every analysis is asked about."""

IN_PARTS = (
    *ASKED_ALL,
    "training / all rows / steady / host of two stalls / 16",
    "training / collectives only / busy / slow 50% / 8",
    "ring / communication only / steady / slow 25% / 8 / 40 steps",
    "rounds / no iterations / steady / now and then / 8",
    "ranks join / all rows / mixed / slow 30% / 8 / 100 steps",
    "training / all rows / steady / flaky link / 8",
    "training / all rows / steady / two in turn / 8",
    "partly timed / all rows / steady / 20 ms late / 8",
    "local SGD / all rows / steady / slow 20% / 8 / 400 steps",
    "devices / all rows / mixed / slow 30% / 8 / 100 steps",
    "HSDP / collectives only / steady / slow 30% / 16 / 60 steps",
    "rooted / communication only / steady / slow 30% / 8",
    "training / all rows / mixed / saves / 8",
)
"""Runs of which answers are kept in their parts; of all others a digest of each answer is."""


def scenarios() -> dict[str, Scenario]:
    """Return the runs by their names; those of very many ranks are left out."""
    return {str(scenario): scenario for scenario in kinds() if scenario.ranks < LARGE}


def answers(run: SimulatedRun, questions: Mapping[str, Question]) -> dict[str, Any]:
    """Return what analyses say of a run, by their names; an error is an answer, too."""
    said = {}
    for name, ask in questions.items():
        try:
            said[name] = plain(ask(run))
        except ValueError as error:
            said[name] = f"{type(error).__name__}: {error}"
    return said


def _analysis(name: str) -> Question:
    return lambda run: getattr(analysis, name)(run.timings)


def _summary(by_row: str, summary: str) -> Question:
    return lambda run: getattr(analysis, summary)(getattr(analysis, by_row)(run.timings))


def _what_if(fix: str) -> Question:
    return lambda run: analysis.what_if(run.timings, fix, roles=run.roles)


def _verdict(run: SimulatedRun) -> Any:
    return analysis.stragglers(run.timings, roles=run.roles).as_dict()


OF_EACH: dict[str, Question] = {
    "stragglers": _verdict,
    **{name: _analysis(name) for name in ("summarize", "bandwidth", "efficiencies", "waits")},
    "summarize_account": _summary("account", "summarize_account"),
}
"""What each run is asked."""

ALL: dict[str, Question] = {
    **OF_EACH,
    **{
        name: _analysis(name)
        for name in (
            "compression", "match_collectives", "message_waits", "overlap", "scores", "windows",
            "spread_between_ranks", "summarize_ranks", "summarize_run", "transfer_costs", "account_of_step",
        )
    },
    "hang": lambda run: analysis.hang(run.timings, now_unix_s=0.0),
    "waiting_by_rank": _summary("account", "waiting_by_rank"),
    "summarize_messages": _summary("message_waits", "summarize_messages"),
    "summarize_waits": _summary("waits", "summarize_waits"),
}  # fmt: skip

FIXES = {
    "training / all rows / steady / moves / 8": ("rank=1", "operation=FORWARD"),
    "SENDRECV ring / all rows / steady / link later / 8 / 60 steps": ("transfers=usual",),
    "experts / all rows / steady / hot expert / 8 / 60 steps": ("work=even",),
    "overlapped / all rows / steady / slow 30% / 8 / 100 steps": ("without=DATA",),
}


def questions_of(name: str) -> dict[str, Question]:
    """Return what the run of this name is asked."""
    repairs = {f"what-if {fix}": _what_if(fix) for fix in FIXES.get(name, ())}
    return {**ALL, **repairs} if name in ASKED_ALL else OF_EACH


def plain(value: Any) -> Any:
    """Return a value as JSON has it: tables as columns, numbers rounded, NaN as null."""
    if isinstance(value, pd.DataFrame):
        return {str(name): _column(value[name]) for name in value.columns}
    if isinstance(value, float | np.floating):
        return _rounded(float(value))
    if isinstance(value, int | np.integer | str | bool) or value is None:
        return int(value) if isinstance(value, np.integer) else value
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_fields"):
        return [plain(each) for each in (sorted(value) if isinstance(value, set | frozenset) else value)]
    fields = getattr(value, "_fields", None) or getattr(value, "__dataclass_fields__", None)
    if fields is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    return str(value)


def _column(column: pd.Series[Any]) -> Any:
    """Return a column's values, or a digest of very many numbers: one by one they would take seconds."""
    if len(column) < 1000 or not pd.api.types.is_numeric_dtype(column):
        return plain(column.astype(object).where(column.notna(), None).tolist())
    numbers = column.to_numpy(np.float64, na_value=np.nan) * OFF_TIES
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = 10.0 ** (np.floor(np.log10(np.abs(numbers))) - DIGITS + 1)
        rounded = np.where(np.abs(numbers) < NOTHING, 0.0, np.rint(numbers / unit))
    return "digest " + hashlib.sha256(np.nan_to_num(rounded, nan=-1.0).tobytes()).hexdigest()[:12]


def _rounded(value: float) -> float | None:
    if not math.isfinite(value):
        return None if math.isnan(value) else value
    return 0.0 if abs(value) < NOTHING else float(f"{value * OFF_TIES:.{DIGITS}g}")


def in_parts(answer: Any) -> Any:
    """Return an answer with each part, a column or a field, as it is if it is short, and else its digest."""
    if isinstance(answer, dict):
        return {name: short(part) for name, part in answer.items()}
    return short(answer)


def short(value: Any) -> Any:
    text = json.dumps(value, sort_keys=True)
    return value if len(text) <= LONGEST else digest(value)


def digest(value: Any) -> str:
    """Return 12 digits that are others for any other value."""
    return "digest " + hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def kept_of(name: str) -> dict[str, Any]:
    """Return what is kept of the run of this name."""
    condense = in_parts if name in IN_PARTS else digest
    return {
        question: condense(answer)
        for question, answer in answers(simulate(scenarios()[name], SEED), questions_of(name)).items()
    }


def kept() -> dict[str, dict[str, Any]]:
    """Return what the file has, by run and question."""
    loaded: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
    return loaded


def main() -> None:
    FILE.write_text(json.dumps({name: kept_of(name) for name in scenarios()}, indent=1) + "\n")


if __name__ == "__main__":
    main()
