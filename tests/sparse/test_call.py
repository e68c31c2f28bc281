"""What an all-reduce does with what it is given, before and after the ranks agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from allreduce_instrumentation.compressors import FP16, NoCompression, SparsePayload, TopK  # noqa: E402
from allreduce_instrumentation.sparse import (  # noqa: E402
    ALL_REDUCERS,
    _call,
    algorithms,
    check_compressor,
)
from allreduce_instrumentation.sparse._call import (  # noqa: E402
    Algorithm,
    _prepare,
    _wrong_with,
    reduce_over_ranks,
)
from allreduce_instrumentation.sparse._transport import _is_instance, transport_for  # noqa: E402
from allreduce_instrumentation.sparse.algorithms import rounds  # noqa: E402
from allreduce_instrumentation.sparse.oktopk import fits, kth_largest  # noqa: E402
from timing_logger import TimingLogger  # noqa: E402
from timing_logger.errors import ConfigurationError, ReductionError  # noqa: E402


class Alike:
    """A transport whose ranks all have the same."""

    rank = 0
    device = control_device = torch.device("cpu")

    def __init__(self, size: int, logger: TimingLogger) -> None:
        self.size, self.logger = size, logger

    def allreduce(self, tensor: Any, what: str) -> Any:
        return tensor * self.size

    def allgather(self, tensor: Any, what: str) -> Any:
        return torch.stack([tensor] * self.size)

    def alltoall(self, tensor: Any, what: str) -> Any:
        return tensor.chunk(self.size)[0].repeat(self.size)


@pytest.fixture
def ranks(logger: TimingLogger, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let every all-reduce be over two ranks that have the same; return their transport."""
    transport = Alike(2, logger)
    monkeypatch.setattr(_call, "transport_for", lambda *_, **__: transport)
    return transport


def reduced(tensor: Any, compressor: Any, algorithm: Algorithm = algorithms.DENSE, name: Any = "w") -> Any:
    comm: Any = None
    return reduce_over_ranks(algorithm, tensor, comm, compressor, name, None)


# -- tensors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tensor", "wrong"),
    [
        (torch.eye(2).to_sparse(), "is sparse"),
        (torch.ones(2, dtype=torch.int64), "has dtype torch.int64"),
        (torch.ones(2, device="meta"), "is on the meta device"),
        (torch.ones(0), "is empty"),
        (torch.ones(2, 2)[:, 0], "is not contiguous"),
    ],
)
def test_what_is_wrong_with_a_tensor_is_said(tensor: Any, wrong: str) -> None:
    assert str(_wrong_with(tensor)).startswith(wrong)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_mean_has_the_values_shape_and_dtype_of_equal_ranks(dtype: Any, ranks: Alike) -> None:
    tensor = torch.tensor([[1.0, -2.0, 1.0]], dtype=dtype)  # of two blocks that are alike
    mean = reduced(tensor, NoCompression())
    assert (mean.tolist(), mean.shape, mean.dtype) == (tensor.tolist(), tensor.shape, dtype)


def test_a_mean_of_halves_of_an_odd_number_has_no_padding(ranks: Alike) -> None:
    ranks.size = 4
    blocks = torch.arange(1.0, 7.0, dtype=torch.float16)
    assert reduced(blocks[:1].clone(), FP16()).tolist() == [1.0]
    assert reduced(blocks, NoCompression()).numel() == 6


def test_picks_of_equal_ranks_are_their_mean(ranks: Alike) -> None:
    assert reduced(torch.tensor([1.0, 4.0]), TopK(0.5), algorithms.TOPK).tolist() == [0.0, 4.0]


@pytest.mark.usefixtures("ranks")
@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"tensor": torch.tensor([1.0, float("nan")])}, ReductionError, "NaN or infinite"),
        ({"tensor": [1.0]}, ConfigurationError, "tensor 'w' must be a torch tensor, and is a list"),
        ({"tensor": torch.ones(0)}, ConfigurationError, "tensor 'w' is empty"),
        ({"compressor": TopK(0.5)}, ConfigurationError, "wants NoCompression"),
        ({"compressor": NoCompression}, ConfigurationError, "compressor is <class"),
        ({"name": 7}, ConfigurationError, "name must be a string, and is 7"),
    ],
)
def test_each_argument_is_checked(arguments: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        reduced(**{"tensor": torch.ones(2), "compressor": NoCompression(), **arguments})


def test_a_sum_that_is_too_large_raises_and_leaves_what_is_remembered(ranks: Alike) -> None:
    compressor = FP16()
    reduced(torch.tensor([0.1]), compressor)
    before = compressor.snapshot("w")

    def overflows(*_: object) -> Any:
        return torch.tensor([float("inf")])

    algorithm = Algorithm("dense", "dense", FP16, "FP16()", overflows)
    with pytest.raises(
        ReductionError, match=r"the sum of 'w' over the ranks is too large for torch\.float32"
    ):
        reduced(torch.tensor([0.2]), compressor, algorithm)
    assert compressor.snapshot("w") is before


def test_a_rank_that_can_take_part_raises_where_another_states_something_else(
    ranks: Alike, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allgather(tensor: Any, what: str) -> Any:
        other = tensor.clone()
        other[3] += what == "agreement"  # the number of entries
        return torch.stack([tensor, other])

    monkeypatch.setattr(ranks, "allgather", allgather)
    with pytest.raises(ReductionError, match="the ranks do not agree on what to reduce: 2 entries"):
        reduced(torch.ones(2), NoCompression())


def test_after_a_mean_what_was_left_out_is_remembered(ranks: Alike) -> None:
    compressor = FP16()
    reduced(torch.tensor([0.1]), compressor)
    residual = compressor.residual("w")
    assert residual is not None
    assert residual.item() != 0


# -- what a rank states ----------------------------------------------------------------------------------


def stated(ranks: Any, tensor: Any, compressor: Any, algorithm: Algorithm) -> Any:
    return _prepare(algorithm, tensor, compressor, "w", ranks, ranks.logger)[2]


def test_a_rank_states_what_it_is_about_to_reduce(ranks: Alike) -> None:
    statement = stated(ranks, torch.ones(2, 2, dtype=torch.float64), TopK(0.5), algorithms.TOPK)
    assert (statement.algorithm, statement.name, statement.length) == ("topk", "w", 4)
    assert (statement.dtype, statement.travels_as, statement.travels_from) == ("torch.float64",) * 2 + (
        "cpu",
    )
    assert (statement.density, dict(statement.facts)) == (0.5, {"entries picked:": 2})
    assert statement.trouble is None


def test_dense_reduction_leaves_nothing_out_and_compares_no_numbers(ranks: Alike) -> None:
    statement = stated(ranks, torch.ones(4), FP16(), algorithms.DENSE)
    assert (statement.density, dict(statement.facts)) == (1.0, {})
    assert (statement.dtype, statement.travels_as) == ("torch.float32", "torch.float16")


def failing(error: Exception) -> Callable[..., Any]:
    def compress(*_: object) -> Any:
        raise error

    return compress


@pytest.mark.parametrize(
    ("error", "trouble"),
    [(ReductionError("too large"), "too large"), (MemoryError("full"), "MemoryError: full")],
)
def test_a_rank_whose_compressor_fails_states_its_trouble(
    error: Exception, trouble: str, ranks: Alike, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    monkeypatch.setattr(_call, "agree", lambda transport, mine: told.append((transport, mine.trouble)))
    algorithm = Algorithm("dense", "dense", FP16, "FP16()", failing(error), compress=failing(error))
    with pytest.raises(type(error)) as raised:
        reduced(torch.ones(2), FP16(), algorithm)
    assert raised.value is error
    assert told == [(ranks, trouble)]


# -- which compressor, which communicator ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "compressor"),
    [
        ("dense", NoCompression()),
        ("dense", FP16()),
        ("topk", TopK(1)),
        ("gtopk", TopK(1)),
        ("oktopk", TopK(1)),
    ],
)
def test_each_all_reduce_works_with_its_compressors(name: str, compressor: object) -> None:
    check_compressor(name, compressor)
    assert name in ALL_REDUCERS


@pytest.mark.parametrize(("name", "compressor"), [("dense", TopK(1)), ("topk", FP16()), ("topk", TopK)])
def test_an_all_reduce_refuses_another_compressor(name: str, compressor: object) -> None:
    with pytest.raises(ConfigurationError, match=f"and the {name} all-reduce wants"):
        check_compressor(name, compressor)


def test_an_all_reduce_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(
        ConfigurationError, match=r"'ring': use one of \['dense', 'gtopk', 'oktopk', 'topk'\]"
    ):
        check_compressor("ring", FP16())


def test_what_is_no_communicator_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"comm must be an mpi4py intracommunicator .* and is 3\."):
        transport_for(3, None, layer_name="", phase="", timing_logger=None)


@pytest.mark.parametrize(
    ("value", "module", "name", "expected"),
    [
        (torch.ones(1), "torch", "Tensor", True),
        (1, "torch", "Tensor", False),
        (1, "torch", "NoSuch", False),
        (1, "no_such_module", "Tensor", False),
    ],
)
def test_an_instance_is_one_of_a_class_of_a_module_that_is_loaded(
    value: object, module: str, name: str, expected: bool
) -> None:
    assert _is_instance(value, module, name) is expected


# -- parts of the algorithms -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rank", "size", "steps"),
    [
        (0, 1, []),
        (0, 2, [(0, "receive", 1)]),
        (1, 2, [(0, "send", 0)]),
        (0, 5, [(0, "receive", 1), (1, "receive", 2), (2, "receive", 4)]),
        (2, 3, [(1, "send", 0)]),
        (2, 5, [(0, "receive", 3), (1, "send", 0)]),
        (3, 5, [(0, "send", 2)]),
        (4, 5, [(2, "send", 0)]),
    ],
)
def test_rounds_of_gtopk_form_a_tree(rank: int, size: int, steps: list[Any]) -> None:
    assert list(rounds(rank, size)) == steps


@pytest.mark.parametrize(
    ("number", "sender", "size", "dtype"),
    [
        (0, 1, 4, torch.float16),
        (1, 2, 4, torch.float32),
        (1, 2, 3, torch.float16),
        (2, 4, 6, torch.float32),
    ],
)
def test_sums_travel_in_single_precision_once_the_sender_has_merged(
    number: int, sender: int, size: int, dtype: Any, logger: TimingLogger
) -> None:
    payload = SparsePayload(torch.ones(1).half(), torch.zeros(1), 4, torch.float16)
    transport: Any = Alike(size, logger)
    assert algorithms._sent_dtype(payload, number, sender, transport) is dtype


@pytest.mark.parametrize(
    ("passed", "wanted", "expected"),
    [(2, 4, False), (3, 4, True), (5, 4, True), (6, 4, False), (0, 0, True), (1, 0, False)],
)
def test_a_threshold_fits_within_a_quarter(passed: int, wanted: int, expected: bool) -> None:
    assert fits(passed, wanted) is expected


@pytest.mark.parametrize(
    ("k", "threshold", "ties"), [(1, 9.0, 1), (2, 4.5, 1), (3, 4.5, 2), (4, 1.0, 1), (5, 0.0, 1)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kth_largest_is_told_with_its_equals(k: int, threshold: float, ties: int, dtype: Any) -> None:
    magnitudes = torch.tensor([4.5, 0.0, 9.0, 1.0, 4.5], dtype=dtype)
    assert kth_largest(magnitudes, k, lambda counts: counts) == (threshold, ties)
