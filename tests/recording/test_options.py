"""What the options of a logger are checked for, and what a sidecar states of them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from timing_logger.errors import ConfigurationError
from timing_logger.recording.options import Options


def options(rank: int = 0, **given: Any) -> Options:
    return Options.of(rank, given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("rank", 0, 2**31 - 1),
        ("world_size", 1, 2**31),
        ("maxsize", 1, 10**12),
        ("start_step", 0, 10**12),
        ("record_every_n_steps", 1, 10**12),
    ],
)
def test_integers_are_taken_from_the_least_to_the_most(name: str, least: int, most: int) -> None:
    for value in (least, most):
        assert getattr(options(**{name: value}), name) == value
    for wrong in (least - 1, 1.5, True, "1"):
        with pytest.raises(ConfigurationError, match=f"^{name} must be an integer >= {least}, and is"):
            options(**{name: wrong})
    if most < 10**12:
        with pytest.raises(ConfigurationError, match=f"^{name} must be an integer <= {most}, and is"):
            options(**{name: most + 1})


def test_recording_ends_after_it_began() -> None:
    assert options(start_step=3, end_step=4).end_step == 4
    with pytest.raises(ConfigurationError, match=r"^end_step=3 is not above start_step=3"):
        options(start_step=3, end_step=3)
    with pytest.raises(ConfigurationError, match=r"^end_step must be an integer >= 0, and is -1"):
        options(end_step=-1)


@pytest.mark.parametrize("name", ["maxsize", "start_step", "record_every_n_steps"])
def test_none_is_an_integer_only_where_that_means_something(name: str) -> None:
    assert (options(world_size=None).world_size, options(end_step=None).end_step) == (None, None)
    with pytest.raises(ConfigurationError, match=name):
        options(**{name: None})


@pytest.mark.parametrize("name", ["flush_interval", "device_timeout", "hang_after"])
def test_seconds_are_more_than_none_and_at_most_30_years(name: str) -> None:
    for value in (1e-9, 1, 10**9):
        assert getattr(options(**{name: value}), name) == value
    for wrong in (0, -1, math.nan, math.inf, 10**9 + 1, True, "1", None):
        said = f"{name} must be seconds > 0, at most 1000000000, and is {wrong!r}."
        with pytest.raises(ConfigurationError, match=f"^{re.escape(said)}$"):
            options(**{name: wrong})


def test_a_part_of_a_file_has_at_least_a_megabyte() -> None:
    assert [options(max_file_mb=value).max_file_mb for value in (None, 1, 1.5)] == [None, 1, 1.5]
    for wrong in (0.99, 0, math.nan, True, "1"):
        with pytest.raises(ConfigurationError, match=r"^max_file_mb must be megabytes >= 1, or None"):
            options(max_file_mb=wrong)


def test_the_owner_may_always_read_and_write_new_files() -> None:
    assert [options(file_mode=mode).file_mode for mode in (0o600, 0o640, 0o777)] == [0o600, 0o640, 0o777]
    for wrong, said in (
        (0o1600, "0o1600"), (0o400, "0o400"), (0o200, "0o200"), (-1, "-0o1"), (0, "0o0"), (True, "True"),
        ("0o600", "'0o600'"),
    ):  # fmt: skip
        with pytest.raises(ConfigurationError, match=f"^file_mode must be .* and is {said}\\.$"):
            options(file_mode=wrong)


def test_the_folder_of_the_ring_is_stated_as_text() -> None:
    given = (None, "a", Path("a"), b"a\xff")
    assert [options(ring_dir=folder).ring_dir for folder in given] == [None, "a", "a", "a\udcff"]
    with pytest.raises(
        ConfigurationError, match=r"^ring_dir must be the path of a folder, or None, and is 3"
    ):
        options(ring_dir=3)


def test_what_is_no_monitor_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^monitor must be a timing_logger\.Monitor, or None"):
        options(monitor="mine")


def test_labels_are_a_copy_of_json_values() -> None:
    given = {"stage": (2, 3)}
    found = options(labels=given).labels
    given.clear()
    assert found == {"stage": [2, 3]}
    assert options(labels=None).labels == {}
    for wrong in (3, {"a": math.nan}, {"a": {1}}):
        with pytest.raises(ConfigurationError, match=r"^labels must be a mapping of JSON values: "):
            options(labels=wrong)


def test_a_rank_is_below_the_number_of_ranks() -> None:
    assert options(3, world_size=4, ranks=[3, 0]).ranks == [0, 3]
    assert options(3, ranks=None).ranks is None
    with pytest.raises(ConfigurationError, match=r"^rank=4 is not below world_size=4: ranks count from 0\.$"):
        options(4, world_size=4)
    with pytest.raises(ConfigurationError, match=r"^ranks=4 is not below world_size=4"):
        options(0, world_size=4, ranks=[1, 4])


def test_an_unknown_option_is_refused_in_the_words_of_python() -> None:
    with pytest.raises(
        TypeError, match=r"^TimingLogger\.__init__\(\) got an unexpected keyword argument 'flushes'"
    ):
        options(flushes=1)


def test_the_policy_selects_by_the_steps_and_ranks_that_were_given() -> None:
    policy = options(start_step=10, end_step=20, record_every_n_steps=5, ranks=[1]).policy
    assert [step for step in range(30) if policy.records(step)] == [10, 15]
    assert [rank for rank in range(3) if policy.records_rank(rank)] == [1]


def test_a_sidecar_states_the_options_of_the_run_as_documented_if_none_was_given() -> None:
    assert options(3, world_size=4, labels={"stage": 2}, sinks=[object()], enabled=False).for_sidecar() == {
        "rank": 3,
        "world_size": 4,
        "labels": {"stage": 2},
        "options": {
            "flush_interval": 1.0, "maxsize": 100_000, "ranks": None, "start_step": 0, "end_step": None,
            "record_every_n_steps": 1, "device_timeout": 1.0, "hang_after": 60.0, "handle_sigterm": False,
            "pause_rows": False, "host_counters": False, "stack_samples": False, "fsync": False,
            "max_file_mb": None, "file_mode": 0o644, "ring_dir": None,
        },
    }  # fmt: skip
