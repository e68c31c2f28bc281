"""How ranks come to begin alike, and what is refused where their models differ."""

from __future__ import annotations

import io
from typing import Any

import pytest
from played_optimizer_ranks import PlayedRanks

torch = pytest.importorskip("torch")

from allreduce_instrumentation.sparse import distributed_optimizer  # noqa: E402
from timing_logger.errors import ConfigurationError  # noqa: E402


def content(*numbers: float, dtype: Any = torch.float32) -> bytes:
    return bytes(torch.tensor(numbers, dtype=dtype).view(torch.uint8).tolist())


# -- checks -------------------------------------------------------------------------------------------------


def digests_of(*named: tuple[str, torch.Tensor]) -> Any:
    """Return what a rank with these parameters gathers."""
    found: list[Any] = []
    ranks = PlayedRanks()
    ranks.everyone = lambda value: found.append(value) or [value]  # type: ignore[func-returns-value]
    distributed_optimizer.check_same_parameters(ranks, named)
    return found[0]


def test_names_shapes_dtypes_and_the_order_tell_models_apart_and_values_do_not() -> None:
    a, b = ("a", torch.zeros(2)), ("b", torch.zeros(2))
    same = digests_of(a, b)
    assert digests_of(("a", torch.ones(2)), b) == same
    others = [
        digests_of(b, a),
        digests_of(a),
        digests_of(("c", a[1]), b),
        digests_of(("a", torch.zeros(2, 1)), b),
        digests_of(("a", torch.zeros(2, dtype=torch.float64)), b),
    ]
    assert len({same, *others}) == 6


def test_ranks_with_another_model_than_rank_0_are_counted_and_the_first_is_named() -> None:
    ranks = PlayedRanks(size=4)
    ranks.everyone = lambda value: [value, value, "another", "another"]
    with pytest.raises(ConfigurationError, match="2 of 4 ranks, the first being rank 2, have other names"):
        distributed_optimizer.check_same_parameters(ranks, [])


def test_the_first_setting_that_differs_is_named_with_both_values() -> None:
    ranks = PlayedRanks(size=3)
    ranks.everyone = lambda value: [value, value, {**value, "b": 5}]
    with pytest.raises(ConfigurationError, match=r"b differs between ranks: 2 on rank 0 and 5 on rank 2\."):
        distributed_optimizer.check_same_settings(ranks, a=1, b=2)
    ranks.everyone = lambda value: [value] * 3
    distributed_optimizer.check_same_settings(ranks, a=1, b=2)


# -- parameters ---------------------------------------------------------------------------------------------


def test_rank_0_sends_all_parameters_of_a_dtype_together_and_keeps_its_own() -> None:
    parameters = [
        torch.tensor([1.0, 2.0], requires_grad=True),
        torch.tensor(3.0, requires_grad=True),
        torch.tensor([4.0], dtype=torch.float64),
    ]
    ranks = PlayedRanks(rank=0)
    ranks.of_rank_0 = [content(0, 0, 0), content(0, dtype=torch.float64)]  # else they would show
    distributed_optimizer.broadcast_parameters(ranks, parameters)
    assert ranks.broadcasts == [content(1, 2, 3), content(4, dtype=torch.float64)]
    assert [p.tolist() for p in parameters] == [[1, 2], 3, [4]]


def test_other_ranks_take_the_parameters_of_rank_0_each_in_its_shape() -> None:
    parameters = [torch.zeros(1, 2, requires_grad=True), torch.zeros((), requires_grad=True)]
    ranks = PlayedRanks(rank=1)
    ranks.of_rank_0 = [content(1, 2, 3)]
    distributed_optimizer.broadcast_parameters(ranks, parameters)
    assert [p.tolist() for p in parameters] == [[[1, 2]], 3]


def test_what_fills_a_chunk_to_the_last_byte_is_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed_optimizer, "_CHUNK_BYTES", 12)
    ranks = PlayedRanks()
    distributed_optimizer.broadcast_parameters(ranks, [torch.zeros(n) for n in (1, 2, 1, 9, 1, 1)])
    assert [len(sent) for sent in ranks.broadcasts] == [12, 4, 36, 8]


def test_a_chunk_is_sent_in_pieces_that_every_mpi_can_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert distributed_optimizer._MAX_COUNT < 2**31
    monkeypatch.setattr(distributed_optimizer, "_MAX_COUNT", 8)
    ranks = PlayedRanks(rank=1)
    ranks.of_rank_0 = [content(1, 2), content(3)]
    parameter = torch.zeros(3)
    distributed_optimizer.broadcast_parameters(ranks, [parameter])
    assert [len(sent) for sent in ranks.broadcasts] == [8, 4]
    assert parameter.tolist() == [1, 2, 3]


# -- state --------------------------------------------------------------------------------------------------


class Settings:
    """An optimizer without parameters: torch imports its compiler for one of its own, which takes seconds."""

    def __init__(self, lr: float) -> None:
        self.param_groups: list[dict[str, float]] = [{"lr": lr}]

    def state_dict(self) -> Any:
        return {"param_groups": self.param_groups}

    def load_state_dict(self, state: Any) -> None:
        self.param_groups = state["param_groups"]


def test_one_rank_alone_sends_no_state() -> None:
    ranks = PlayedRanks(size=1)
    distributed_optimizer.broadcast_state(ranks, Settings(0.5))
    assert ranks.broadcasts == []


def test_other_ranks_load_the_state_that_rank_0_sends() -> None:
    first, second = PlayedRanks(rank=0), PlayedRanks(rank=1)
    distributed_optimizer.broadcast_state(first, Settings(0.25))
    (sent,) = first.broadcasts
    assert torch.load(io.BytesIO(sent), weights_only=False)["param_groups"][0]["lr"] == 0.25
    second.of_rank_0 = [sent]
    optimizer = Settings(0.5)
    distributed_optimizer.broadcast_state(second, optimizer)
    assert second.broadcasts == [b""]
    assert optimizer.param_groups[0]["lr"] == 0.25


def test_rank_0_keeps_its_own_state() -> None:
    ranks, optimizer = PlayedRanks(rank=0), Settings(0.5)
    ranks.of_rank_0 = [b"no state"]
    distributed_optimizer.broadcast_state(ranks, optimizer)
    assert optimizer.param_groups[0]["lr"] == 0.5
