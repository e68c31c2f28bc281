"""``DistributedOptimizer`` itself: the methods that training calls, and the checks at its construction."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import groupby
from typing import Any, NoReturn, overload

import torch

from allreduce_instrumentation._communicators import Communicator
from allreduce_instrumentation.compressors import Compressor, NoCompression
from allreduce_instrumentation.sparse._all_reducer import AllReducer, bucket_means
from allreduce_instrumentation.sparse._gradient_passes import GradientPasses
from allreduce_instrumentation.sparse._transport import Ranks, ranks_for
from allreduce_instrumentation.sparse.algorithms import check_compressor
from timing_logger.errors import ConfigurationError
from timing_logger.recording.global_logger import get_timing_logger
from timing_logger.recording.logger import TimingLogger

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


DEFAULT_BUCKET_BYTES = 4 * 2**20
"""The most bytes of gradients that travel together, if nothing else is asked for."""

_Closure = Callable[[], Any]
_NamedParameters = Iterable[tuple[str, torch.Tensor]]


class DistributedOptimizer(torch.optim.Optimizer):
    """A wrapper around a torch optimizer that averages the gradients over all ranks before each step.

    It has the groups and state of ``optimizer`` and works with the same schedulers.

    While backward runs, a thread sums the gradients over the ranks in buckets; ``step()`` waits
    for it, writes the means into ``p.grad`` and lets ``optimizer`` step. The ``grad`` of a parameter that
    no rank used stays None. If only some ranks used a parameter, the gradients of the others count as
    zeros. All ranks must run the same number of backward passes and steps.

    Rows:
        - ``BCAST`` at construction: all ranks start from the parameters and the optimizer state of rank 0.
        - ``ALLREDUCE`` per bucket, on the thread.
        - ``WAIT`` per bucket, for the time that training was blocked on it, with the same group and seq.
        - ``D2H`` and ``H2D`` for gradients on a device from which ``comm`` cannot send (NCCL can).
        - With ``compression`` also the rows of the all-reducer; the ``ALLREDUCE`` is a small one then.

    To change gradients before the step (clipping, ``GradScaler``), call :meth:`synchronize` first.
    To accumulate over several backward passes without reducing each, use :meth:`no_sync`.

    Args:
        optimizer: a ``torch.optim.Optimizer`` over the same parameters on every rank.
        named_parameters: ``model.named_parameters()``, for the names in the rows; may hold more
            than the optimizer's. Default: names such as ``group0.param3``.
        comm: the ranks that train together, an mpi4py intracommunicator or a process group of
            ``torch.distributed``; a duplicate is used. Default: ``MPI.COMM_WORLD``.
        timing_logger: where rows go. Default: ``get_timing_logger()``. The rows of operations over a
            process group that times itself go to that group's logger.
        compression: the compressor for gradients, such as ``TopK(0.01)``; not shared with other
            optimizers. Its residuals, which differ between ranks, belong in each rank's checkpoint beside
            :meth:`state_dict`: ``optimizer.compression.state_dict()``. Freezing or thawing layers makes
            other buckets, whose residuals start at zero. A bucket with the name of a former one and
            another length is an error, and needs a new optimizer. Default: ``NoCompression()``.
        allreduce: ``"dense"``, with ``NoCompression()`` or ``FP16()``; ``"topk"``, ``"gtopk"`` or
            ``"oktopk"``, with ``TopK``. With compression gradients must be finite.
        bucket_bytes: the most gradient bytes that travel together; each bucket is compressed as a whole.
        timeout_s: how long ``step()`` waits for a bucket before it gives up, in seconds.

    Attributes:
        compression: the compressor.

    Raises:
        ConfigurationError: an argument is wrong, ``named_parameters`` lacks a parameter of the
            optimizer, the ranks' parameters or settings differ, or MPI does not allow threads.
    """

    # A GradScaler must not leave unscaling to the wrapped optimizer: synchronize() has to come first.
    _step_supports_amp_scaling = False

    def __init__(  # not calling the base class's, which would set up groups and state of its own
        self,
        optimizer: torch.optim.Optimizer,
        named_parameters: _NamedParameters | None = None,
        comm: Communicator | None = None,
        timing_logger: TimingLogger | None = None,
        *,
        compression: Compressor | None = None,
        allreduce: str = "dense",
        bucket_bytes: int = DEFAULT_BUCKET_BYTES,
        timeout_s: float = 1800.0,
    ) -> None:
        _check_arguments(optimizer, bucket_bytes, timeout_s)
        named = _named(optimizer, named_parameters)
        self._inner = optimizer
        self._logger = get_timing_logger() if timing_logger is None else timing_logger
        self.compression: Compressor = NoCompression() if compression is None else compression
        check_compressor(allreduce, self.compression)
        self._ranks = ranks_for(comm, self._logger)
        with self._logger.label("settings"):
            compression_said = repr(self.compression)
            check_same_settings(
                self._ranks, allreduce=allreduce, compression=compression_said, bucket_bytes=bucket_bytes
            )
        self._start_from_root(named)
        with self._logger.label("initial optimizer state"):
            broadcast_state(self._ranks, optimizer)
        means = bucket_means(allreduce, self.compression, self._ranks, self._logger)
        self._reducer = AllReducer(self._ranks, means, self._logger, timeout_s)
        self._passes = GradientPasses(bucket_bytes, self._reducer, self._ranks.travels_from)
        self._passes.add_parameters(named)

    # -- training --------------------------------------------------------------------------------------

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: _Closure | None = None) -> float | None:
        """Average the gradients, unless :meth:`synchronize` did, and let the wrapped optimizer step.

        Args:
            closure: reevaluates the model and returns the loss. Gradients are averaged after every
                evaluation, and the optimizer is given the loss's mean over the ranks.

        Returns:
            What the wrapped optimizer's ``step`` returns.

        Raises:
            ReductionError: a reduction failed, on any rank; if on this one, chained from the cause.
        """
        if closure is None:
            self.synchronize()
        result = self._inner.step() if closure is None else self._inner.step(self._averaged(closure))
        self._passes.forget()
        return result

    def synchronize(self) -> None:
        """Write the averaged gradients into ``p.grad`` now; the next ``step()`` uses them as they are then.

        Raises:
            ReductionError: as :meth:`step`.
        """
        self._passes.finish()

    def no_sync(self) -> AbstractContextManager[None]:
        """Return a context manager in whose block backward accumulates gradients and reduces nothing."""
        return self._passes.suspended()

    def _averaged(self, closure: _Closure) -> _Closure:
        def evaluate() -> float | torch.Tensor | None:
            loss = closure()
            self.synchronize()
            if loss is None:
                return None
            if isinstance(loss, torch.Tensor):
                return torch.full_like(loss, self._reducer.mean(float(loss.detach())))
            return self._reducer.mean(float(loss))

        return evaluate

    # -- the logger ------------------------------------------------------------------------------------

    def set_current_iteration(self, iteration: int) -> None:
        """Set the iteration of rows that are given none; see :class:`~timing_logger.TimingLogger`."""
        self._logger.set_current_iteration(iteration)

    def set_current_epoch(self, epoch: int) -> None:
        """Set the epoch of rows that are given none; see :class:`~timing_logger.TimingLogger`."""
        self._logger.set_current_epoch(epoch)

    # -- the end ---------------------------------------------------------------------------------------

    def stop(self) -> None:
        """End the thread and remove the hooks from the parameters; further calls do nothing."""
        self._passes.remove_hooks()
        self._reducer.stop()

    # -- what the wrapped optimizer does ------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # not set yet: looking it up here would recurse
            raise AttributeError(name)
        return getattr(self._inner, name)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset all gradients, as the wrapped optimizer's ``zero_grad`` does."""
        self._passes.forget()
        self._inner.zero_grad(set_to_none=set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the wrapped optimizer: it can be loaded with or without this class."""
        return self._inner.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of the wrapped optimizer; on every rank, with the same content."""
        self._inner.load_state_dict(state_dict)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group to the wrapped optimizer. Collective.

        The new parameters become those of rank 0.

        Raises:
            ConfigurationError: the new parameters differ between ranks.
        """
        self._inner.add_param_group(param_group)
        number = len(self._inner.param_groups) - 1
        added = [(f"group{number}.param{i}", p) for i, p in enumerate(self._inner.param_groups[-1]["params"])]
        self._start_from_root(added)
        self._passes.add_parameters(added)

    def __repr__(self) -> str:
        return f"DistributedOptimizer({self._inner!r})"

    def __getstate__(self) -> NoReturn:
        raise TypeError("a DistributedOptimizer has a thread and cannot be copied: save its state_dict().")

    def _start_from_root(self, named: list[tuple[str, torch.Tensor]]) -> None:
        with self._logger.label("initial parameters"):
            check_same_parameters(self._ranks, named)
            broadcast_parameters(self._ranks, [p for _, p in named])


def _check_arguments(optimizer: object, bucket_bytes: float, timeout_s: float) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer) or isinstance(optimizer, DistributedOptimizer):
        raise ConfigurationError(f"optimizer must be a plain torch.optim.Optimizer, and is {optimizer!r}.")
    for name, value in (("bucket_bytes", bucket_bytes), ("timeout_s", timeout_s)):
        if not isinstance(value, (int, float)) or not value > 0:
            raise ConfigurationError(f"{name} must be a number > 0, and is {value!r}.")


def _named(
    optimizer: torch.optim.Optimizer, named_parameters: _NamedParameters | None
) -> list[tuple[str, torch.Tensor]]:
    """Return the optimizer's parameters with their names, in the order of ``named_parameters`` if given."""
    own = {
        id(p): (f"group{g}.param{i}", p)
        for g, group in enumerate(optimizer.param_groups)
        for i, p in enumerate(group["params"])
    }
    if named_parameters is None:
        return list(own.values())
    given: dict[int, tuple[str, torch.Tensor]] = {}
    for name, parameter in named_parameters:
        given.setdefault(id(parameter), (name, parameter))
    missing = [tuple(p.shape) for key, (_, p) in own.items() if key not in given]
    if missing:
        raise ConfigurationError(
            f"named_parameters lacks {len(missing)} of the optimizer's {len(own)} parameters, of shapes "
            f"{', '.join(map(str, missing[:3]))}{', ...' if len(missing) > 3 else ''}: pass the "
            "named_parameters() of all modules that the optimizer trains, or None."
        )
    return [entry for key, entry in given.items() if key in own]
