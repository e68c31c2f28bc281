"""Which buckets a backward pass launches, and what is refused between it and the step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from played_optimizer_ranks import PlayedRanks

torch = pytest.importorskip("torch")

from allreduce_instrumentation.sparse._all_reducer import (  # noqa: E402
    AllReducer,
    SummedMeans,
)
from allreduce_instrumentation.sparse._gradient_passes import GradientPasses  # noqa: E402
from timing_logger import TimingLogger  # noqa: E402
from timing_logger.errors import ReductionError  # noqa: E402
from timing_logger.sinks.memory import MemorySink  # noqa: E402

FIRST, LAST, NEWS = [1, 1, 0, 0], [2, 2, 1, 0, 0], [0, 0, 0, 1, 1]
"""What travels in the buckets of ``w``, of ``v``, and of a rank 0 that failed, in that of ``v``."""


class Job:
    """Two parameters with a bucket each, ``w`` of one number and ``v`` of two, on one of two ranks.

    A backward gives ``w`` the gradient 1 and ``v`` the gradient 2.
    """

    def __init__(self, logger: TimingLogger) -> None:
        self.w = torch.ones(1, requires_grad=True)
        self.v = torch.ones(2, requires_grad=True)
        self.ranks = PlayedRanks(size=2)
        self.reducer = AllReducer(self.ranks, SummedMeans(2, logger), logger, timeout_s=60)
        self.passes = GradientPasses(4, self.reducer, lambda device: True)
        self.passes.add_parameters([("w", self.w), ("v", self.v)])

    def backward(self, of_w: float = 1, of_v: float = 2) -> None:
        ((self.w * of_w).sum() + (self.v * of_v).sum()).backward()

    def cut_short(self) -> None:
        """Run a backward that gives ``v`` a gradient, and raises before it gives one to ``w``."""
        of_w = self.w * 1  # what is computed last has its gradient first
        of_w.register_hook(_raise)
        with pytest.raises(MemoryError):
            (of_w.sum() + (self.v * 2).sum()).backward()

    def travelled(self) -> list[list[float]]:
        """Return what was sent once all that was launched has been."""
        self.reducer.stop()
        return self.ranks.sent

    @property
    def gradients(self) -> list[Any]:
        return [None if p.grad is None else p.grad.tolist() for p in (self.w, self.v)]


def _raise(*arguments: object) -> None:
    raise MemoryError("no room")


@pytest.fixture
def job(logger: TimingLogger) -> Iterator[Job]:
    made = Job(logger)
    yield made
    made.reducer.stop()


# -- launches -----------------------------------------------------------------------------------------------


def test_a_backward_launches_each_bucket_once_and_the_last_layer_first(job: Job) -> None:
    job.backward()
    job.passes.finish()
    assert job.ranks.sent == [LAST, FIRST]
    assert job.gradients == [[0.5], [1, 1]]


def test_means_are_stored_once_for_a_backward(job: Job) -> None:
    job.backward()
    job.passes.finish()
    job.w.grad = torch.tensor([7.0])  # clipped, say
    job.passes.finish()
    assert job.gradients == [[7], [1, 1]]
    assert len(job.ranks.sent) == 2


def test_gradients_that_were_used_are_reduced_anew_at_the_next_step(job: Job) -> None:
    job.backward()
    job.passes.finish()
    job.passes.forget()
    job.passes.finish()
    assert job.ranks.sent == [LAST, FIRST, [1, 1, 1, 0, 0], [0.5, 1, 0, 0]]


def test_without_a_backward_all_ranks_still_hear_of_all_buckets(job: Job) -> None:
    job.passes.finish()
    assert job.ranks.sent == [[0, 0, 0, 0, 0], [0, 0, 0, 0]]
    assert job.gradients == [None, None]


def test_a_parameter_that_backward_did_not_reach_travels_as_unused_at_its_end(job: Job) -> None:
    (job.w * 1).sum().backward()
    assert len(job.passes._launches) == 2
    job.passes.finish()
    assert job.ranks.sent == [[0, 0, 0, 0, 0], FIRST]


@pytest.mark.parametrize(("w_is_last", "launched"), [(False, [1, 2]), (True, [0, 2])])
def test_a_bucket_is_launched_when_it_is_full_and_those_before_it_are_launched(
    job: Job, w_is_last: bool, launched: list[int]
) -> None:
    seen: list[int] = []
    for one in (job.w, job.v):
        one.register_post_accumulate_grad_hook(lambda p: seen.append(len(job.passes._launches)))
    of_first = job.v * 2 if w_is_last else job.w * 1
    of_last = job.w * 1 if w_is_last else job.v * 2  # what is computed last has its gradient first
    (of_first.sum() + of_last.sum()).backward()
    assert seen == launched
    assert job.travelled() == [LAST, FIRST]


def test_a_second_backward_takes_what_has_accumulated_and_waits_for_the_first(
    job: Job, logger: TimingLogger, sink: MemorySink
) -> None:
    job.backward()
    job.backward()
    job.passes.finish()
    assert job.ranks.sent[2:] == [[4, 4, 1, 0, 0], [2, 1, 0, 0]]
    logger.flush()
    assert [record.operation for record in sink.records].count("WAIT") == 4


def test_a_suspended_backward_reduces_nothing_and_the_step_reduces_all(job: Job) -> None:
    with job.passes.suspended():
        with job.passes.suspended():
            job.backward()
        job.backward()  # still suspended
    assert job.passes._launches == {}
    job.passes.finish()
    assert job.ranks.sent == [[4, 4, 1, 0, 0], [2, 1, 0, 0]]
    job.passes.forget()
    before = dict(job.passes._launches)
    job.backward()
    assert all(launch is not before[place] for place, launch in job.passes._launches.items())


def test_a_suspended_backward_after_a_reduced_one_is_reduced_with_it(job: Job) -> None:
    job.backward()
    with job.passes.suspended():
        job.backward()
    job.passes.finish()
    assert job.ranks.sent[2:] == [[4, 4, 1, 0, 0], [2, 1, 0, 0]]


def test_an_error_ends_a_suspension(job: Job) -> None:
    with pytest.raises(MemoryError), job.passes.suspended():
        raise MemoryError
    job.backward()
    assert len(job.passes._launches) == 2


def test_without_hooks_a_backward_launches_nothing(job: Job) -> None:
    job.passes.remove_hooks()
    job.backward()
    assert job.passes._launches == {}
    assert job.passes._hooks == {}


# -- layout -------------------------------------------------------------------------------------------------


def test_a_frozen_parameter_does_not_travel_and_a_thawed_one_does_again(job: Job) -> None:
    job.v.requires_grad_(False)
    (job.w * 1).sum().backward()
    job.passes.finish()
    assert job.ranks.sent == [FIRST]
    job.v.requires_grad_(True)
    job.w.grad = None
    job.passes.forget()
    job.backward()
    job.passes.finish()
    assert job.ranks.sent[1:] == [LAST, FIRST]


def test_one_that_was_frozen_at_first_has_a_hook_once_it_is_thawed(job: Job) -> None:
    late = torch.ones(1, requires_grad=False)
    job.passes.add_parameters([("late", late)])
    assert id(late) not in job.passes._hooks
    late.requires_grad_(True)
    job.passes.finish()
    job.passes.forget()
    assert id(late) in job.passes._hooks
    assert len(job.ranks.sent) == 3


def test_one_that_is_thawed_while_a_pass_is_open_is_left_to_the_next(job: Job) -> None:
    job.v.requires_grad_(False)
    job.passes._open()
    job.v.requires_grad_(True)
    job.passes._note_arrival(job.v)
    job.passes._close()
    job.passes.finish()
    assert len(job.ranks.sent) == 1


def test_added_parameters_are_waited_for_with_those_before(job: Job) -> None:
    job.backward()
    launches = list(job.passes._launches.values())
    job.passes.add_parameters([("x", torch.ones(1, requires_grad=True))])
    assert all(launch.waited_for for launch in launches)
    assert job.passes._launches == {}


# -- what is refused ----------------------------------------------------------------------------------------


def test_a_gradient_that_was_changed_after_backward_is_refused_and_the_others_hear_of_it(job: Job) -> None:
    job.backward()
    for launch in job.passes._launches.values():
        job.reducer.settle(launch)
    job.w.grad = torch.tensor([7.0])
    for _ in range(2):
        with pytest.raises(ReductionError, match="the gradient of 'w' was changed after backward"):
            job.passes.finish()
    before = dict(job.passes._launches)
    job.backward()
    assert job.passes._launches == before
    assert job.travelled() == [LAST, FIRST, NEWS]
    assert job.gradients[0] == [8]


def test_a_backward_that_ended_by_an_exception_is_refused_and_the_others_hear_of_it(job: Job) -> None:
    job.cut_short()
    job.reducer.settle(job.passes._launches[0])
    job.passes.forget()  # zero_grad() does not mend it
    with pytest.raises(ReductionError, match="a backward ended by an exception in the middle of its"):
        job.passes.finish()
    assert job.travelled() == [LAST, [0, 0, 1, 1]]


def test_a_second_gradient_in_one_pass_is_refused_by_its_name(job: Job) -> None:
    job.cut_short()
    job.backward()
    with pytest.raises(ReductionError, match="'v' got a second gradient within one reduction"):
        job.reducer.check()


def test_a_gradient_that_cannot_be_copied_does_not_end_backward_and_is_refused_by_the_step(job: Job) -> None:
    job.passes._buckets[0].load = _raise
    job.backward()
    with pytest.raises(ReductionError, match="MemoryError: no room"):
        job.passes.finish()
    assert job.ranks.sent == [NEWS]


def test_after_a_failure_elsewhere_nothing_is_stored(job: Job) -> None:
    def others(tensor: torch.Tensor) -> None:
        tensor[-2:] += torch.tensor([1.0, 2.0])

    job.ranks.others = others
    job.backward()
    with pytest.raises(ReductionError, match="failed on rank 1"):
        job.passes.finish()
    assert job.gradients == [[1], [2, 2]]
    assert len(job.ranks.sent) == 1
