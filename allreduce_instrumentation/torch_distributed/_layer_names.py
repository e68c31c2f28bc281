"""Finds the part of the model that a collective is for, if no label says so.

FSDP2 issues its collectives from Python, from a method of the module's parameter group: the name is
found on the stack. DDP issues them from C++, bucket by bucket, in an order that its logging data tell.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from types import CodeType, FrameType
from typing import NamedTuple
from weakref import ref

import torch
from torch.nn.parallel import DistributedDataParallel

from timing_logger.recording.autograd_threads import NO_PASS, from_innermost

FSDP_MODULE = "torch.distributed.fsdp._fully_shard._fsdp_param_group"
"""The module of torch that is loaded wherever FSDP2 is used."""

_DEEPEST = 12  # the most frames from a collective up to FSDP2's method; there are five in torch 2.13

_DDP = "ddp:"

_fsdp_codes: tuple[CodeType, ...] = ()


def fsdp_layer() -> str:
    """Return the module for which FSDP2 is gathering or reducing, such as ``fsdp:layers.3``; else ``""``."""
    codes = _codes_of_fsdp()
    frame: FrameType | None = sys._getframe(1) if codes else None
    for _ in range(_DEEPEST):
        if frame is None:
            return ""
        if frame.f_code in codes:
            name = getattr(frame.f_locals.get("self"), "_module_fqn", None)
            return f"fsdp:{name or '(root)'}"
        frame = frame.f_back
    return ""


def fsdp_is_loaded() -> bool:
    """Tell whether FSDP2 is loaded, without which there is no FSDP2 module."""
    return FSDP_MODULE in sys.modules


def is_fsdp_module(model: torch.nn.Module) -> bool:
    """Tell whether ``fully_shard`` was applied to ``model`` or to a part of it."""
    fsdp: type | None = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    return fsdp is not None and any(isinstance(module, fsdp) for module in model.modules())


def ddp_under_construction() -> DistributedDataParallel | None:
    """Return the DDP model whose constructor is on this thread's stack, or None.

    The constructor compares the parameters' shapes over the group first, which is how the model is noticed.
    """
    code = DistributedDataParallel.__init__.__code__
    for frame in islice(from_innermost(sys._getframe(1)), _DEEPEST):
        if frame.f_code is code:
            model = frame.f_locals.get("self")
            return model if isinstance(model, DistributedDataParallel) else None
    return None


def names_bucket(layer_name: str | None) -> bool:
    """Tell whether ``layer_name`` is a name that :class:`DdpModels` gave to a bucket."""
    return layer_name is not None and layer_name.startswith(_DDP)


class DdpBuckets:
    """The buckets of one DDP model, each named after its first parameter: ``ddp:layers.0.weight``.

    DDP's first buckets follow the reverse order of the parameters. DDP may rebuild them after the first
    pass, in the order in which gradients became ready. Only its C++ half knows this order, and it must not
    be asked while it hands out a bucket, as it holds its lock then. So it is asked at the end of each pass
    until it answers. The buckets of those passes, two in torch 2.13, have no names.
    """

    def __init__(self, model: DistributedDataParallel, changed: Callable[[], None]) -> None:
        self._model = ref(model, lambda _: changed())
        self._changed = changed
        self._rebuilt = False
        self._pass = NO_PASS
        self._next = 0
        self._buckets: list[_Bucket] = list(_parameters_backwards(model))

    @property
    def model(self) -> DistributedDataParallel | None:
        """The DDP model; None when it is gone."""
        return self._model()

    @property
    def known(self) -> bool:
        """Whether the model's buckets are known."""
        return bool(self._buckets)

    @property
    def for_good(self) -> list[tuple[str, int]]:
        """The names and numbers of entries of all buckets, if they do not change any more; else empty."""
        return list(self._buckets) if self._rebuilt and self.model is not None else []

    def expects(self, entries: int, number: int) -> bool:
        """Tell whether a bucket of ``entries`` entries comes next in backward pass ``number``."""
        if number != self._pass:
            self._pass = number
            self._begin_pass(entries)
        return self._end_of_next(entries) is not None

    def next_name(self, entries: int, number: int) -> str:
        """Return the name of the next bucket in pass ``number``, and go on to the one after it.

        Args:
            entries: the number of entries of the bucket that is reduced.
            number: the autograd engine's number of the backward pass.

        Returns:
            The name; ``""`` if the next bucket has another number of entries.
        """
        if number != self._pass:
            self._pass = number
            self._begin_pass(entries)
        first, buckets = self._next, self._buckets
        if first < len(buckets) and buckets[first].entries == entries:  # nearly always: no calls
            self._next = first + 1
            return buckets[first].name
        return self.take(entries) if self._end_of_next(entries) is not None else ""

    def take(self, entries: int) -> str:
        """Return the name of the bucket of which :meth:`expects` was true, and go on to the next one."""
        first, end = self._next, self._end_of_next(entries) or self._next
        name = self._buckets[end - 1].name  # parameters are listed backwards: the bucket's first comes last
        if end > first + 1:
            self._buckets[first:end] = [_Bucket(name, entries)]
        self._next = first + 1
        return name

    def _begin_pass(self, entries: int) -> None:
        """Go back to the first bucket, unless this pass is nested or continues after a nested one."""
        if self._next >= len(self._buckets) or self._buckets[self._next].entries != entries:
            self._next = 0
        model = self._model()
        if model is None:
            self._buckets = []  # what is reduced now belongs to another model
        if model is None or not model._has_rebuilt_buckets:
            return
        if not self._rebuilt:
            self._rebuilt = True
            self._buckets, self._next = [], 0
        if not self._buckets:
            torch.autograd.Variable._execution_engine.queue_callback(self._ask)

    def _ask(self) -> None:
        model = self._model()
        if model is not None:
            with contextlib.suppress(Exception):  # an error would surface in the user's backward()
                self._buckets = list(_rebuilt_buckets(model))
            self._changed()

    def _end_of_next(self, entries: int) -> int | None:
        """Return the index after the next bucket, or after the parameters that form it; None if none fits."""
        first, buckets = self._next, self._buckets
        if first < len(buckets) and buckets[first].entries == entries:  # nearly always
            return first + 1
        end, total = first, 0
        while end < len(buckets) and total < entries and not (self._rebuilt and end > first):
            total += buckets[end].entries
            end += 1
        return end if total == entries and end > first else None


class DdpModels:
    """The DDP models that reduce over one group.

    Attributes:
        known: whether any model was added.
        tell: is called with the buckets, by name and number of entries, once those of the only model do not
            change any more; with none when that is no longer so.
    """

    def __init__(self) -> None:
        self.known = False
        self.tell: Callable[[list[tuple[str, int]]], object] = id  # nobody asks
        self._models: list[DdpBuckets] = []
        self._doubtful_pass = NO_PASS

    def add(self, model: DistributedDataParallel) -> None:
        """Add ``model``; if it was added before, its buckets are determined again."""
        others = [known for known in self._models if known.model is not model]
        self._models = [*others, DdpBuckets(model, self._tell)]
        self.known = True
        self._tell()

    def _tell(self) -> None:
        self.tell(self._models[0].for_good if len(self._models) == 1 else [])

    def layer(self, entries: int) -> str:
        """Return the name of the bucket that this thread's backward pass reduces now; ``""`` if in doubt.

        Args:
            entries: the number of entries of the bucket.
        """
        number = torch._C._current_graph_task_id()
        if number == NO_PASS or number == self._doubtful_pass:
            return ""
        if len(self._models) == 1:  # nearly always, and once per bucket: no lists
            return self._models[0].next_name(entries, number)
        alive = self._models = [model for model in self._models if model.model is not None]
        expecting = [model for model in alive if model.expects(entries, number)]
        if len(expecting) != 1 or not all(model.known for model in alive):
            if len(alive) > 1:  # later buckets of the pass would not tell either which model it is
                self._doubtful_pass = number
            return ""
        return expecting[0].take(entries)


class _Bucket(NamedTuple):
    name: str
    entries: int


def _parameters_backwards(model: DistributedDataParallel) -> Iterator[_Bucket]:
    for name, parameter in reversed(list(model.module.named_parameters())):
        if parameter.requires_grad:
            yield _Bucket(_DDP + name, parameter.numel())


def _rebuilt_buckets(model: DistributedDataParallel) -> Iterator[_Bucket]:
    """Yield the rebuilt buckets of ``model`` in the order of their reduction."""
    said = model._get_ddp_logging_data()  # type: ignore[no-untyped-call]
    order = _numbers(said.get("rebuilt_per_bucket_param_indices"))
    parameters = [(n, p) for n, p in model.module.named_parameters() if p.requires_grad]
    for size_bytes in _numbers(said.get("rebuilt_bucket_sizes")):
        members: list[tuple[str, torch.nn.Parameter]] = []
        while order and sum(p.nbytes for _, p in members) < size_bytes:
            members.append(parameters[order.pop(0)])
        if members:
            yield _Bucket(_DDP + members[0][0], sum(p.numel() for _, p in members))


def _numbers(text: object) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(text or ""))]


def _codes_of_fsdp() -> tuple[CodeType, ...]:
    """Return the code of FSDP2's two methods that issue collectives; empty if FSDP2 is not loaded."""
    # A tuple, as comparing with two codes by identity is faster than hashing one.
    global _fsdp_codes
    if not _fsdp_codes and fsdp_is_loaded():
        group: type | None = getattr(sys.modules[FSDP_MODULE], "FSDPParamGroup", None)
        methods = [getattr(group, name, fsdp_layer) for name in ("unshard", "post_backward")]
        _fsdp_codes = tuple(inspect.unwrap(method).__code__ for method in methods)
    return _fsdp_codes
