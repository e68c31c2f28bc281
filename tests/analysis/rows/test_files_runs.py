"""Which processes were of one run, and what shows that files are of several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from timing_logger.analysis.rows.files import File, different_runs, runs_of

S = 10**9


def test_incarnations_number_the_runs_if_some_rank_has_all_of_them() -> None:
    rank, incarnation = np.array([0, 0, 0, 1, 2, 2]), np.array([1, 2, 4, 2, 1, 4])
    assert runs_of(rank, incarnation).tolist() == [0, 1, 2, 1, 0, 2]


def test_else_the_k_th_incarnation_of_each_rank_was_of_the_k_th_run() -> None:
    assert runs_of(np.array([0, 0, 3, 3, 3]), np.array([1, 2, 4, 5, 7])).tolist() == [0, 1, 0, 1, 2]


def test_no_processes_are_of_no_run() -> None:
    assert runs_of(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
    assert different_runs([]) == ""


def file(rank: int, began_s: float = 0.0, ended_s: float = 10.0, **others: Any) -> File:
    span = {"span_unix_ns": (round(began_s * S), round(ended_s * S))}
    return {"rank": rank, "incarnation": 1, **span, **others}  # type: ignore[typeddict-item]


def stated(rank: int, **sidecar: Any) -> File:
    return file(rank, sidecar=sidecar)


# -- within a file ---------------------------------------------------------------------------------------


def test_a_file_with_the_rows_of_two_processes_is_a_mixture_in_itself() -> None:
    files = [file(0, second_run=""), file(3, second_run="below a second header, after 40 rows")]
    assert different_runs(files) == (
        "the file of rank 3 holds the rows of two processes: below a second header, after 40 rows"
    )


# -- far apart -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("began_s", "is_said"), [(5.0, False), (70.0, False), (71.0, True)])
def test_files_more_than_a_minute_apart_are_of_different_runs(began_s: float, is_said: bool) -> None:
    found = different_runs([file(0), file(1, began_s, began_s + 5.0)])
    assert found == ("rank 0 had ended 61 s before rank 1 began" if is_said else "")


def test_all_that_had_ended_and_all_that_began_later_are_named() -> None:
    files = [file(3, 100.0, 110.0), file(1, 1.0, 8.0), file(2, 101.0, 110.0), file(0, 0.0, 10.0)]
    assert different_runs(files) == "ranks 0 and 1 had ended 90 s before ranks 2 and 3 began"


def test_a_file_that_goes_on_beside_both_joins_those_that_are_apart() -> None:
    assert different_runs([file(0, 0.0, 200.0), file(1, 1.0, 10.0), file(2, 100.0, 110.0)]) == ""


def test_a_restart_into_the_same_folder_is_no_mixture() -> None:
    files = [file(r, 1e3 * life, 1e3 * life + 10, incarnation=life) for r in (1, 0) for life in (2, 1)]
    assert different_runs(files) == ""
    files[0]["span_unix_ns"] = (5000 * S, 5010 * S)
    assert different_runs(files) == "rank 0 had ended 2990 s before rank 1 began"


def test_a_file_that_states_no_incarnation_is_of_the_first() -> None:
    later = file(1, 1e3, 1.1e3)
    del later["incarnation"]
    again = file(0, 1e3, 1.1e3, incarnation=2)
    assert different_runs([file(0), again, later]).startswith("rank 0 had ended 990 s before rank 1")


def test_files_are_of_the_same_runs_in_whatever_order_they_come() -> None:
    first, second = file(0, 0, 10), file(0, 500, 510)
    restarted = [first, {**second, "incarnation": 2}, file(1, 1, 9), {**file(1, 501, 509), "incarnation": 2}]
    assert different_runs(restarted) == different_runs(restarted[::-1]) == ""  # type: ignore[arg-type]


def test_while_a_run_is_watched_its_sidecars_say_when_processes_were() -> None:
    def watched(rank: int, began_s: int, ended_s: int | None) -> File:
        sidecar: Any = {"started_unix_ns": began_s * S, "updated_unix_ns": ended_s and ended_s * S}
        return {"rank": rank, "sidecar": sidecar}

    assert (
        different_runs([watched(0, 0, 10), watched(1, 90, 95)]) == "rank 0 had ended 80 s before rank 1 began"
    )
    assert different_runs([watched(0, 0, 10), watched(1, 90, None)]) == ""
    assert different_runs([watched(0, 0, None), watched(1, 90, 95)]) == ""


# -- what sidecars state ---------------------------------------------------------------------------------


def test_files_that_state_different_numbers_of_ranks_are_of_different_runs() -> None:
    sizes = [4, 2, 4, None]
    files = [stated(rank, world_size=size) for rank, size in enumerate(sizes)]
    assert different_runs(files) == "the number of ranks is 4 of ranks 0 and 2, 2 of rank 1"
    assert different_runs([*files[::2], file(5), file(6, sidecar=None)]) == ""


def test_a_host_that_was_rebooted_between_files_is_named() -> None:
    files = [stated(rank, host="a", boot_id=boot) for rank, boot in enumerate(["x", "y", "x", ""])]
    assert different_runs(files) == (
        "the host a was rebooted between the files of ranks 0 and 2 and those of rank 1"
    )
    assert different_runs([files[0], files[2], files[3]]) == ""


@pytest.mark.parametrize("hosts", [("a", "b"), ("", ""), (None, None)])
def test_hosts_that_are_not_known_to_be_one_were_not_rebooted(hosts: tuple[str | None, ...]) -> None:
    assert not different_runs([stated(rank, host=hosts[rank], boot_id=f"boot {rank}") for rank in range(2)])


# -- never together --------------------------------------------------------------------------------------

ON_ONE_CLOCK = {"wall_minus_counter_s": 100.0, "numbers": {"world": (0, 9), "dp": (3, 3)}}


def one_after_the_other(gap_s: float = 2.0, **of_second: Any) -> str:
    second = {**ON_ONE_CLOCK, **of_second}
    return different_runs([file(0, **ON_ONE_CLOCK), file(1, 10.0 + gap_s, 20.0, **second)])


def test_who_had_ended_before_another_began_was_not_in_the_same_collectives() -> None:
    assert one_after_the_other() == (
        "rank 0 had ended 2 s before rank 1 began, though both have the same collectives"
    )
    assert one_after_the_other(numbers={"world": (8, 12)})
    assert one_after_the_other(wall_minus_counter_s=100.4)


@pytest.mark.parametrize(
    "of_second",
    [
        pytest.param({"gap_s": 1.0}, id="within what clocks may be off"),
        pytest.param({"wall_minus_counter_s": 100.5}, id="on another clock"),
        pytest.param({"wall_minus_counter_s": None}, id="on an unknown clock"),
        pytest.param(
            {"numbers": {"world": (9, 12)}}, id="one number alone, which the other may come to late"
        ),
        pytest.param({"numbers": {"tp": (0, 9)}}, id="in another group"),
        pytest.param({"numbers": {"dp": (0, 9)}}, id="one number of the first"),
        pytest.param({"numbers": None}, id="without numbers"),
    ],
)
def test_who_may_have_been_in_other_collectives_may_be_of_the_same_run(of_second: dict[str, Any]) -> None:
    assert one_after_the_other(**of_second) == ""
