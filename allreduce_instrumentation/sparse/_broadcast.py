"""Gives all ranks the parameters and optimizer state of rank 0, and checks that their models match."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import torch

from allreduce_instrumentation.sparse._ranks import Ranks
from timing_logger.errors import ConfigurationError

_CHUNK_BYTES = 64 * 2**20
_MAX_COUNT = 2**30  # not every MPI takes a count of more than 31 bits


def check_same_parameters(ranks: Ranks, named: Sequence[tuple[str, torch.Tensor]]) -> None:
    """Check that all ranks have parameters of the same names, shapes and dtypes, in one order. Collective.

    Raises:
        ConfigurationError: on every rank, if the parameters differ.
    """
    listing = "\n".join(f"{name} {tuple(p.shape)} {p.dtype}" for name, p in named)
    digests = ranks.allgather(hashlib.sha256(listing.encode()).hexdigest())
    others = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if others:
        raise ConfigurationError(
            f"named_parameters differ between ranks: {len(others)} of {len(digests)} ranks, the first "
            f"being rank {others[0]}, have other names, shapes or dtypes than rank 0. Build the same "
            "model and optimizer on every rank."
        )


def check_same_settings(ranks: Ranks, **settings: object) -> None:
    """Check that all ranks have the same ``settings``, which can be pickled. Collective.

    Raises:
        ConfigurationError: on every rank, if one of ``settings`` is not the same on all ranks.
    """
    everyone = ranks.allgather(settings)
    for name in settings:
        for rank, theirs in enumerate(everyone):
            if theirs[name] != everyone[0][name]:
                raise ConfigurationError(
                    f"{name} differs between ranks: {everyone[0][name]!r} on rank 0 and {theirs[name]!r} on "
                    f"rank {rank}. Give all ranks the same."
                )


@torch.no_grad()
def broadcast_parameters(ranks: Ranks, parameters: Iterable[torch.Tensor]) -> None:
    """Overwrite the parameters of all ranks with those of rank 0, bit for bit. Collective."""
    for members in _chunks(parameters):
        flat = torch.cat([p.detach().reshape(-1) for p in members]).cpu()
        for piece in torch.split(flat.view(torch.uint8), _MAX_COUNT):
            ranks.broadcast(piece)
        if ranks.rank != 0:
            for p, values in zip(members, torch.split(flat, [p.numel() for p in members]), strict=True):
                p.copy_(values.view(p.shape))


def _chunks(parameters: Iterable[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Yield consecutive parameters of one dtype and device, in chunks of which a copy fits into memory."""
    for _, group in groupby(parameters, key=lambda p: (p.dtype, p.device)):
        members: list[torch.Tensor] = []
        for p in group:
            if members and sum(m.nbytes for m in members) + p.nbytes > _CHUNK_BYTES:
                yield members
                members = []
            members.append(p)
        yield members


def broadcast_state(ranks: Ranks, optimizer: torch.optim.Optimizer) -> None:
    """Load the optimizer state of rank 0 on all other ranks. Collective."""
    if ranks.size == 1:
        return
    file = io.BytesIO()
    if ranks.rank == 0:
        torch.save(optimizer.state_dict(), file)
    content = ranks.broadcast_bytes(file.getvalue())
    if ranks.rank != 0:
        # A rank of the same job wrote it, so unpickling objects of any class is safe.
        state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)
        optimizer.load_state_dict(state)
