"""What Ok-Topk decides in a call: how much may travel, which regions and threshold hold, who hands over."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ranks_as_threads import ThreadTransport, on_threads  # noqa: E402

from allreduce_instrumentation.compressors import SparsePayload, ThresholdState  # noqa: E402
from allreduce_instrumentation.sparse import oktopk  # noqa: E402


class Alike:
    """A transport of the first of two ranks that have the same."""

    rank, size = 0, 2
    device = torch.device("cpu")

    def __init__(self) -> None:
        self.gathered: list[int] = []

    def allgather(self, tensor: torch.Tensor, what: str) -> torch.Tensor:
        self.gathered.append(tensor.numel())
        return torch.stack([tensor] * self.size)


def entries(*values: float, length: int = 8) -> SparsePayload:
    """Return a payload with these values at the first even indices."""
    return SparsePayload(torch.tensor(values), torch.arange(len(values)) * 2, length, torch.float32)


@pytest.mark.parametrize(
    ("most", "ranks", "sent", "received"), [(10, 4, 8, 12), (1, 4, 1, 3), (10, 1, 0, 0), (9, 2, 5, 5)]
)
def test_a_rank_sends_all_but_an_equal_region_and_receives_what_the_bound_leaves(
    most: int, ranks: int, sent: int, received: int
) -> None:
    assert oktopk._most_sent(most, ranks) == sent
    assert oktopk._most_received(most, ranks) == received


# -- regions --------------------------------------------------------------------------------------------


def regions(
    calls: int, boundaries: tuple[int, ...], most: int = 4, length: int = 8
) -> tuple[list[int], list[int]]:
    """Return the regions after so many calls, and how many numbers were gathered for them."""
    transport: Any = Alike()
    state = ThresholdState(calls=calls, boundaries=boundaries)
    return oktopk._regions(transport, entries(1, 1, 1, 1, length=length), state, most), transport.gathered


@pytest.mark.parametrize("calls", [1, 15, 17])
def test_regions_hold_for_sixteen_calls(calls: int) -> None:
    assert regions(calls, (2, 8)) == ([0, 2, 8], [])


@pytest.mark.parametrize(
    ("calls", "boundaries"), [(0, (2, 8)), (16, (2, 8)), (32, (2, 8)), (1, ()), (1, (8,)), (1, (2, 7))]
)
def test_regions_that_are_due_or_do_not_fit_are_found_anew(calls: int, boundaries: tuple[int, ...]) -> None:
    assert regions(calls, boundaries) == ([0, 4, 8], [5])


def test_at_most_eight_samples_for_each_rank_are_gathered() -> None:
    assert regions(0, (), most=50, length=100)[1] == [17]
    assert regions(0, (), most=15, length=100)[1] == [16]


def test_where_all_entries_are_wanted_regions_are_equal_and_nothing_is_gathered() -> None:
    assert regions(1, (2, 8), most=8) == ([0, 4, 8], [])


# -- the global threshold ---------------------------------------------------------------------------------


def chosen(calls: int, most: int, threshold: float | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the choice among 5, 1, 3 and 2 on each of two ranks; "exactly" if it is made anew."""
    monkeypatch.setattr(oktopk, "_choose_exactly", lambda *_: "exactly")
    transport: Any = Alike()
    state = ThresholdState(calls=calls, global_threshold=threshold)
    found: Any = oktopk._choose(transport, entries(5, 1, -3, 2), state, most)
    return found if found == "exactly" else (found[0].tolist(), *found[1:])


@pytest.mark.parametrize(
    ("calls", "most", "threshold", "expected"),
    [
        (31, 4, 3.0, ([0, 2], [2, 2], 3.0)),  # what is at the threshold is chosen
        (32, 4, 3.0, "exactly"),
        (64, 4, 3.0, "exactly"),
        (31, 4, None, "exactly"),
        (31, 2, 3.0, "exactly"),  # four are too many for it
        (31, 7, 3.0, "exactly"),  # and too few
        (31, 8, 3.0, ([0, 1, 2, 3], [4, 4], 3.0)),  # all there are
        (32, 8, 3.0, ([0, 1, 2, 3], [4, 4], None)),
    ],
)
def test_a_threshold_holds_for_32_calls_while_it_chooses_about_as_many_as_are_wanted(
    calls: int, most: int, threshold: float | None, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert chosen(calls, most, threshold, monkeypatch) == expected


def test_sums_that_are_too_many_are_left_out_the_smallest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(1, 5, 2.0, monkeypatch) == ([0, 2], [2, 3], 2.0)


# -- the result -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("counts", "sent"), [([2, 1, 1, 0], 12), ([3, 1, 0, 0], 2 * (2 + 3))])
def test_only_an_owner_with_more_than_twice_its_share_hands_out_the_rest_first(
    counts: list[int], sent: int
) -> None:
    def program(transport: ThreadTransport) -> tuple[list[int], int]:
        first = sum(counts[: transport.rank])
        indices = torch.arange(first, first + counts[transport.rank])
        own = SparsePayload(indices.float(), indices, 8, torch.float32)
        return oktopk._gather(transport, own, counts).indices.tolist(), transport.sent

    found = on_threads(4, program)
    assert [indices for indices, _ in found] == [[0, 1, 2, 3]] * 4
    assert found[0][1] == sent
