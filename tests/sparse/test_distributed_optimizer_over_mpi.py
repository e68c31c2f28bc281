"""DistributedOptimizer, on one, two and four real ranks."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from mpi_runner import Run, run_on_ranks
from slow import slow

Results = list[dict[str, Any]]

TRAININGS = (
    "SGD",
    "Adam",
    "fused Adam",
    "LBFGS",
    "SGD with a closure",
    "accumulating, each backward reduced",
    "accumulating, none reduced before the step",
    "accumulating, the first backward reduced",
    "accumulating, the last backward reduced",
    "gradients never zeroed",
    "clipping",
    "GradScaler",
    "GradScaler and fused Adam",
    "checkpoints",
    "reentrant checkpoints",
    "frozen for a while",
    "frozen at first",
    "a group added",
    "StepLR",
    "OneCycleLR",
    "ReduceLROnPlateau",
)


BY_DAY = (
    "SGD",
    "fused Adam",
    "SGD with a closure",
    "accumulating, each backward reduced",
    "accumulating, none reduced before the step",
    "accumulating, the first backward reduced",
    "clipping",
    "GradScaler",
    "reentrant checkpoints",
    "frozen for a while",
    "a group added",
)
OTHERS = "another number of ranks, on the same path"
ON_OTHERS = "all trainings, of which most are quick on two ranks"


@functools.cache
def on(number: int) -> Results:
    """What each of so many ranks found out in ``mpi_programs/training.py``."""
    return run_on_ranks(number, "training.py", *(BY_DAY if number == 2 else ())).results


@pytest.fixture(scope="module", params=[slow(1, OTHERS), 2, slow(4, OTHERS)], ids="{} ranks".format)
def ranks(request: pytest.FixtureRequest) -> Results:
    return on(request.param)


@pytest.fixture(
    params=[
        *((2, name) for name in BY_DAY),
        *(slow((number, name), ON_OTHERS) for number in (1, 4) for name in TRAININGS),
    ],
    ids=lambda param: "{} ranks-{}".format(*param),
)
def trained(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """What became of a training on each rank."""
    number, name = request.param
    return [rank["training"][name] for rank in on(number)]


@pytest.fixture(
    scope="module", params=[slow(4, "ten seconds of waiting for ranks that fail")], ids="{} ranks".format
)
def failing(request: pytest.FixtureRequest) -> Run:
    return run_on_ranks(request.param, "failures.py")


def same_everywhere(results: list[Any]) -> bool:
    return all(result == results[0] for result in results)


# -- training -------------------------------------------------------------------------------------


def test_training_equals_one_process_on_the_whole_batch(trained: list[dict[str, Any]]) -> None:
    for training in trained:
        assert training["moved"] > 0.01
        assert training["distance"] < 1e-4 * training["moved"]


def test_parameters_are_the_same_on_all_ranks_bit_for_bit(trained: list[dict[str, Any]]) -> None:
    assert same_everywhere([training["same"] for training in trained])


def test_no_training_is_left_out_of_the_comparison(ranks: Results) -> None:
    assert sorted(ranks[0]["training"]) == sorted(BY_DAY if len(ranks) == 2 else TRAININGS)


def test_ranks_without_a_gradient_count_as_zeros(ranks: Results) -> None:
    for rank in (rank["unused"] for rank in ranks):
        assert max(rank["errors"]) < 1e-7
        assert rank["other_branch_has_gradient"] == (len(ranks) > 1)
    assert same_everywhere([rank["unused"]["same"] for rank in ranks])


def test_gradients_that_no_rank_has_stay_none(ranks: Results) -> None:
    for rank in (rank["unused"] for rank in ranks):
        assert rank["idle_gradient"]
        assert rank["idle_before"] == rank["idle_after"]


def test_means_are_right_in_every_dtype(ranks: Results) -> None:
    mean = sum(range(1, len(ranks) + 1)) / len(ranks)
    for rank in ranks:
        assert rank["dtypes"] == {dtype: [mean] for dtype in rank["dtypes"]}
        assert len(rank["dtypes"]) == 6


def test_all_ranks_start_from_the_optimizer_state_of_rank_0(ranks: Results) -> None:
    for rank in (rank["states"] for rank in ranks):
        assert rank["started"] == [0.01, 6]
    assert same_everywhere([rank["states"]["same"] for rank in ranks])


def test_its_state_can_be_loaded_into_the_plain_optimizer(ranks: Results) -> None:
    assert {rank["states"]["steps_in_plain_one"] for rank in ranks} == {5.0}


def test_training_resumed_from_a_state_ends_where_training_in_one_go_does(ranks: Results) -> None:
    for rank in (rank["resumed"] for rank in ranks):
        assert rank["resumed"] == rank["in_one_go"]


def test_recording_changes_no_bit_of_the_training(ranks: Results) -> None:
    for rank in (rank["logged_or_not"] for rank in ranks):
        assert rank["logged"] == rank["not_logged"]


# -- rows -----------------------------------------------------------------------------------------


def test_each_reduced_bucket_has_one_wait_of_the_same_number(ranks: Results) -> None:
    for rank in (rank["rows"] for rank in ranks):
        assert len(rank["reduced"]) == 16  # 4 buckets in 4 backwards
        assert rank["waited"] == rank["reduced"]


def test_buckets_have_the_same_numbers_on_all_ranks(ranks: Results) -> None:
    for rank in ranks:
        first = rank["rows"]["order"][0]  # after the collectives that set training up
        assert rank["rows"]["order"] == list(range(first, first + 16))
    assert same_everywhere([rank["rows"]["reduced"] for rank in ranks])


def test_buckets_are_reduced_while_backward_runs(ranks: Results) -> None:
    for rank in ranks:
        assert rank["rows"]["ended_within_backward"] >= 1


def test_buckets_are_named_after_their_first_parameter(ranks: Results) -> None:
    for rank in ranks:
        assert rank["rows"]["names"] == [f"{layer}.bias (+1 more)" for layer in (3, 2, 1, 0)]
        assert rank["rows"]["phases"] == ["dense"]


def test_reductions_happen_on_the_thread_and_waiting_in_training(ranks: Results) -> None:
    for rank in ranks:
        assert dict(rank["rows"]["threads"]) == {
            "ALLGATHER": "MainThread",
            "ALLREDUCE": "AllReducer",
            "BCAST": "MainThread",
            "WAIT": "MainThread",
        }


def test_a_bucket_is_its_gradients_and_a_flag_for_each_and_two_for_failures(ranks: Results) -> None:
    for rank in ranks:
        assert rank["rows"]["sizes"] == [4 * (20 * 20 + 20 + 2 + 2)]


def test_rows_carry_iteration_and_epoch(ranks: Results) -> None:
    for rank in ranks:
        assert rank["rows"]["iterations"] == [[0, 0]] * 4 + [[1, 0]] * 4 + [[2, 1]] * 8


def test_setting_up_is_in_the_rows(ranks: Results) -> None:
    for rank in ranks:
        several = [["BCAST", "initial optimizer state", 0]] if len(ranks) > 1 else []
        assert rank["rows"]["others"] == [
            ["ALLGATHER", "initial parameters", None],
            ["ALLGATHER", "settings", None],
            *several,
            ["BCAST", "initial parameters", 0],
        ]


# -- from outside -----------------------------------------------------------------------------------


def test_it_is_an_optimizer_with_the_state_of_the_wrapped_one(ranks: Results) -> None:
    for rank in (rank["face"] for rank in ranks):
        assert rank["is_optimizer"]
        assert rank["shares"] == [True, True, True]
        assert rank["hooks"] == ["before", "after"]
        assert rank["repr"]
        assert rank["unknown"][0] == "AttributeError"


def test_each_optimizer_is_a_group_of_its_own(ranks: Results) -> None:
    for rank in ranks:
        first, second, named = rank["face"]["groups"]
        assert first.startswith("MPI_COMM_WORLD/optimizer")
        assert second != first
        assert named == "mine/optimizer"


def test_parameters_without_names_are_numbered(ranks: Results) -> None:
    assert ranks[0]["face"]["unnamed"] == "group0.param5 (+5 more)"


def test_a_copy_is_refused(ranks: Results) -> None:
    kind, message, _ = ranks[0]["face"]["copied"]
    assert kind == "TypeError"
    assert "state_dict()" in message


def test_a_step_after_stop_is_refused(ranks: Results) -> None:
    for rank in ranks:
        assert rank["face"]["after_stop"][0] == "ReductionError"
        assert "stop() was called" in rank["face"]["after_stop"][1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("names lacking", "lacks 4 of the optimizer's 6 parameters, of shapes (10, 10), (10,), (2, 10), ..."),
        ("no optimizer", "optimizer must be"),
        ("no communicator", "comm must be"),
        ("no bytes", "bucket_bytes must be"),
        ("no time", "timeout_s must be"),
    ],
)
def test_wrong_arguments_are_refused(ranks: Results, wrong: str, said: str) -> None:
    for rank in ranks:
        assert rank["refusals"][wrong][0] == "ConfigurationError"
        assert said in rank["refusals"][wrong][1]


def test_parameters_that_differ_between_ranks_are_refused_on_every_rank(ranks: Results) -> None:
    for rank in ranks if len(ranks) > 1 else []:
        assert rank["refusals"]["ranks differ"][0] == "ConfigurationError"
        assert "differ between ranks" in rank["refusals"]["ranks differ"][1]


@pytest.mark.slow("a program that asks MPI for no threads; other wrong arguments are quick")
def test_an_mpi_without_threads_is_refused() -> None:
    kind, message, _ = run_on_ranks(1, "single_threaded.py").results[0]
    assert kind == "ConfigurationError"
    assert "mpi4py.rc.thread_level" in message


# -- failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["flags", "flags of the last bucket", "loading", "dividing"])
def test_a_failure_on_one_rank_is_raised_by_the_same_step_on_all(failing: Run, part: str) -> None:
    for errors in (rank[part] for rank in failing.results):
        assert errors[:2] == [[], []]
        assert [error[0] for error in errors[2:]] == ["ReductionError", "ReductionError"]


def test_a_failure_after_the_last_bucket_is_raised_by_the_next_step_elsewhere(failing: Run) -> None:
    *others, here = (rank["dividing the last bucket"] for rank in failing.results)
    assert [bool(error) for error in here] == [False, False, True, True]
    assert all([bool(error) for error in errors] == [False, False, False, True, True] for errors in others)


def test_the_failing_rank_chains_what_happened_and_others_name_the_rank(failing: Run) -> None:
    *others, here = (rank["flags"][2] for rank in failing.results)
    assert here[2] == "MemoryError"
    assert "MemoryError: no room" in here[1]
    assert all("failed on rank 3" in error[1] for error in others)


def test_sparse_gradients_are_refused(failing: Run) -> None:
    for rank in failing.results:
        assert "'0.weight' is sparse" in rank["sparse gradient"][0][1]


def test_gradients_changed_behind_its_back_are_an_error_everywhere(failing: Run) -> None:
    here, *others = (rank["changed gradient"] for rank in failing.results)
    assert here[0] == []
    assert "synchronize()" in here[1][1]
    for errors in others:  # in that step or, if they were through with it, in the next
        assert errors[0] == []
        assert "failed on rank 0" in next(error for error in errors if error)[1]


def test_a_backward_that_was_cut_short_is_an_error_everywhere(failing: Run) -> None:
    here, *others = (rank["interrupted backward"] for rank in failing.results)
    assert "in the middle of its reduction" in here[1][1]
    assert all("failed on rank 0" in errors[1][1] for errors in others)


def test_an_error_of_mpi_is_chained_and_elsewhere_time_runs_out(failing: Run) -> None:
    *others, here = (rank["MPI error"] for rank in failing.results)
    assert [error[2] for error in here] == ["Exception", "Exception"]
    for errors in others:
        assert all("'4.bias (+2 more)' was not reduced within timeout_s=1" in error[1] for error in errors)


def test_a_dead_thread_is_an_error(failing: Run) -> None:
    for rank in failing.results:
        assert "is gone" in rank["thread gone"][0][1]


def test_a_rank_that_comes_too_late_hears_that_the_others_gave_up(failing: Run) -> None:
    late, *others = (rank["rank missing"][0] for rank in failing.results)
    assert "failed on 3 other ranks" in late[1]
    assert all("timeout_s=0.5" in error[1] for error in others)


def test_a_job_ends_without_stop(failing: Run) -> None:
    assert failing.returncode == 0, failing.stderr


@pytest.mark.slow("an end by an error; that the optimizer trains is quick")
def test_an_error_of_the_script_ends_the_job() -> None:
    run = run_on_ranks(2, "crash.py")
    assert run.returncode != 0
    assert "no such column" in run.stderr
