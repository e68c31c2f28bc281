"""What numbers, counters and wall clocks of collectives say of whose they are, up to the last second."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from timing_logger.reading import second_runs
from timing_logger.reading.second_runs import _Numbered

NAN = float("nan")


def numbered(
    starts_s: Sequence[float], seq: Sequence[int], ends_s: Sequence[float] | None = None,
    unix_s: Sequence[float] | None = None, group: Sequence[int] | None = None,
) -> _Numbered:  # fmt: skip
    """Return collectives that began then; each took a second, unless stated otherwise."""
    n = len(starts_s)
    at_s, groups = np.array(starts_s, np.float64), np.array(group or [0] * n)
    keys = pd.DataFrame({"group": groups, "seq": seq})
    earlier = keys.groupby(["group", "seq"]).cumcount().to_numpy(np.int64)
    ends = at_s + 1 if ends_s is None else np.array(ends_s, np.float64)
    unix = at_s if unix_s is None else np.array(unix_s, np.float64)
    return _Numbered(np.arange(n), groups, np.array(seq), earlier, at_s, ends, unix)


def far_away(found: _Numbered, *iterations: int, **sidecar: int) -> str:
    columns = {"iteration": pd.array(iterations, "Int64")} if iterations else {}
    return second_runs._far_away(pd.DataFrame(columns), found, sidecar)


AGAIN = "the numbers of its collectives begin again 61 s later"


@pytest.mark.parametrize(("gap_s", "said"), [(59.0, ""), (60.0, ""), (61.0, AGAIN)])
def test_numbers_that_begin_again_are_of_another_run_after_more_than_a_minute(
    gap_s: float, said: str
) -> None:
    assert far_away(numbered([0, 2, 3 + gap_s, 5 + gap_s], [0, 1, 0, 1])) == said


def test_a_process_with_a_sidecar_ran_all_the_time() -> None:
    assert far_away(numbered([0, 2, 64, 66], [0, 1, 0, 1]), rank=0) == ""


def test_the_gap_begins_when_the_longest_call_before_has_ended() -> None:
    assert far_away(numbered([0, 2, 64, 66], [0, 1, 0, 1], ends_s=[50, 3, 65, 67])) == ""


def test_of_calls_whose_end_is_not_known_the_start_counts() -> None:
    assert far_away(numbered([0, 2, 63, 65], [0, 1, 0, 1], ends_s=[NAN] * 4)) == AGAIN


@pytest.mark.parametrize(
    ("seq", "said"), [([0, 1, 1, 2], AGAIN), ([0, 0, 1, 2], ""), ([0, 1, 2, 3], ""), ([0, 5, 1, 2], "")]
)
def test_numbers_begin_again_if_the_first_after_the_gap_is_no_new_one_and_some_recur(
    seq: list[int], said: str
) -> None:
    assert far_away(numbered([0, 2, 64, 66], seq)) == said


def test_a_group_whose_numbers_go_on_tells_that_the_run_does() -> None:
    both = numbered([0, 1, 2, 64, 65, 66], [0, 1, 7, 0, 1, 8], group=[0, 0, 1, 0, 0, 1])
    assert far_away(both) == ""


@pytest.mark.parametrize(
    ("iterations", "said"), [((0, 1, 0, 1), AGAIN), ((0, 1, 1, 2), AGAIN), ((0, 1, 2, 3), "")]
)
def test_iterations_that_go_on_tell_that_the_run_does(iterations: tuple[int, ...], said: str) -> None:
    assert far_away(numbered([0, 2, 64, 66], [0, 1, 0, 1]), *iterations) == said


@pytest.mark.parametrize(("apart_s", "said"), [
    (0.0, ""), (60.0, ""), (61.0, "its rows are of two clocks that are 61 s apart"),
    (-61.0, "its rows are of two clocks that are 61 s apart"), (NAN, ""),
])  # fmt: skip
def test_clocks_that_are_more_than_a_minute_apart_are_two(apart_s: float, said: str) -> None:
    found = numbered([0, 1, 2, 3], [0, 1, 0, 1], unix_s=[0, 1, 2 + apart_s, 3 + apart_s])
    assert second_runs._two_clocks(found, *second_runs._pairs(found)) == said


S = 10**9
BEFORE = "1 of its collectives are from before its process began, as its sidecar says"
AFTER = "1 of its collectives are from after its process had ended, as its sidecar says"


@pytest.mark.parametrize(
    ("unix_s", "closed", "said"),
    [
        (940.0, True, []), (939.0, True, [BEFORE]), (939.0, False, [BEFORE]), (2060.0, True, []),
        (2061.0, True, [AFTER]), (2061.0, False, []), (NAN, True, []),
    ],
)  # fmt: skip
def test_rows_from_more_than_a_minute_outside_the_life_of_a_process_are_of_another(
    unix_s: float, closed: bool, said: list[str]
) -> None:
    sidecar = {"started_unix_ns": 1000 * S, "updated_unix_ns": 2000 * S, "closed": closed}
    found = numbered([0, 1], [0, 1], unix_s=[1500.0, unix_s])
    assert list(second_runs._outside(found, sidecar)) == said
    assert list(second_runs._outside(found, {"closed": True})) == []
    assert list(second_runs._outside(found, None)) == []
