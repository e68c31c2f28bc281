"""gtopk_sparse_allreduce on any number of ranks, which are threads."""

from __future__ import annotations

import pytest
import torch
from ranks_as_threads import ThreadTransport, on_threads
from torch import Tensor

from allreduce_instrumentation.compressors import TopK
from allreduce_instrumentation.sparse import algorithms


def all_reduce(transport: ThreadTransport, compressor: TopK, tensor: Tensor) -> Tensor:
    """Without the frame that checks arguments."""
    payload = algorithms.GTOPK.compress(compressor, tensor, "layer")
    return algorithms.GTOPK.reduce(transport, compressor, payload, "layer")


def residual_of(compressor: TopK) -> Tensor:
    residual = compressor.residual("layer")
    assert residual is not None
    return residual


def whole_numbers(rank: int, call: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(1000 * rank + call)
    return torch.randint(-8, 9, (40,), generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("ranks", range(1, 7))
def test_where_nothing_is_left_out_the_result_is_the_mean_on_every_rank(
    ranks: int, dtype: torch.dtype
) -> None:
    given = [whole_numbers(rank, 0, dtype) for rank in range(ranks)]
    mean = (torch.stack(given).float().sum(0) / ranks).to(dtype)
    results = on_threads(ranks, lambda t: all_reduce(t, TopK(1.0), given[t.rank]))
    assert [torch.equal(result, mean) for result in results] == [True] * ranks


@pytest.mark.parametrize("ranks", range(1, 7))
def test_no_gradient_is_lost_or_counted_twice(ranks: int) -> None:
    def program(transport: ThreadTransport) -> tuple[Tensor, Tensor, Tensor]:
        compressor = TopK(0.1)
        given = [whole_numbers(transport.rank, call, torch.float64) for call in range(4)]
        results = [all_reduce(transport, compressor, tensor) for tensor in given]
        received = sum((result * ranks).round() for result in results)
        return torch.stack(given).sum(0), torch.as_tensor(received), residual_of(compressor)

    given, received, left = zip(*on_threads(ranks, program), strict=True)
    assert all(torch.equal(one, received[0]) for one in received)
    assert torch.equal(received[0] + sum(left), torch.as_tensor(sum(given)))
    assert received[0].any()


def test_what_a_merge_lets_go_is_kept_if_its_index_wins_elsewhere() -> None:
    """Index 0 loses to index 1 between ranks 0 and 1, and yet wins in the end."""
    picks = [(0, 3.0), (1, 10.0), (0, 6.0), (0, 6.0)]

    def program(transport: ThreadTransport) -> tuple[list[float], list[float]]:
        tensor, compressor = torch.zeros(8), TopK(0.125)
        index, value = picks[transport.rank]
        tensor[index] = value
        result = all_reduce(transport, compressor, tensor)
        return (result * transport.size).tolist(), residual_of(compressor).tolist()

    nothing = [0.0] * 8
    assert (
        on_threads(4, program)
        == [
            ([12.0, *nothing[1:]], [3.0, *nothing[1:]]),  # rank 0 let it go: nobody else knows of it
            ([12.0, *nothing[1:]], [0.0, 10.0, *nothing[2:]]),  # its own pick, which lost
            ([12.0, *nothing[1:]], nothing),
            ([12.0, *nothing[1:]], nothing),
        ]
    )


def test_messages_go_along_a_tree_whose_rounds_they_name() -> None:
    def program(transport: ThreadTransport) -> list[tuple[str, int, str]]:
        all_reduce(transport, TopK(0.1), whole_numbers(transport.rank, 0, torch.float32))
        return transport.messages

    def both(way: str, other: int, number: int) -> list[tuple[str, int, str]]:
        return [(way, other, f"round {number} {part}") for part in ("values", "indices")]

    assert on_threads(5, program) == [
        [*both("from", 1, 0), *both("from", 2, 1), *both("from", 4, 2)],
        both("to", 0, 0),
        [*both("from", 3, 0), *both("to", 0, 1)],
        both("to", 2, 0),
        both("to", 0, 2),
    ]
