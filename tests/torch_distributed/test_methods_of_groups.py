"""What a call of a process group sends, and to whom, by the arguments that it is given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from allreduce_instrumentation.torch_distributed._methods import (
    IN_BACKGROUND,
    METHODS,
    bytes_of,
    device_of,
    goes_on,
)

ONE, TWO, FOUR = torch.ones(1), torch.ones(2), torch.ones(4)
OPTIONS = SimpleNamespace(rootRank=3)
OVER_TWO = (
    "allgather", "all_gather_single", "_allgather_base", "allgather_coalesced", "gather", "gather_single",
    "all_gather_single_coalesced", "allgather_into_tensor_coalesced", "gather_into_tensor", "scatter",
    "reduce_scatter", "reduce_scatter_single", "_reduce_scatter_base", "reduce_scatter_single_coalesced",
    "reduce_scatter_tensor_coalesced", "alltoall",
)  # fmt: skip


@pytest.mark.parametrize("name", ["allreduce", "allreduce_coalesced", "broadcast", "reduce"])
def test_of_a_call_in_place_the_first_argument_is_sent_and_the_second_is_the_options(name: str) -> None:
    assert METHODS[name].given(([TWO], OPTIONS), {}) == ([TWO], TWO, OPTIONS)


@pytest.mark.parametrize("name", OVER_TWO)
def test_of_a_call_with_outputs_the_second_argument_is_sent_and_the_third_is_the_options(name: str) -> None:
    buffer, tensor, options = METHODS[name].given((FOUR, TWO, OPTIONS), {})
    assert (buffer is TWO, tensor is TWO, options) == (True, True, OPTIONS)


@pytest.mark.parametrize("name", ["alltoall_base", "all_to_all_single"])
def test_of_pieces_in_one_tensor_the_options_follow_the_sizes(name: str) -> None:
    buffer, _, options = METHODS[name].given((FOUR, TWO, [], [], OPTIONS), {})
    assert (buffer is TWO, options) == (True, OPTIONS)


def test_a_barrier_sends_nothing_and_has_options_alone() -> None:
    assert METHODS["barrier"].given((OPTIONS,), {}) == (None, None, OPTIONS)


@pytest.mark.parametrize("name", ["send", "recv", "recv_anysource"])
def test_a_message_has_no_options_by_position(name: str) -> None:
    buffer, tensor, options = METHODS[name].given(([ONE], 1, 0), {})
    assert (buffer, tensor is ONE, options) == ([ONE], True, None)


@pytest.mark.parametrize(
    ("name", "keyword"),
    [
        ("allreduce", "tensors"), ("allreduce", "tensor"), ("allgather", "input_tensors"),
        ("allgather", "input_tensor"), ("allgather", "input_list"), ("alltoall_base", "input"),
        ("scatter", "inputTensors"), ("scatter", "inputTensor"),
    ],
)  # fmt: skip
def test_what_is_given_by_name_is_found(name: str, keyword: str) -> None:
    buffer, tensor, options = METHODS[name].given((), {keyword: TWO, "opts": OPTIONS})
    assert (buffer is TWO, tensor is TWO, options) == (True, True, OPTIONS)
    assert METHODS[name].given((), {}) == (None, None, None)


def test_the_first_tensor_is_found_in_lists_of_lists_and_missed_in_empty_ones() -> None:
    method = METHODS["reduce_scatter"]
    for buffer in ([[ONE, TWO], [FOUR]], [(ONE, TWO)], ((ONE,),), [[[ONE]]]):
        assert method.given((FOUR, buffer), {})[1] is ONE
    for nothing in ([], [[]], (), None, ["text"]):
        assert method.given((FOUR, nothing), {})[1] is None


# -- pieces of several sizes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "kwargs", "operation"),
    [
        ((FOUR, FOUR, [2, 2], [1, 3]), {}, "ALLTOALLV"),
        ((FOUR, FOUR, [1, 3], [2, 2]), {}, "ALLTOALL"),  # what is received says nothing
        ((FOUR, FOUR, [], []), {}, "ALLTOALL"),
        ((FOUR, FOUR, [1, 3]), {"input_split_sizes": [1, 3]}, "ALLTOALLV"),
        ((FOUR, FOUR), {"input_split_sizes": [2, 2]}, "ALLTOALL"),
        ((FOUR, FOUR), {}, "ALLTOALL"),
    ],
)
def test_pieces_that_differ_in_size_are_told_from_equal_ones(
    args: tuple[Any, ...], kwargs: dict[str, Any], operation: str
) -> None:
    assert METHODS["alltoall_base"].operation_of(args, kwargs) == operation


def test_lists_of_tensors_are_one_operation_whatever_their_sizes() -> None:
    assert METHODS["alltoall"].operation_of(([ONE], [ONE], None, [1, 3]), {}) == "ALLTOALL"


# -- bytes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("buffer", "size"),
    [
        (TWO, 8),
        ([TWO], 8),
        ([TWO, FOUR], 24),
        ([[ONE, TWO], [FOUR]], 28),
        ([[ONE, TWO]], 12),
        ((ONE, (TWO,)), 12),
        ([], 0),
        (None, None),
        ([None], None),
        (torch.ones(2).to_sparse(), None),
    ],
)
def test_bytes_are_those_of_all_tensors_in_a_buffer(buffer: Any, size: int | None) -> None:
    assert bytes_of(buffer) == size


@pytest.mark.parametrize(
    ("name", "buffer", "args", "size"),
    [
        ("allreduce", [TWO], ([TWO],), 8),
        ("barrier", None, (), 0),
        ("scatter", [[TWO, TWO]], ([TWO], [[TWO, TWO]]), 16),  # the root's, as it is given
        ("scatter", [], ([TWO], []), 24),  # another rank's: a piece for each of three
        ("scatter", [], ([None], []), None),
        ("scatter", [], (), 0),
        ("gather", [], ([TWO], []), 0),
    ],
)
def test_a_rank_of_a_scatter_states_what_the_root_sends(
    name: str, buffer: Any, args: tuple[Any, ...], size: int | None
) -> None:
    assert METHODS[name].sent_bytes(buffer, args, 3) == size


# -- ranks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "args", "kwargs", "rank"),
    [
        ("broadcast", OPTIONS, (), {}, 3),
        ("gather", 2, (), {}, 2),
        ("reduce", None, (), {"root": 1}, 1),
        ("scatter", None, (), {}, 0),
        ("broadcast", "text", (), {}, None),
        ("allreduce", OPTIONS, ([ONE], 2), {}, None),
        ("barrier", OPTIONS, (), {}, None),
        ("send", None, ([ONE], 2, 0), {}, 2),
        ("recv", None, ([ONE], 2, 0), {}, 2),
        ("recv", None, ([ONE],), {"srcRank": 3}, 3),
        ("send", None, ([ONE],), {"dstRank": 1}, 1),
        ("recv_anysource", None, ([ONE], 2), {}, None),
        ("send", None, ([ONE],), {}, None),
    ],
)
def test_the_other_rank_is_the_root_or_that_of_the_message(
    name: str, options: Any, args: tuple[Any, ...], kwargs: dict[str, Any], rank: int | None
) -> None:
    assert METHODS[name].other_rank(options, args, kwargs) == rank


@pytest.mark.parametrize("name", METHODS)
def test_messages_and_no_others_are_not_for_all_ranks(name: str) -> None:
    assert METHODS[name].collective is (name not in ("send", "recv", "recv_anysource"))


# -- options ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (SimpleNamespace(asyncOp=True), True),
        (SimpleNamespace(asyncOp=False), False),
        (SimpleNamespace(), True),
        (None, True),
    ],
)
def test_without_options_a_call_goes_on(options: object, expected: bool) -> None:
    assert goes_on(options) is expected


def test_the_device_is_that_of_the_tensor_and_without_one_that_of_the_options() -> None:
    options = dist.BarrierOptions()
    assert device_of(None, options) is None
    options.device = torch.device("cuda:1")
    assert device_of(None, options) == torch.device("cuda:1")
    assert device_of(ONE, options) == torch.device("cpu")
    assert device_of(None, SimpleNamespace(device="cuda")) is None
    assert device_of(None, None) is None


@pytest.mark.parametrize(("name", "called"), [("ALLTOALLV", "IALLTOALLV"), ("BCAST", "IBCAST")])
def test_in_the_background_an_operation_has_an_i_before_it(name: str, called: str) -> None:
    assert IN_BACKGROUND[name] == called
