"""What is paired with what: layers and buckets by name, and as many bytes divided otherwise are no news."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from compared_runs import quantity, summary

from timing_logger.analysis.comparison.compare import compare_runs
from timing_logger.analysis.comparison.differences import _apart
from timing_logger.results.comparison import Comparison, Difference
from timing_logger.results.run_summary import Quantity


def reduced(layers: dict[str, float], *, operation: str = "IALLREDUCE", wait: bool = False) -> list[Quantity]:
    """Return an operation, and its layers with their bytes; maybe with waits for these."""
    whole = quantity(operation, 9.0, n_rows=len(layers), n_bytes=sum(layers.values()))
    names = [operation, "WAIT"] if wait else [operation]
    return [
        whole,
        *(
            quantity(name, 2.0, kind="layer", layer=layer, n_bytes=n_bytes if name == operation else None)
            for name in names
            for layer, n_bytes in layers.items()
        ),
    ]


def compared(here: Sequence[Quantity], there: Sequence[Quantity]) -> Comparison:
    return compare_runs([summary(1.0, *here)] * 3, [summary(1.0, *there)] * 3)


def one_of(found: Comparison, operation: str, layer: str = "") -> Difference:
    (one,) = (of for of in found.differences if (of.operation, of.layer) == (operation, layer))
    return one


TWO = {"ddp:4.bias": 3e6, "ddp:0.weight": 1e6}
THREE = {"ddp:4.bias": 1e6, "ddp:2.weight": 2e6, "ddp:0.weight": 1e6}


def test_layers_of_one_name_are_compared_with_each_other() -> None:
    slower = [one._replace(mean_ms=5.0) if one.layer == "ddp:4.bias" else one for one in reduced(TWO)]
    found = one_of(compared(slower, reduced(TWO)), "IALLREDUCE", "ddp:4.bias")
    assert (found.ms, found.against_ms) == pytest.approx((5.0, 2.0))
    assert (found.n_runs, found.n_against) == (3, 3)


def test_as_many_bytes_in_other_buckets_are_neither_new_nor_gone() -> None:
    found = compared(reduced(THREE, wait=True), reduced(TWO, wait=True))
    assert one_of(found, "IALLREDUCE").does == "divided"
    assert {one_of(found, name, "ddp:2.weight").does for name in ("IALLREDUCE", "WAIT")} == {"divided"}
    assert one_of(found, "IALLREDUCE", "ddp:4.bias").does == "divided"
    assert one_of(found, "IALLREDUCE", "ddp:0.weight").does == ""
    (cause,) = found.causes
    assert (cause.kind, cause.operation, cause.amount, cause.against_amount) == (
        "divided",
        "IALLREDUCE",
        3,
        2,
    )


def test_buckets_that_only_have_other_names_are_divided_otherwise_too() -> None:
    renamed = {f"{name}_": n_bytes for name, n_bytes in TWO.items()}
    found = compared(reduced(renamed), reduced(TWO))
    assert {one.does for one in found.differences if one.kind == "layer"} == {"divided"}
    assert [cause.kind for cause in found.causes] == ["divided"]


def test_a_further_bucket_with_further_bytes_is_new() -> None:
    found = compared(reduced({**TWO, "ddp:6.bias": 1e6}), reduced(TWO))
    assert one_of(found, "IALLREDUCE").does == "bytes"
    assert one_of(found, "IALLREDUCE", "ddp:6.bias").does == "new"


@pytest.mark.parametrize("n_bytes", [None, 0.0])
def test_calls_without_bytes_are_made_more_often(n_bytes: float | None) -> None:
    often, seldom = ([quantity("ALLREDUCE", 9.0, n_rows=n, n_bytes=n_bytes)] for n in (4.0, 2.0))
    assert one_of(compared(often, seldom), "ALLREDUCE").does == "count"


def test_own_work_that_is_done_more_often_is_not_divided_otherwise() -> None:
    often, seldom = ([quantity("FORWARD", 9.0, n_rows=n, n_bytes=5.0)] for n in (4.0, 2.0))
    assert one_of(compared(often, seldom), "FORWARD").does == "count"


def test_other_buckets_are_other_code_where_only_a_part_of_the_step_shows_a_change() -> None:
    from timing_logger.analysis.comparison.compare import time_the_same

    divided, other = (
        [one._replace(mean_ms=one.mean_ms + more) for one in reduced(layers)]
        for layers, more in ((THREE, 4.0), (TWO, 0.0))
    )
    found = compared(divided, other)
    assert not time_the_same(found.differences, found.step)


@pytest.mark.parametrize(("amount", "apart"), [(100.6, True), (100.4, False)])
def test_amounts_within_half_a_percent_may_be_apart_by_where_recording_ends(
    amount: float, apart: bool
) -> None:
    assert _apart([amount], [100.0]) is apart
    assert _apart([100.0], [amount]) is apart


@pytest.mark.parametrize(("longer_ms", "is_named"), [(0.85, True), (0.7, False)])
def test_of_what_is_named_a_twentieth_may_be_by_chance(longer_ms: float, is_named: bool) -> None:
    here, there = (
        [summary(1.0, quantity("X", 10.0 + ms + more_ms)) for ms in (-0.2, 0.0, 0.2)]
        for more_ms in (longer_ms, 0.0)
    )
    assert one_of(compare_runs(here, there), "X").is_named is is_named
