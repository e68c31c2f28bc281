"""The summary of a run goes into JSON and back; and what is no summary is refused, whatever it holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compared_runs import course, quantity, summary
from hostile_files import POISON

from timing_logger.errors import RunSummaryError
from timing_logger.results.run_summary import RunSummary, SummarizedVerdict, summary_from

WHOLE = summary(
    1.0, quantity("ALLREDUCE", 1.0, n_bytes=5.0), quantity("own work", 2.0, kind="rank", rank=1),
    verdict=SummarizedVerdict("rank", True, [1], "DATA", 3.0), versions={"torch": "2.9"}, hosts=["a"],
    course=course([2.0, 3.0]),
)  # fmt: skip


def plain() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(json.dumps(WHOLE.as_dict()))
    return content


def test_it_goes_into_json_and_back() -> None:
    assert summary_from(plain()) == WHOLE


@pytest.mark.parametrize("name", RunSummary.__dataclass_fields__)
def test_no_value_does_more_than_to_be_refused(name: str) -> None:
    usual = plain()
    for value in POISON:
        try:
            found = summary_from({**usual, name: value})
        except RunSummaryError:
            continue
        assert isinstance(found, RunSummary), value
        assert found.step_mean_ms > 0, value


@pytest.mark.parametrize("name", ["mean_ms", "operation", "rank", "n_rows"])
def test_a_quantity_with_a_value_of_another_type_is_refused(name: str) -> None:
    content = plain()
    for value in POISON:
        content["quantities"][-1][name] = value
        try:
            summary_from(content)
        except RunSummaryError:
            continue
        assert isinstance(value, (int, float, str, type(None)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "no JSON object"), ({}, "version"), ({**WHOLE.as_dict(), "schema_version": 2}, "version 2"),
        ({"schema_version": 1}, "missing"), ({**WHOLE.as_dict(), "step_mean_ms": 0.0}, "no step that takes"),
        ({**WHOLE.as_dict(), "steps_are": "hops"}, "values that no run has"),
    ],
)  # fmt: skip
def test_what_is_no_summary_is_refused_with_the_reason(content: object, said: str) -> None:
    with pytest.raises(RunSummaryError, match=said):
        summary_from(json.loads(json.dumps(content)))


@pytest.mark.parametrize("name", ["step_mean_ms", "step_median_ms", "n_steps"])
def test_a_run_without_a_step_that_takes_time_is_refused(name: str) -> None:
    with pytest.raises(RunSummaryError, match="states no step that takes time"):
        summary_from({**plain(), name: 0})


@pytest.mark.parametrize(
    "name", ["n_ranks", "n_steps", "steps_are", "step_mean_ms", "step_median_ms", "quantities"]
)
def test_what_every_summary_states_may_not_be_missing(name: str) -> None:
    content = plain()
    del content[name]
    with pytest.raises(RunSummaryError, match=f"'{name}' is missing"):
        summary_from(content)


@pytest.mark.parametrize("name", ["mean_ms", "median_ms", "n_rows", "bytes"])
@pytest.mark.parametrize("value", [-1.0, 1e300])
def test_a_quantity_that_no_run_has_is_refused(name: str, value: float) -> None:
    content = plain()
    content["quantities"][0][name] = value
    with pytest.raises(RunSummaryError, match="values that no run has"):
        summary_from(content)


@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 0}, {"counted_by": "hops"}, {"first": [4, 0]}, {"first": [0, 3]}, {"first": [0]},
        {"median_ms": [0.0, 1.0]}, {"median_ms": [1.0, 1e300]}, {"n_steps": [0, 4]}, {"n_steps": []},
        {"first": [*range(0, 400, 4)], "median_ms": [1.0] * 100, "n_steps": [4] * 100},
    ],
)  # fmt: skip
def test_a_course_that_no_run_has_is_refused(wrong: dict[str, Any]) -> None:
    content = plain()
    content["course"].update(wrong)
    with pytest.raises(RunSummaryError, match="values that no run has"):
        summary_from(content)


def test_a_summary_of_an_earlier_version_has_no_course() -> None:
    content = plain()
    del content["course"]
    assert summary_from(content).course is None


def test_the_least_that_a_run_may_have_is_a_short_step_of_a_course_without_gaps() -> None:
    least = course([0.1], first=3, width=1, n_steps=1)
    content = {**plain(), "step_mean_ms": 0.1, "step_median_ms": 0.1, "n_steps": 1}
    found = summary_from({**content, "course": least._asdict()})
    assert (found.step_mean_ms, found.n_steps, found.course) == (0.1, 1, least)


def test_a_run_is_told_from_others_by_its_name_and_when_it_began() -> None:
    assert summary(1.0, run_id="a", began_unix_ns=0).identity == ("a", 0)
    assert summary(1.0, run_id="a").identity is summary(1.0, began_unix_ns=5).identity is None
