"""Names of earlier versions work, and each warns of the name that has taken its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from processes import run_python
from simulated_runs import data_parallel, factors

from timing_logger import TimingLogger, read_timings
from timing_logger.analysis import Suspect, Verdict, scores, stragglers, windows
from timing_logger.analysis.stragglers import rank_facts
from timing_logger.analysis.stragglers.rank_facts import SelfTimeOfRows, SlowOperation, VaryAlone
from timing_logger.sinks.memory import MemorySink

# -- recording -------------------------------------------------------------------------------------------


def recorded(name: str, **options: Any) -> list[tuple[str, str, int | None, float | None]]:
    """Return operation, layer, iteration and work of the row that the method ``name`` of a logger leaves."""
    sink = MemorySink()
    with TimingLogger(0, None, sinks=[sink], **options) as logger:
        logger.set_current_iteration(3)
        with getattr(logger, name)("DATA", layer_name="fc", work=2):
            pass
    return [(row.operation, row.layer_name, row.iteration, row.work) for row in sink.records]


@pytest.mark.both_cores
def test_logger_phase_warns_of_logger_operation_and_leaves_the_same_row() -> None:
    with pytest.warns(DeprecationWarning, match=r"^logger\.phase is called logger\.operation now$") as said:
        earlier = recorded("phase")
    assert earlier == recorded("operation") == [("DATA", "fc", 3, 2)]
    assert [warning.filename for warning in said] == [__file__]


@pytest.mark.both_cores
def test_logger_phase_of_a_logger_that_is_off_warns_too_and_leaves_no_row() -> None:
    with pytest.warns(DeprecationWarning, match=r"logger\.operation"):
        assert recorded("phase", enabled=False) == []


def test_a_logger_times_operations_without_a_warning_and_without_the_module_of_warnings() -> None:
    run = run_python(
        """
        import sys, warnings
        warnings.simplefilter("error")
        from timing_logger import TimingLogger
        with TimingLogger(0, enabled=False).operation("DATA"): pass
        print("timing_logger._moved" in sys.modules)
        """
    )
    assert run.stdout == "False\n", run.stderr


@pytest.mark.both_cores
def test_what_logger_operation_times_is_found_by_the_column_operation(tmp_path: Path) -> None:
    with TimingLogger(0, tmp_path) as logger, logger.operation("DATA"):
        pass
    rows = read_timings(tmp_path)
    assert (rows.operation == "DATA").sum() == 1
    assert (rows.phase == "DATA").sum() == 0  # which is dense or sparse, and another thing


# -- what is found ---------------------------------------------------------------------------------------

EARLIER = {
    "Verdict.phase": Verdict(verdict="rank", operation="DATA"),
    "Suspect.phase": Suspect((1,), "DATA", 1.0, 1.0),
    "VaryAlone.phase": VaryAlone("DATA"),
    "SlowOperation.phase": SlowOperation("DATA", 1, 0.5),
    "SelfTimeOfRows.phases": SelfTimeOfRows(("DATA", "FORWARD")),
}


@pytest.mark.parametrize("name", EARLIER)
def test_an_attribute_has_its_earlier_name_too_and_warns_of_the_present_one(name: str) -> None:
    kind, old = name.split(".")
    new = old.replace("phase", "operation")
    with pytest.warns(DeprecationWarning, match=f"^{kind}.{old} is called {kind}.{new} now$") as said:
        value = getattr(EARLIER[name], old)
    assert value == getattr(EARLIER[name], new)
    assert [warning.filename for warning in said] == [__file__]


MADE = {
    Verdict: {"verdict": "rank", "phase": "DATA"},
    Suspect: {"ranks": (1,), "phase": "DATA", "share": 1.0, "likelihood": 1.0},
    VaryAlone: {"phase": "DATA"},
    SlowOperation: {"phase": "DATA", "rank": 1, "excess_share": 0.5},
    SelfTimeOfRows: {"phases": ("DATA", "FORWARD")},
}


@pytest.mark.parametrize("kind", MADE)
def test_a_result_is_made_with_the_earlier_keyword_too_and_warns_of_the_present_one(kind: Any) -> None:
    given = {name.replace("phase", "operation"): value for name, value in MADE[kind].items()}
    with pytest.warns(
        DeprecationWarning, match=rf"\(phases?=\) is called {kind.__name__}\(operation"
    ) as said:
        made = kind(**MADE[kind])
    assert repr(made) == repr(kind(**given))
    assert [warning.filename for warning in said] == [__file__]


def test_the_fact_slow_phase_is_slow_operation_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match=r"SlowPhase has moved: from .* import SlowOperation$"):
        earlier = getattr(rank_facts, "SlowPhase")  # noqa: B009 (a type checker does not know it)
    assert earlier is SlowOperation


def test_nothing_that_is_found_says_phase() -> None:
    slow = factors(60, 4, noise=0.05)
    slow[:, 2] *= 2.0
    timings = data_parallel(slow)
    verdict = stragglers(timings)
    assert verdict.as_dict()["operation"] == verdict.operation != ""
    assert "phase" not in repr(verdict.as_dict())
    for table in (windows(timings), scores(timings)):
        assert "operation" in table.columns
        assert "phase" not in table.columns
