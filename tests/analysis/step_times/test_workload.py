"""How much there was to do, by what rows state, how many there are, and what exchanges brought."""

from __future__ import annotations

import math

import numpy as np
import pytest
from step_rows import StepRow, work_rows

from timing_logger.analysis.rows.arrays import Floats
from timing_logger.analysis.step_times.workload import (
    StepsWorkload,
    joined_workload,
    sent_in_turn,
    workload,
    workload_of,
)


def of_exchanges(most: float) -> Floats | None:
    """Return the work of ten steps of two ranks, of which one got ``most`` times the mean in each."""
    brought = np.tile([most, 2 - most], 10)
    found = StepsWorkload({}, None, np.stack([brought, np.ones(20)]), {})
    return workload_of(found, lambda entries: entries.reshape(10, 2)).of_step


def test_exchanges_that_bring_one_rank_more_tell_how_much_it_had_to_do() -> None:
    work = of_exchanges(1.06)
    assert work is not None
    assert work[0] == pytest.approx([1.06, 0.94])


def test_exchanges_that_are_even_within_5_percent_tell_nothing() -> None:
    assert of_exchanges(1.04) is None


def test_of_two_turns_the_less_even_one_tells_unless_what_rows_state_is_less_even_still() -> None:
    turns = np.stack([np.tile([1.1, 0.9], 10), np.tile([0.7, 1.3], 10)])

    def most_of(stated: float) -> float:
        rows = np.tile([stated, 2 - stated], 10)
        found = StepsWorkload({}, rows, turns, {})
        work = workload_of(found, lambda entries: entries.reshape(10, 2)).of_step
        assert work is not None
        return float(work[0].max())

    assert [most_of(stated) for stated in (1.0, 1.2, 1.4)] == pytest.approx([1.3, 1.3, 1.4])


def test_steps_in_which_some_rank_sent_nothing_do_not_tell_how_even_exchanges_are() -> None:
    brought = np.array([[1.0, 1.0], [math.nan, 3.0], [1.0, 1.0]]).ravel()
    found = StepsWorkload({}, None, brought[None], {})
    assert workload_of(found, lambda entries: entries.reshape(3, 2)).of_step is None


def test_every_second_exchange_of_a_step_is_summed_for_itself_in_the_order_of_time() -> None:
    size = np.array([5.0, 1.0, 2.0, 3.0, 7.0, 9.0])
    start_s = np.array([4.0, 1.0, 2.0, 3.0, 5.0, 0.5])
    at = np.array([1, 0, 0, 0, 1, 1])
    found = sent_in_turn(np.array([True] * 5 + [False]), size, start_s, at, 3)
    assert found == pytest.approx(np.array([[4, 5, math.nan], [2, 7, math.nan]]), nan_ok=True)


def test_without_exchanges_nothing_is_sent_in_turn() -> None:
    none = np.zeros(2)
    assert sent_in_turn(np.zeros(2, np.bool_), none, none, np.zeros(2, np.int64), 1) is None


# -- what rows state -------------------------------------------------------------------------------------


def stated(*rows: StepRow, process: tuple[int, ...] = (0, 0)) -> StepsWorkload:
    return workload(work_rows(rows), np.array(process))


def test_the_work_of_a_step_is_what_its_rows_of_data_state_together() -> None:
    data = [StepRow("DATA", i, i + 1, 0, work=3) for i in range(2)]
    found = stated(*data, StepRow("FORWARD", 2, 3, 0, work=9), StepRow("FORWARD", 2, 3, 1, work=4))
    assert found.of_step is not None
    assert found.of_step.tolist() == [6, 4]


def test_without_data_it_is_the_most_that_any_row_states_but_a_copy() -> None:
    rows = [StepRow(name, 0, 1, 0, work=work) for name, work in (("FORWARD", 5), ("STEP", 2), ("H2D", 99))]
    found = stated(*rows)
    assert found.of_step is not None
    assert found.of_step == pytest.approx([5, math.nan], nan_ok=True)
    assert {name: of[0] for name, of in found.of_operation.items()} == {"FORWARD": 5, "STEP": 2, "H2D": 99}


def test_where_copies_alone_state_work_that_of_the_step_is_unknown() -> None:
    found = stated(StepRow("H2D", 0, 1, 0, work=99), StepRow("FORWARD", 1, 2, 0))
    assert (found.of_step, list(found.of_operation)) == (None, ["H2D"])


def test_the_work_of_an_operation_is_unknown_where_a_row_of_it_states_none() -> None:
    rows = [
        StepRow("FORWARD", 0, 1, 0, work=2), StepRow("FORWARD", 1, 2, 0), StepRow("FORWARD", 2, 3, 1, work=4),
    ]  # fmt: skip
    assert stated(*rows).of_operation["FORWARD"] == pytest.approx([math.nan, 4], nan_ok=True)


def test_of_a_process_that_never_states_work_it_is_unknown_in_steps_without_a_row_too() -> None:
    rows = [StepRow("FORWARD", 0, 1, 0, work=2), StepRow("FORWARD", 0, 1, 2, 1)]
    found = stated(*rows, process=(0, 0, 1, 1)).of_operation["FORWARD"]
    assert found == pytest.approx([2, 0, math.nan, math.nan], nan_ok=True)


def test_rows_of_own_work_are_counted_though_none_states_work() -> None:
    rows = [StepRow("FORWARD", 0, 1, 0)] * 3 + [StepRow("FORWARD", 0, 1, 1), StepRow("ALLREDUCE", 1, 2, 1)]
    found = stated(*rows)
    assert {name: counts.tolist() for name, counts in found.n_rows.items()} == {"FORWARD": [3, 1]}
    assert (found.of_operation, found.of_step) == ({}, None)


def test_only_counts_that_differ_between_ranks_or_steps_are_told_of_a_run() -> None:
    counts = {"DATA": np.array([1, 1, 1, 1]), "FORWARD": np.array([2, 2, 2, 3])}
    found = workload_of(StepsWorkload({}, None, None, counts), lambda entries: entries.reshape(2, 2))
    assert {name: n.tolist() for name, n in found.n_rows.items()} == {"FORWARD": [[2, 2], [2, 3]]}


def test_what_a_part_does_not_state_is_unknown_in_its_steps() -> None:
    parts = [
        StepsWorkload({"DATA": np.array([4.0])}, np.array([4.0]), np.ones((2, 1)), {"DATA": np.array([2])}),
        StepsWorkload({}, None, None, {}),
    ]
    found = joined_workload(parts, [1, 2])
    unknown = [math.nan, math.nan]
    assert found.of_operation["DATA"] == pytest.approx([4, *unknown], nan_ok=True)
    assert found.of_step == pytest.approx([4, *unknown], nan_ok=True)
    assert found.of_exchanges == pytest.approx(np.array([[1, *unknown]] * 2), nan_ok=True)
    assert found.n_rows["DATA"].tolist() == [2, 0, 0]


def test_what_no_part_states_is_unknown_of_all() -> None:
    found = joined_workload([StepsWorkload({}, None, None, {})] * 2, [1, 2])
    assert (found.of_step, found.of_exchanges) == (None, None)


@pytest.mark.parametrize(
    ("of_operation", "of_step", "is_known"),
    [({}, None, False), ({"H2D": np.ones(2)}, None, True), ({}, np.ones(2), True)],
    ids=["nothing", "an operation", "the step"],
)
def test_work_is_known_if_it_is_of_any_operation_or_of_the_step(
    of_operation: dict[str, Floats], of_step: Floats | None, is_known: bool
) -> None:
    found = workload_of(StepsWorkload(of_operation, of_step, None, {}), lambda entries: entries[:, None])
    assert found.is_known is is_known


def test_the_work_of_an_operation_that_states_none_is_that_of_the_step() -> None:
    found = workload_of(
        StepsWorkload({"DATA": np.array([3.0])}, np.array([8.0]), None, {}), lambda entries: entries[:, None]
    )
    of = {name: found.of(name) for name in ("DATA", "FORWARD")}
    assert {name: None if work is None else work.tolist() for name, work in of.items()} == {
        "DATA": [[3]], "FORWARD": [[8]],
    }  # fmt: skip
