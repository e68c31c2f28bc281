"""``GradientPasses``: backward's hooks launch all buckets, in the same order on every rank."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto

import torch
from torch.utils.hooks import RemovableHandle

from allreduce_instrumentation.sparse._all_reducer import AllReducer, Launch
from allreduce_instrumentation.sparse._buckets import Bucket, make_buckets
from timing_logger.errors import ReductionError


class _State(Enum):
    IDLE = auto()  # no pass holds the gradients as they are now
    OPEN = auto()  # backward runs; buckets are launched as they fill
    LAUNCHED = auto()  # all are launched
    STORED = auto()  # all are launched, and the means are in the gradients


class GradientPasses:
    """Launches every bucket once per backward pass; the last pass before a step counts.

    A bucket is launched when its last gradient arrives and all buckets before it were launched;
    at the end of backward the remaining ones follow. So every rank launches the same buckets in
    the same order, whichever parameters its own backward reached. A pass takes the gradients as
    they are in ``p.grad``, including what earlier backward passes accumulated.

    Args:
        bucket_bytes: the most gradient bytes in one bucket.
        reducer: sums the buckets over the ranks.
        travels_from: tells whether gradients on a given device travel directly from there.
    """

    def __init__(
        self, bucket_bytes: int, reducer: AllReducer, travels_from: Callable[[torch.device], bool]
    ) -> None:
        self._bucket_bytes = bucket_bytes
        self._reducer = reducer
        self._travels_from = travels_from
        self._named: list[tuple[str, torch.Tensor]] = []
        self._trained: list[bool] = []
        self._buckets: list[Bucket] = []
        self._bucket_of: dict[int, int] = {}  # id of a parameter -> its bucket's place
        self._hooks: dict[int, RemovableHandle] = {}
        self._launches: dict[int, Launch] = {}  # a bucket's place -> its last launch
        self._arrived: set[int] = set()
        self._missing: list[int] = []
        self._next = 0
        self._suspended = False
        self._told_others = False  # that this rank failed: it takes part in nothing more
        self._state = _State.IDLE
        self._lock = threading.Lock()  # hooks come from one thread per device

    # -- for the optimizer ---------------------------------------------------------------------------

    def add_parameters(self, named: list[tuple[str, torch.Tensor]]) -> None:
        """Add parameters, in the order of the forward pass; the same ones on every rank."""
        self._named.extend(named)
        self._refresh_layout()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Return a context manager in whose block backward accumulates gradients and reduces nothing."""
        before, self._suspended = self._suspended, True
        try:
            yield
        finally:
            self._suspended = before

    def finish(self) -> None:
        """Write the means over the ranks into the gradients, unless they are there already.

        Raises:
            ReductionError: a reduction failed, on any rank; a gradient was changed after its backward
                pass; or that pass ended by an exception.
        """
        if self._told_others:
            self._reducer.check()
        if self._state is _State.OPEN:
            self._reducer.fail(
                ReductionError(
                    "a backward ended by an exception in the middle of its reduction, and other ranks may "
                    "have gone on with it."
                )
            )
        if self._state is _State.IDLE:
            self._open()
            self._close()
        if self._state is _State.LAUNCHED:
            if not self._reducer.failed:
                self._check_unchanged()
            for launch in self._launches.values():
                self._reducer.settle(launch)
        if self._reducer.has_news:
            self._told_others = True
            # The news is sent where the other ranks expect this one's next bucket.
            self._reducer.launch(self._buckets[self._next % len(self._buckets)])
        self._reducer.check()
        if self._state is _State.LAUNCHED:
            for bucket in self._buckets:
                bucket.store()
            self._state = _State.STORED

    def forget(self) -> None:
        """Note that the gradients were used or discarded: the next step needs a new pass."""
        if self._state is not _State.OPEN:
            self._state = _State.IDLE

    def remove_hooks(self) -> None:
        """Remove the hooks from all parameters: backward launches no bucket any more."""
        for hook in self._hooks.values():
            hook.remove()
        self._hooks.clear()

    # -- while backward runs ---------------------------------------------------------------------------

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        with self._lock:
            if self._told_others:
                return
            if self._suspended:
                self.forget()
                return
            if self._state is not _State.OPEN:
                self._open()
                # Called at the end of this backward, on any thread. Not public, but other packages use it.
                torch.autograd.Variable._execution_engine.queue_callback(self._close)
            self._note_arrival(parameter)

    def _open(self) -> None:
        if [p.requires_grad for _, p in self._named] != self._trained:
            self._refresh_layout()
        self._state = _State.OPEN
        self._arrived.clear()
        self._missing = [len(bucket.parameters) for bucket in self._buckets]
        self._next = 0

    def _note_arrival(self, parameter: torch.Tensor) -> None:
        key = id(parameter)
        if key not in self._bucket_of:  # thawed while this pass was open: the next one takes it
            return
        if key in self._arrived:
            name = next(name for name, p in self._named if p is parameter)
            self._reducer.fail(
                ReductionError(
                    f"{name!r} got a second gradient within one reduction. Either an earlier backward ended "
                    "by an exception, or this one accumulates twice (checkpoint() with use_reentrant=True "
                    "around a shared parameter): use use_reentrant=False, or no_sync() around backward."
                )
            )
            return
        self._arrived.add(key)
        self._missing[self._bucket_of[key]] -= 1
        while self._next < len(self._buckets) and not self._missing[self._next]:
            self._launch_next()

    def _close(self) -> None:
        with self._lock:
            while self._next < len(self._buckets):
                self._launch_next()
            self._state = _State.LAUNCHED

    def _launch_next(self) -> None:
        """Load and launch the next bucket."""
        # An error in copying must not end this backward: the other ranks are told, then step() raises.
        place = self._next
        self._next += 1
        if place in self._launches:
            self._reducer.settle(self._launches[place])
        if not self._reducer.failed:
            try:
                self._buckets[place].load()
            except Exception as error:
                self._reducer.fail(error)
        self._launches[place] = self._reducer.launch(self._buckets[place])

    # -- layout and failures -----------------------------------------------------------------------------

    def _refresh_layout(self) -> None:
        """Make buckets of the parameters that are trained now; some may have been frozen or thawed."""
        for launch in self._launches.values():
            self._reducer.settle(launch)
        self._launches.clear()
        self._trained = [p.requires_grad for _, p in self._named]
        self._buckets = make_buckets(self._named, self._bucket_bytes, self._travels_from)
        self._bucket_of = {id(p): i for i, bucket in enumerate(self._buckets) for p in bucket.parameters}
        for _, parameter in self._named:
            if parameter.requires_grad and id(parameter) not in self._hooks:
                hook = parameter.register_post_accumulate_grad_hook(self._on_gradient)  # type: ignore[no-untyped-call]
                self._hooks[id(parameter)] = hook

    def _check_unchanged(self) -> None:
        changed = next(filter(None, (bucket.changed_since_load() for bucket in self._buckets)), None)
        if changed is not None:
            self._reducer.fail(
                ReductionError(
                    f"the gradient of {changed!r} was changed after backward, and the mean over the ranks "
                    "would overwrite that. Call synchronize() before clipping or unscaling gradients."
                )
            )
