"""The optimizer's own methods and checks, with ranks of which a test plays all but one."""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from played_optimizer_ranks import PlayedRanks

torch = pytest.importorskip("torch")

from allreduce_instrumentation.compressors import FP16, NoCompression, TopK  # noqa: E402
from allreduce_instrumentation.sparse import distributed_optimizer  # noqa: E402
from allreduce_instrumentation.sparse.distributed_optimizer import (  # noqa: E402
    DEFAULT_BUCKET_BYTES,
    DistributedOptimizer,
    _named,
)
from timing_logger import TimingLogger  # noqa: E402
from timing_logger.errors import ConfigurationError, ReductionError  # noqa: E402
from timing_logger.sinks.memory import MemorySink  # noqa: E402


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> PlayedRanks:
    made = PlayedRanks(size=2)
    monkeypatch.setattr(distributed_optimizer, "ranks_for", lambda comm, logger: made)
    return made


@pytest.fixture
def weight() -> torch.Tensor:
    return torch.ones(2, requires_grad=True)


@pytest.fixture
def optimizer(
    ranks: PlayedRanks, logger: TimingLogger, weight: torch.Tensor
) -> Iterator[DistributedOptimizer]:
    made = DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("w", weight)], None, logger)
    yield made
    made.stop()


def backward(weight: torch.Tensor) -> torch.Tensor:
    loss = (weight * 2).sum()
    loss.backward()
    return loss


# -- training -----------------------------------------------------------------------------------------------


def test_a_step_goes_along_the_mean_and_the_next_one_reduces_anew(
    optimizer: DistributedOptimizer, ranks: PlayedRanks, weight: torch.Tensor
) -> None:
    backward(weight)
    optimizer.step()
    assert weight.tolist() == [0, 0]  # the other rank has no gradient
    optimizer.step()
    assert len(ranks.sent) == 2


def test_a_step_returns_what_the_wrapped_one_returns(
    optimizer: DistributedOptimizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimizer._inner, "step", lambda *arguments: "its result")
    assert optimizer.step() == "its result"  # type: ignore[func-returns-value]
    assert optimizer.step(lambda: 1.0) == "its result"  # type: ignore[comparison-overlap]


def test_a_closure_is_averaged_and_its_loss_is_the_mean(
    optimizer: DistributedOptimizer, ranks: PlayedRanks, weight: torch.Tensor
) -> None:
    loss = optimizer.step(lambda: backward(weight))  # type: ignore[arg-type,return-value]
    assert isinstance(loss, torch.Tensor)
    assert loss.tolist() == 2
    assert ranks.sent == [[2, 2, 1, 0, 0], [4]]
    assert weight.tolist() == [0, 0]


@pytest.mark.parametrize(("loss", "mean"), [(3.0, 1.5), (None, None)])
def test_a_loss_that_is_a_number_has_a_mean_and_no_loss_has_none(
    optimizer: DistributedOptimizer, weight: torch.Tensor, loss: Any, mean: Any
) -> None:
    def closure() -> Any:
        backward(weight)
        return loss

    assert optimizer.step(closure) == mean
    assert weight.tolist() == [0, 0]


def test_a_step_after_a_closure_reduces_anew(
    optimizer: DistributedOptimizer, ranks: PlayedRanks, weight: torch.Tensor
) -> None:
    optimizer.step(lambda: float(backward(weight).detach()))
    optimizer.step()
    assert len(ranks.sent) == 3  # two of them of gradients, one of a loss


def test_gradients_that_were_zeroed_are_reduced_anew(
    optimizer: DistributedOptimizer, ranks: PlayedRanks, weight: torch.Tensor
) -> None:
    backward(weight)
    optimizer.zero_grad(set_to_none=False)
    assert weight.grad is not None
    assert weight.grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert weight.grad is None
    optimizer.synchronize()
    assert len(ranks.sent) == 2


def test_no_sync_reduces_nothing(
    optimizer: DistributedOptimizer, ranks: PlayedRanks, weight: torch.Tensor
) -> None:
    with optimizer.no_sync():
        backward(weight)
    assert optimizer._passes._launches == {}


def test_a_gradient_scaler_leaves_unscaling_to_synchronize() -> None:
    assert DistributedOptimizer._step_supports_amp_scaling is False


# -- what the wrapped optimizer does ------------------------------------------------------------------------


def test_it_passes_on_state_and_attributes(optimizer: DistributedOptimizer) -> None:
    assert optimizer.param_groups is optimizer._inner.param_groups
    state = optimizer.state_dict()
    state["param_groups"][0]["lr"] = 0.25
    optimizer.load_state_dict(state)
    assert optimizer._inner.param_groups[0]["lr"] == 0.25


def test_one_that_was_not_made_yet_lacks_attributes_and_recurses_not() -> None:
    with pytest.raises(AttributeError, match="_inner"):
        _ = DistributedOptimizer.__new__(DistributedOptimizer).param_groups


def test_it_cannot_be_copied(optimizer: DistributedOptimizer) -> None:
    with pytest.raises(TypeError, match=r"has a thread and cannot be copied: save its state_dict\(\)"):
        pickle.dumps(optimizer)


def test_added_parameters_become_those_of_rank_0_and_are_named_by_group_and_place(
    optimizer: DistributedOptimizer, ranks: PlayedRanks
) -> None:
    ranks.rank, ranks.of_rank_0 = 1, [torch.tensor([7.0, 8.0]).numpy().tobytes()]
    added = [torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)]
    optimizer.add_param_group({"params": added})
    assert [one.tolist() for one in added] == [[7], [8]]
    assert [name for name, _ in optimizer._passes._named] == ["w", "group1.param0", "group1.param1"]


def test_rows_have_the_iteration_and_the_epoch_that_it_is_told(
    optimizer: DistributedOptimizer, logger: TimingLogger, sink: MemorySink, weight: torch.Tensor
) -> None:
    optimizer.set_current_iteration(5)
    optimizer.set_current_epoch(3)
    backward(weight)
    optimizer.step()
    logger.flush()
    assert [(row.iteration, row.epoch) for row in sink.records] == [(5, 3)]


def test_after_stop_a_backward_launches_nothing_and_a_step_is_refused(
    optimizer: DistributedOptimizer, ranks: PlayedRanks, weight: torch.Tensor
) -> None:
    optimizer.stop()
    backward(weight)
    assert optimizer._passes._launches == {}
    assert ranks.freed == 1
    with pytest.raises(ReductionError, match="stop"):
        optimizer.step()


# -- construction -------------------------------------------------------------------------------------------


def test_all_ranks_begin_with_the_parameters_of_rank_0(
    ranks: PlayedRanks, logger: TimingLogger, weight: torch.Tensor
) -> None:
    ranks.rank, ranks.of_rank_0 = 1, [torch.tensor([5.0, 6.0]).numpy().tobytes()]
    ranks.broadcast_bytes = lambda content: _state_of_rank_0()  # type: ignore[method-assign]
    optimizer = DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), timing_logger=logger)
    assert weight.tolist() == [5, 6]
    assert optimizer.param_groups[0]["lr"] == 0.125
    optimizer.stop()


def _state_of_rank_0() -> bytes:
    file = io.BytesIO()
    torch.save(torch.optim.SGD([torch.zeros(2)], lr=0.125).state_dict(), file)
    return file.getvalue()


def test_by_default_nothing_is_compressed_and_4_mib_travel_together(optimizer: DistributedOptimizer) -> None:
    assert isinstance(optimizer.compression, NoCompression)
    assert DEFAULT_BUCKET_BYTES == 4 * 1024 * 1024
    assert optimizer._passes._bucket_bytes == DEFAULT_BUCKET_BYTES
    assert optimizer._reducer._timeout_s == 1800


def test_a_compressor_that_is_given_is_kept(
    ranks: PlayedRanks, logger: TimingLogger, weight: torch.Tensor
) -> None:
    compressor, inner = FP16(), torch.optim.SGD([weight])
    optimizer = DistributedOptimizer(inner, timing_logger=logger, compression=compressor)
    assert optimizer.compression is compressor
    optimizer.stop()


def test_a_compressor_that_the_all_reduce_does_not_work_with_is_refused(
    ranks: PlayedRanks, logger: TimingLogger, weight: torch.Tensor
) -> None:
    inner = torch.optim.SGD([weight])
    with pytest.raises(ConfigurationError):
        DistributedOptimizer(inner, timing_logger=logger, compression=TopK(0.1), allreduce="dense")


@pytest.mark.parametrize(
    ("setting", "theirs", "said"),
    [
        ("allreduce", "topk", "allreduce differs between ranks: 'dense' on rank 0 and 'topk' on rank 1"),
        ("compression", "FP16()", "compression differs between ranks"),
        ("bucket_bytes", 1, "bucket_bytes differs between ranks: 4194304 on rank 0 and 1 on rank 1"),
    ],
)
def test_settings_that_differ_between_ranks_are_refused(
    ranks: PlayedRanks, logger: TimingLogger, weight: torch.Tensor, setting: str, theirs: object, said: str
) -> None:
    ranks.everyone = lambda value: [value, {**value, setting: theirs}]
    with pytest.raises(ConfigurationError, match=said):
        DistributedOptimizer(torch.optim.SGD([weight]), timing_logger=logger)


@pytest.mark.parametrize("name", ["bucket_bytes", "timeout_s"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), "1", None])
def test_what_is_no_number_above_0_is_refused(
    ranks: PlayedRanks, weight: torch.Tensor, name: str, value: Any
) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name} must be a number > 0, and is {value!r}\."):
        DistributedOptimizer(torch.optim.SGD([weight]), **{name: value})


def test_an_optimizer_that_is_wrapped_already_is_refused(optimizer: DistributedOptimizer) -> None:
    for wrong in (optimizer, "SGD"):
        with pytest.raises(ConfigurationError, match=r"must be a plain torch\.optim\.Optimizer, and is"):
            DistributedOptimizer(wrong)  # type: ignore[arg-type]


# -- names --------------------------------------------------------------------------------------------------


def of(*numbers: int) -> tuple[torch.optim.Optimizer, list[torch.Tensor]]:
    """Return an optimizer of parameters with so many numbers each, in two groups, and the parameters."""
    parameters = [torch.zeros(n, requires_grad=True) for n in numbers]
    return torch.optim.SGD([{"params": parameters[:1]}, {"params": parameters[1:]}]), parameters


def test_without_names_parameters_are_called_by_group_and_place() -> None:
    optimizer, _ = of(1, 1, 1)
    assert [name for name, _ in _named(optimizer, None)] == [
        "group0.param0",
        "group1.param0",
        "group1.param1",
    ]


def test_names_come_in_the_order_given_the_first_of_two_counts_and_those_of_others_are_left_out() -> None:
    optimizer, (a, b) = of(1, 1)
    named = _named(optimizer, [("b", b), ("of another", torch.zeros(1)), ("a", a), ("tied to b", b)])
    assert [name for name, _ in named] == ["b", "a"]
    assert named[0][1] is b


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (2, "lacks 1 of the optimizer's 2 parameters, of shapes (2,): pass"),
        (4, "lacks 3 of the optimizer's 4 parameters, of shapes (2,), (3,), (4,): pass"),
        (5, "lacks 4 of the optimizer's 5 parameters, of shapes (2,), (3,), (4,), ...: pass"),
    ],
)
def test_parameters_without_a_name_are_refused_by_the_shapes_of_three(count: int, said: str) -> None:
    optimizer, parameters = of(*range(1, count + 1))
    with pytest.raises(ConfigurationError) as caught:
        _named(optimizer, [("first", parameters[0])])
    assert said in str(caught.value)
