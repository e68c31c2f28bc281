"""Handles on operations, and calls that see these end: what no sequence of calls shows, over each core."""

from __future__ import annotations

import gc
import inspect
from typing import Any

import pytest
from both_cores import BuiltCore
from requests_of_cores import Endpoint, Told, learn_size, slotted

from timing_logger.recording.cores.chosen import new_channel
from timing_logger.recording.cores.issued_calls import CompletingCall, two_given
from timing_logger.recording.sampling import StepPolicy

HANDLES, TOLD = object(), object()


class Bench:
    """Sends messages over a core, and takes the rows that there are of them."""

    def __init__(self, core: BuiltCore) -> None:
        self.core = core.classes
        self.channel = new_channel(1000, core.classes.Channel)
        self.recorder: Any = core.recorder(StepPolicy(), self.channel)
        self.recorder._switch_on()
        self.endpoint: Any = Endpoint(core.classes, self.recorder, learn_size, slotted(core.classes))

    def sent(self) -> Any:
        return self.endpoint.send(memoryview(b"12345678"), 1, "goes on")

    def rows(self) -> list[tuple[Any, ...]]:
        """Return operation, bytes and status of each row."""
        return [(record[3], record[5], record[14]) for record in self.channel.take(1000)]

    def waiting(self, call: Any, of_one: bool = False) -> Any:
        return self.core.completing_method(
            CompletingCall(call, ("given", "told"), True, of_one, not of_one, Told, None)
        )


@pytest.fixture
def bench(each_core: BuiltCore) -> Bench:
    return Bench(each_core)


def test_a_handle_that_goes_away_with_its_operation_under_way_leaves_it_unresolved(bench: Bench) -> None:
    bench.sent()
    assert bench.rows() == [("ISEND", 8, "unresolved")]


def test_a_handle_in_a_cycle_that_nobody_reaches_does_so_too(bench: Bench) -> None:
    ring: list[Any] = [bench.sent()]
    ring.append(ring)
    del ring
    gc.collect(1)
    assert bench.rows() == [("ISEND", 8, "unresolved")]


def test_a_handle_that_goes_away_with_an_error_on_its_way_leaves_the_error_alone(bench: Bench) -> None:
    def fails() -> None:
        print(bench.sent(), {}["of the program"])  # the handle goes before anybody has caught the error

    with pytest.raises(KeyError, match="of the program"):
        fails()
    assert bench.rows() == [("ISEND", 8, "unresolved")]


def test_a_subclass_of_a_handle_may_have_a_del_of_its_own(bench: Bench) -> None:
    handle, ended = bench.sent(), []

    class Own(type(handle)):  # type: ignore[misc]
        def __del__(self) -> None:
            ended.append("by the subclass")
            super().__del__()

    own = Own(None)
    own._operation, handle._operation = handle._operation, None
    del own, handle
    assert ended == ["by the subclass"]
    assert bench.rows() == [("ISEND", 8, "unresolved")]


def test_a_wait_within_a_wait_fills_in_no_status_of_the_outer_one(bench: Bench) -> None:
    def inner(given: list[Any], told: list[Told]) -> None:
        told += [Told()] * (1 - len(told))
        told[0].size = 5

    def outer(given: list[Any], told: list[Told]) -> None:
        told += [Told()] * (1 - len(told))
        told[0].size = 6
        bench.waiting(inner)([bench.sent()])

    bench.waiting(outer)([bench.sent()])
    bench.waiting(outer)([bench.sent()])
    sizes = (5, 6, 5, 6)
    assert bench.rows() == [(operation, size, "ok") for size in sizes for operation in ("ISEND", "WAIT")]


def test_a_handle_that_a_call_is_not_told_of_has_the_size_of_its_issue(bench: Bench) -> None:
    def fills_in(given: list[Any], told: list[Told]) -> None:
        for number, one in enumerate(told):
            one.size = number

    one = Told()
    bench.waiting(fills_in)([bench.sent(), bench.sent()], [one])
    assert [row[1] for row in bench.rows()] == [0, 0, 8, 8]


def test_a_call_that_raises_ends_with_its_error_what_is_over_and_nothing_else(bench: Bench) -> None:
    def raises(given: list[Any], told: list[Told]) -> None:
        given[0].is_over = True
        raise ValueError("the first is over")

    handles = [bench.sent(), bench.sent()]
    with pytest.raises(ValueError, match="the first is over"):
        bench.waiting(raises)(handles)
    assert bench.rows() == [("ISEND", 8, "error:ValueError"), ("WAIT", 8, "error:ValueError")]


def test_the_program_s_own_statuses_stay_its_own(bench: Bench) -> None:
    kept: list[Any] = []

    def keeps(given: list[Any], told: list[Told]) -> None:
        kept.append(told)
        told += [Told() for _ in range(len(given) - len(told))]
        for one in told:
            one.size = 3

    mine: list[Told] = []
    bench.waiting(keeps)([bench.sent()], mine)
    bench.waiting(keeps)([bench.sent()])
    assert kept[0] is mine
    assert kept[1] is not mine
    assert len(mine) == 1


def test_more_statuses_than_a_thread_keeps_are_made_anew(bench: Bench) -> None:
    told_of: list[int] = []

    def fills_in(given: list[Any], told: list[Told]) -> None:
        told_of.append(len(told))
        told += [Told() for _ in range(len(given) - len(told))]
        for one in told:
            one.size = 3

    wait = bench.waiting(fills_in)
    for n_handles in (3, 3, 65, 3):
        wait([bench.sent() for _ in range(n_handles)])
    assert told_of in ([0, 3, 3, 0], [0, 0, 0, 0])  # the Python core keeps none
    assert {row[1] for row in bench.rows()} == {3}


def test_what_has_no_length_comes_to_the_call_as_it_is(bench: Bench) -> None:
    handles = [bench.sent(), bench.sent()]
    left = bench.waiting(lambda given, told: list(given))(handle for handle in handles)
    assert left == handles


def test_a_method_has_the_name_and_the_parameters_of_the_call(bench: Bench) -> None:
    def finish(given: object, told: object = None) -> None:
        """Finish them."""

    method = bench.waiting(finish)
    assert (method.__name__, method.__doc__) == ("finish", "Finish them.")
    assert inspect.signature(method) == inspect.signature(finish)


def test_a_method_of_one_handle_is_bound_to_it(bench: Bench) -> None:
    class Own:
        finish = bench.waiting(lambda self, told=None: self, of_one=True)

    own = Own()
    assert own.finish() is own
    assert Own.finish(own) is own
    assert own.finish(told=None) is own
    assert (lambda finish: finish())(own.finish) is own


@pytest.mark.parametrize(
    ("args", "kwargs", "expected"),
    [
        ((HANDLES,), {}, (HANDLES, None)),
        ((HANDLES, TOLD), {}, (HANDLES, TOLD)),
        ((HANDLES,), {"told": TOLD}, (HANDLES, TOLD)),
        ((), {"told": TOLD, "given": HANDLES}, (HANDLES, TOLD)),
        ((), {}, None),
        ((), {"told": TOLD}, None),
        ((HANDLES, TOLD, 3), {}, None),
        ((HANDLES,), {"given": HANDLES}, None),
        ((HANDLES,), {"another": 1}, None),
    ],
)
def test_two_arguments_are_found_however_they_are_given(
    args: tuple[Any, ...], kwargs: dict[str, Any], expected: object
) -> None:
    assert two_given(("given", "told"), args, kwargs) == expected
