"""What a timed group hands on to the group that works for it, and what it does around that."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from allreduce_instrumentation.torch_distributed import TimedProcessGroup, _timed_group
from timing_logger import TimingLogger


@pytest.fixture
def group(logger: TimingLogger) -> TimedProcessGroup:
    return TimedProcessGroup(dist.ProcessGroup(0, 1), logger, {"cuda": "nccl"})


@pytest.fixture
def events(group: TimedProcessGroup, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happens when the group ends, in order."""
    found: list[str] = []
    untimed: Any = SimpleNamespace(
        shutdown=lambda: found.append("shut down"), abort=lambda: found.append("aborted")
    )
    group.untimed = untimed
    monkeypatch.setattr(group.timing, "let_callbacks_end", lambda: found.append("callbacks end"))
    durations: Any = SimpleNamespace(collect=lambda: found.append("durations collected"))
    group.timing.backend_durations = durations
    return found


def test_a_group_is_shut_down_after_its_callbacks_and_its_durations_are_collected_then(
    group: TimedProcessGroup, events: list[str]
) -> None:
    group.shutdown()
    assert events == ["callbacks end", "shut down", "durations collected"]
    group.timing.backend_durations = None
    group.shutdown()
    assert events[3:] == ["callbacks end", "shut down"]


def test_the_callbacks_of_a_group_that_is_aborted_end_by_that(
    group: TimedProcessGroup, events: list[str]
) -> None:
    group.abort()
    assert events == ["aborted", "callbacks end"]


@pytest.mark.parametrize("wanted", [False, True])
def test_what_is_split_from_a_group_is_timed_like_it_where_this_rank_is_in_it(
    wanted: bool, group: TimedProcessGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(TimedProcessGroup, "of_new", lambda *args: made.append(args) or "timed")
    parts = ["a part", None]
    untimed: Any = SimpleNamespace(
        split_group=lambda *_: parts.pop(0), merge_remote_group=lambda *_: "the whole"
    )
    group.untimed = untimed
    durations: Any = object() if wanted else None
    group.timing.backend_durations = durations
    found: list[Any] = [group.split_group([0]), group.split_group([1]), group.merge_remote_group("store", 2)]
    assert found == ["timed", None, "timed"]
    assert made == [(part, group.timing_logger, {"cuda": "nccl"}, wanted) for part in ("a part", "the whole")]


def test_a_monitored_barrier_waits_as_long_and_for_as_many_as_is_asked(group: TimedProcessGroup) -> None:
    asked: list[Any] = []
    untimed: Any = SimpleNamespace(monitored_barrier=lambda *args: asked.append(args))
    group.untimed = untimed
    group.monitored_barrier(timedelta(seconds=3), True)
    group.monitored_barrier(wait_all_ranks=True)
    assert asked == [(timedelta(seconds=3), True), (None, True)]


def test_a_group_is_bound_to_the_device_of_the_untimed_one(logger: TimingLogger) -> None:
    bound, unbound = dist.ProcessGroup(0, 1), dist.ProcessGroup(0, 1)
    bound.bound_device_id = torch.device("cuda", 1)
    devices = [TimedProcessGroup(one, logger, {}).bound_device_id for one in (bound, unbound)]
    assert devices == [torch.device("cuda", 1), None]


def test_durations_that_works_tell_are_collected_before_the_logger_is_closed(
    logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    of_works: Any = SimpleNamespace(collect_before_close=told.append)
    monkeypatch.setattr(_timed_group.WorkDurations, "of", lambda *_: of_works)
    group = TimedProcessGroup.of_new(dist.ProcessGroup(0, 1), logger, {})
    assert group.timing.backend_durations is of_works
    assert told == [logger]


def test_a_timed_group_says_by_what_it_is_timed_and_warns_of_an_untried_torch(
    logger: TimingLogger, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(TimingLogger, "note_process_group", lambda self, name: said.append(name))
    monkeypatch.setattr(_timed_group, "warn_of_an_untried_torch", lambda: said.append("untried"))
    TimedProcessGroup(dist.ProcessGroup(0, 1), logger, {})
    assert said == ["untried", _timed_group.CHOSEN.name]


@pytest.mark.parametrize("has_hooks", [False, True])
def test_works_of_a_group_with_hooks_are_waited_for_before_it_is_shut_down(
    group: TimedProcessGroup, monkeypatch: pytest.MonkeyPatch, has_hooks: bool
) -> None:
    events: list[str] = []
    for name, call in {
        "_has_hooks": lambda self: has_hooks,
        "_wait_for_pending_works": lambda self: events.append("waits"),
        "shutdown": lambda self: events.append("shut down"),
    }.items():
        monkeypatch.setattr(dist.ProcessGroup, name, call)
    group.shutdown()
    assert events == ["waits"] * has_hooks + ["shut down"]
