"""``oktopk_sparse_allreduce``: the mean of the largest entries, at low traffic; a rank sums each region.

Source: S. Li and T. Hoefler, "Near-Optimal Sparse Allreduce for Distributed Deep Learning", PPoPP 2022.
With k entries wanted, on P ranks:

1. Each rank picks about k entries, by a threshold of its own.
2. The indices are split into P regions with about equally many picks. A rank sends its picks to the owners
   of their regions, and each owner adds up what it received, in the order of the ranks.
3. The owners keep the sums above a global threshold, about k in all, and every rank gathers those.

Thresholds and regions are determined again every few calls and reused in between; regions sooner, if an
owner had to refuse picks.

**Traffic.** A word is a value or an index, so an entry that travels is two words. What a rank keeps for
itself does not count; its part of an allgather counts once for each other rank. In every call, with
any data, a rank sends at most 6k(P-1)/P words and receives no more; rounding to whole entries can add
less than 4P. A call on gradients whose distribution does not change takes two thirds to three quarters of
that. The bound holds even for outdated thresholds and regions, because the number of entries is limited
at each step:

- A rank picks at most k entries, and at least 3k/4 if so many are not zero. If its threshold gives another
  number, the k largest are picked.
- A rank sends at most k(P-1)/P picks to owners, and an owner receives at most k(2P-3)/P. Surplus picks are
  left out: for each sender and each region in proportion, the smallest first.
- At most k sums are in the result. If fewer than 3k/4 or more than 5k/4 exceed the threshold, a new one is
  determined exactly, in the same call; sums that are still too many are left out in proportion.
- An owner with more than twice its share of the result hands out the rest before all gather: it sends at
  most 2k(P-1)/P entries, and every rank receives at most k.

Picks that were left out, or are not in the result, return to the residual. Besides these words, a call
takes some 17 numbers from every other rank, and in some calls samples of picks, for regions, or
counters, for a threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, TypeAlias
from zlib import crc32

import torch
from torch import Tensor

from allreduce_instrumentation._selection import contained, entries_to_keep, largest
from allreduce_instrumentation.compressors import SparseCompressor, SparsePayload, ThresholdState
from allreduce_instrumentation.sparse._call import Algorithm, reduce_over_ranks

if TYPE_CHECKING:
    from allreduce_instrumentation._communicators import Communicator
    from allreduce_instrumentation.sparse._transport import Transport
    from timing_logger.recording.logger import TimingLogger


def equal_regions(length: int, ranks: int) -> list[int]:
    """Return regions whose lengths differ by one at most."""
    return [rank * length // ranks for rank in range(ranks + 1)]


def sample(indices: Tensor, samples: int) -> Tensor:
    """Return the number of ``indices``, followed by evenly spaced samples of them.

    Args:
        indices: this rank's picks, ascending; 1-D.
        samples: how many samples to take. If there are no indices, all samples are zero, and the number
            gives them no weight.

    Returns:
        ``1 + samples`` entries in the dtype of ``indices``.
    """
    count = indices.numel()
    sampled = torch.zeros(1 + samples, dtype=indices.dtype, device=indices.device)
    if count:
        middles = (2 * torch.arange(samples, device=indices.device) + 1) * count // (2 * samples)
        sampled[0], sampled[1:] = count, indices[middles]
    return sampled


def regions_from_samples(sampled: Tensor, length: int) -> list[int]:
    """Return regions with about equally many picks, from the samples of all ranks.

    Each sample stands for (picks / samples) picks of its rank. So with N picks in all on P ranks, and s
    samples per rank, a region holds at most N/P + 3N/s + 4P picks, however they are distributed over
    indices and ranks. (The mean of the ranks' own quantiles, as in the paper's code, gives balanced regions
    only if the ranks are alike.)

    Args:
        sampled: the result of :func:`sample` of every rank, one row per rank.
        length: the tensor's number of entries.
    """
    ranks = len(sampled)
    counts, indices = sampled[:, :1], sampled[:, 1:]
    if not int(counts.sum()):
        return equal_regions(length, ranks)
    ordered, order = indices.flatten().sort(stable=True)
    reached = counts.expand_as(indices).flatten()[order].cumsum(0)  # weights, in units of 1/s of a pick
    goals = torch.arange(1, ranks, device=sampled.device) * reached[-1]  # in units of 1/(s * ranks)
    firsts = torch.searchsorted(reached * ranks, goals, right=True)
    return [0, *ordered[firsts].tolist(), length]


def count_per_region(indices: Tensor, regions: list[int]) -> list[int]:
    """Return how many of ``indices`` (ascending) are in each region."""
    edges = torch.tensor(regions, dtype=indices.dtype, device=indices.device)
    return torch.searchsorted(indices, edges).diff().tolist()


def cut_to(total: int, counts: list[int]) -> list[int]:
    """Return ``counts`` reduced in proportion to a sum of ``total``; unchanged if they do not exceed it."""
    if sum(counts) <= total:
        return counts
    reached = [part * total // sum(counts) for part in accumulate(counts, initial=0)]
    return [after - before for before, after in pairwise(reached)]


def take_first(total: int, counts: list[int]) -> list[int]:
    """Return how many to take of each of ``counts``, from the first on, until ``total`` are taken."""
    reached = [min(part, total) for part in accumulate(counts, initial=0)]
    return [after - before for before, after in pairwise(reached)]


def even_shares(counts: list[int]) -> list[list[int]]:
    """Return how many entries each rank hands to each other rank so that all hold equally many.

    The entries form one sequence, whose order is kept: rank i holds ``counts[i]`` of them, after those of
    rank i - 1.

    Returns:
        One row per sender, with one count per receiver; the diagonal is what stays.
    """
    ranks = len(counts)
    have = list(pairwise(accumulate(counts, initial=0)))
    want = list(pairwise(equal_regions(sum(counts), ranks)))
    return [[max(0, min(end, stop) - max(begin, start)) for start, stop in want] for begin, end in have]


# -- thresholds of Ok-Topk: they are determined exactly from time to time, and reused in between ---------


_DIGIT_BITS = 4
_DIGITS = 1 << _DIGIT_BITS
_AS_INTEGER = {torch.float32: torch.int32, torch.float64: torch.int64}


def fits(passed: int, wanted: int) -> bool:
    """Tell whether a threshold that ``passed`` entries exceed is still usable if ``wanted`` are wanted.

    It is usable if the two differ by a quarter of ``wanted`` at most. Surplus entries are cut off, and the
    residuals make up for missing ones.
    """
    return 3 * wanted <= 4 * passed <= 5 * wanted


def kth_largest(magnitudes: Tensor, k: int, add_over_ranks: Callable[[Tensor], Tensor]) -> tuple[float, int]:
    """Return the ``k``-th largest magnitude of all ranks, and how many equal to it are among the k largest.

    The bits of nonnegative floats have the order of the floats. So the value is found exactly, four bits at
    a time: each step adds up 16 counters over the ranks, however many entries there are. Collective.

    Args:
        magnitudes: this rank's magnitudes; 1-D, float32 or float64, none negative or NaN; on the host.
        k: from 1 to the number of magnitudes of all ranks together.
        add_over_ranks: sums an int64 tensor over the ranks; called equally often on every rank.
    """
    integer = _AS_INTEGER[magnitudes.dtype]
    keys = magnitudes.view(integer).to(torch.int64)
    found, missing = 0, k
    for shift in range(torch.iinfo(integer).bits - _DIGIT_BITS, -1, -_DIGIT_BITS):
        digits = (keys >> shift) & (_DIGITS - 1)
        histogram = add_over_ranks(torch.bincount(digits, minlength=_DIGITS)).tolist()
        digit = _DIGITS - 1
        while histogram[digit] < missing:
            missing -= histogram[digit]
            digit -= 1
        found |= digit << shift
        keys = keys[digits == digit]
    return torch.tensor(found, dtype=integer).view(magnitudes.dtype).item(), missing


THRESHOLD_PERIOD = 32  # calls from one exact threshold to the next, as in the paper
REGION_PERIOD = 16  # calls from one choice of regions to the next; 64 in the paper, where a choice costs more
_SAMPLES = 8  # per rank and region; with more of them, regions are better balanced


def oktopk_sparse_allreduce(
    tensor: Tensor,
    *,
    comm: Communicator,
    compressor: SparseCompressor,
    name: str,
    timing_logger: TimingLogger | None = None,
) -> Tensor:
    """Return the mean over the ranks of about ``k`` entries that are largest in the sum of the ranks' picks.

    The docstring of this module describes the algorithm and its traffic. No gradient is lost: a rank's
    picks that are not in the result go back to its residual. The state from call to call is part of
    ``compressor.state_dict()``. If ranks remember different numbers of calls, thresholds or regions, they
    raise a ReductionError. For arguments, result and errors see
    :mod:`allreduce_instrumentation.sparse`.
    """
    return reduce_over_ranks(ALGORITHM, tensor, comm, compressor, name, timing_logger)


# -- picks of this rank ---------------------------------------------------------------------------


def _compress(compressor: SparseCompressor, tensor: Tensor, name: str) -> SparsePayload:
    """Pick at most k entries, and at least three quarters of k; zeros are left out afterwards."""
    state = compressor.state(name)
    most = entries_to_keep(compressor.density, tensor.numel())
    all_of_them = most == tensor.numel()  # then no threshold is used
    if all_of_them or state.local_threshold is None or state.calls % THRESHOLD_PERIOD == 0:
        picks = compressor.compress(tensor, name)
    else:
        picks = _pick_above(compressor, tensor, name, state.local_threshold, most)
    if picks.count == most:  # these are the k largest, whether or not a threshold was used
        smallest = picks.values.abs().min().item()
        compressor.set_state(name, replace(state, local_threshold=smallest or None))
    return picks.only(picks.values != 0)


def _pick_above(
    compressor: SparseCompressor, tensor: Tensor, name: str, threshold: float, most: int
) -> SparsePayload:
    picks = compressor.compress_above(tensor, name, threshold)
    if picks.count < most and not fits(picks.count, most):
        compressor.give_back(name, picks.indices, picks.values)
        return compressor.compress(torch.zeros_like(tensor), name)  # `tensor` is in the residual now
    if picks.count > most:
        kept = torch.zeros(picks.count, dtype=torch.bool, device=picks.values.device)
        kept[largest(picks.values, most)] = True
        compressor.give_back(name, picks.indices[~kept], picks.values[~kept])
        return picks.only(kept)
    return picks


def _must_agree(compressor: SparseCompressor, picks: SparsePayload, name: str) -> dict[str, int]:
    state = compressor.state(name)
    shared = repr((state.global_threshold, state.boundaries)).encode()
    return {"earlier calls:": state.calls, "a threshold and regions with checksum": crc32(shared)}


# -- the reduction --------------------------------------------------------------------------------


def _reduce(transport: Transport, compressor: SparseCompressor, picks: SparsePayload, name: str) -> Tensor:
    state = compressor.state(name)
    most = entries_to_keep(compressor.density, picks.length)
    regions = _regions(transport, picks, state, most)
    sent, received, refused = _to_owners(transport, picks, regions, most)
    sums, _ = compressor.merge(received, None)
    chosen, counts, threshold = _choose(transport, sums, state, most)
    result = _gather(transport, sums.only(chosen), counts)
    won = torch.zeros(picks.count, dtype=torch.bool, device=picks.values.device)
    won[sent] = contained(picks.indices[sent], result.indices)
    compressor.give_back(name, picks.indices[~won], picks.values[~won])
    boundaries = () if refused else tuple(regions[1:])
    after = replace(state, calls=state.calls + 1, global_threshold=threshold, boundaries=boundaries)
    compressor.set_state(name, after)
    return compressor.decompress_mean([result], transport.size)


def _regions(transport: Transport, picks: SparsePayload, state: ThresholdState, most: int) -> list[int]:
    """Return the last call's regions; new ones if due, if an owner refused picks, or if they do not fit."""
    if most == picks.length:
        return equal_regions(picks.length, transport.size)
    fitting = len(state.boundaries) == transport.size and state.boundaries[-1] == picks.length
    if fitting and state.calls % REGION_PERIOD:
        return [0, *state.boundaries]
    samples = min(_SAMPLES * transport.size, most)
    return regions_from_samples(transport.allgather(sample(picks.indices, samples), "samples"), picks.length)


def _to_owners(
    transport: Transport, picks: SparsePayload, regions: list[int], most: int
) -> tuple[Tensor, list[SparsePayload], bool]:
    """Send picks to the owners of their regions, as many as both sides' caps allow, the largest first.

    Returns:
        Which of its picks this rank sent; the payloads that it received, by sender; and whether any owner
        had to refuse some of its picks.
    """
    mine = count_per_region(picks.indices, regions)
    offers = cut_to(_most_sent(most, transport.size), _without(transport.rank, mine))
    offered = _exchange_numbers(transport, offers, "counts")
    accepted = cut_to(_most_received(most, transport.size), offered)
    answers = _exchange_numbers(
        transport, [n for count in accepted for n in (count, accepted != offered)], "quotas"
    )
    granted, refused = answers[::2], any(answers[1::2])
    granted[transport.rank] = accepted[transport.rank] = mine[transport.rank]
    edges = pairwise(accumulate(mine, initial=0))
    positions = torch.cat([
        start + largest(picks.values[start:end], granted[owner]) for owner, (start, end) in enumerate(edges)
    ])  # fmt: skip
    received = _exchange(transport, picks.only(positions), granted, accepted, "")
    return positions, received, refused


def _most_sent(most: int, ranks: int) -> int:
    """Return the most entries that a rank may send to others: all of k but an equal region."""
    return most - most // ranks


def _most_received(most: int, ranks: int) -> int:
    """Return the most entries that a rank may receive; with k sums more it stays below 3k(P-1)/P."""
    return max((ranks - 1) * -(-most // ranks), most * (2 * ranks - 3) // ranks)


Chosen: TypeAlias = tuple[Tensor, list[int], float | None]
"""Which sums of this rank's region are in the result, how many of each owner, and the threshold if any."""


def _choose(transport: Transport, sums: SparsePayload, state: ThresholdState, most: int) -> Chosen:
    """Choose the sums above the global threshold, at most k on all ranks together."""
    magnitudes, threshold = sums.values.abs(), state.global_threshold
    if state.calls % THRESHOLD_PERIOD == 0:
        threshold = None
    above = (magnitudes >= (threshold or 0.0)).nonzero().squeeze(1)
    passed, held = _gather_counts(transport, [above.numel(), sums.count])
    if sum(held) <= most:
        return torch.arange(sums.count, device=above.device), held, threshold
    if threshold is None or not fits(sum(passed), most):
        return _choose_exactly(transport, magnitudes, most)
    counts = cut_to(most, passed)
    kept = largest(magnitudes[above], counts[transport.rank])
    return above[kept], counts, threshold


def _choose_exactly(transport: Transport, magnitudes: Tensor, most: int) -> Chosen:
    """Choose the k largest of all ranks' sums; of equal ones those of the lowest indices."""
    threshold, missing = kth_largest(magnitudes, most, lambda part: transport.allreduce(part, "threshold"))
    chosen, ties = magnitudes > threshold, (magnitudes == threshold).nonzero().squeeze(1)
    larger, equal = _gather_counts(transport, [int(chosen.sum()), ties.numel()])
    taken = take_first(missing, equal)
    chosen[ties[: taken[transport.rank]]] = True
    counts = [more + tied for more, tied in zip(larger, taken, strict=True)]
    return chosen.nonzero().squeeze(1), counts, threshold


def _gather(transport: Transport, chosen: SparsePayload, counts: list[int]) -> SparsePayload:
    """Gather the sums that all owners have ``chosen``, in ascending order of indices."""
    shares = equal_regions(sum(counts), transport.size)
    if max(counts) > 2 * -(-sum(counts) // transport.size):
        moves = even_shares(counts)
        to_me = [row[transport.rank] for row in moves]
        chosen = _joined(_exchange(transport, chosen, moves[transport.rank], to_me, "balancing "))
        counts = [end - start for start, end in pairwise(shares)]
    values = transport.allgatherv(chosen.values, counts, "result values")
    indices = transport.allgatherv(chosen.indices, counts, "result indices")
    return replace(chosen, values=torch.cat(values), indices=torch.cat(indices))


# -- on payloads and the transport ------------------------------------------------------------------


def _joined(payloads: list[SparsePayload]) -> SparsePayload:
    values = torch.cat([payload.values for payload in payloads])
    return replace(payloads[0], values=values, indices=torch.cat([payload.indices for payload in payloads]))


def _without(rank: int, counts: list[int]) -> list[int]:
    return [0 if other == rank else count for other, count in enumerate(counts)]


def _exchange(
    transport: Transport, payload: SparsePayload, to: list[int], of: list[int], what: str
) -> list[SparsePayload]:
    """Exchange blocks of ``payload``: ``to[r]`` entries go to rank r, ``of[r]`` come from it."""
    rank = transport.rank
    start, end = sum(to[:rank]), sum(to[: rank + 1])

    def exchanged(tensor: Tensor, of_what: str) -> list[Tensor]:
        others = torch.cat([tensor[:start], tensor[end:]])
        blocks = transport.alltoallv(others, _without(rank, to), _without(rank, of), what + of_what)
        return [*blocks[:rank], tensor[start:end], *blocks[rank + 1 :]]

    values, indices = exchanged(payload.values, "values"), exchanged(payload.indices, "indices")
    return [replace(payload, values=v, indices=i) for v, i in zip(values, indices, strict=True)]


def _exchange_numbers(transport: Transport, numbers: list[int], what: str) -> list[int]:
    return transport.alltoall(torch.tensor(numbers, device=transport.device), what).tolist()


def _gather_counts(transport: Transport, counts: list[int]) -> list[list[int]]:
    """Return for each of ``counts`` the list of all ranks' counts at this place."""
    return transport.allgather(torch.tensor(counts, device=transport.device), "counts").T.tolist()


ALGORITHM = Algorithm(
    "oktopk", "sparse", SparseCompressor, "TopK(density)", _reduce,
    compress=_compress, must_agree=_must_agree,
)  # fmt: skip
