"""Rows of the parts of a training step, by hooks of torch: DATA, FORWARD, BACKWARD and OPTIMIZER.

An iteration ends with a step of the optimizer that leads (:class:`LeadingOptimizer`).
"""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from collections import UserDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch import Tensor, int8, int16, int32, int64, uint8
from torch import dtype as DType
from torch.compiler import is_compiling

from timing_logger.autologging.session import Session
from timing_logger.integrations._operations import (
    BACKWARD,
    DATA,
    FORWARD,
    OPTIMIZER,
    TRAIN,
    VALIDATION,
    OpenOperations,
)
from timing_logger.recording.clock import perf_counter_ns
from timing_logger.schema.defaults import TRAINING_STEPS
from timing_logger.schema.record import OK

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer


class TorchOperations:
    """Records the parts of the steps that this process takes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._of_thread = threading.local()
        self._leading = LeadingOptimizer()
        self._iteration: int | None = None
        self._work_of: Callable[[object], int | None] = lambda batch: None
        self._guard = session.harmless
        self._roots = RootModules(self._guard(self._forward_begins), self._guard(self._forward_ends))

    def attach(self, torch: ModuleType) -> None:
        """Register the hooks with torch."""
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        if self._session.settings.batch_work:
            self._work_of = work_of
        register_optimizer_step_pre_hook(self._guard(self._optimizer_begins))
        register_optimizer_step_post_hook(self._guard(self._optimizer_ends))
        vars(torch.autograd)["_engine_run_backward"] = self._timed_pass(torch.autograd._engine_run_backward)
        _BaseDataLoaderIter.__next__ = self._timed_fetch(_BaseDataLoaderIter.__next__)  # type: ignore[assignment,method-assign]

    def _recording(self) -> OpenOperations:
        """Return what records this thread's parts of steps; the first part of all starts the logger."""
        if self._iteration is None:
            self._session.logger().set_current_iteration(0)
            self._iteration = 0
        operations: OpenOperations | None = getattr(self._of_thread, "operations", None)
        if operations is None:
            operations = self._of_thread.operations = OpenOperations()
            operations.start(self._session.logger())
        return operations

    # -- the optimizer, which counts iterations -------------------------------------------------------

    def _optimizer_begins(self, optimizer: Optimizer, *_: object) -> None:
        self._recording().begin(OPTIMIZER)

    def _optimizer_ends(self, optimizer: Optimizer, *_: object) -> None:
        operations = self._recording()
        operations.end(OPTIMIZER)
        self._roots.look_for_those_of(optimizer)
        if self._leading.ends_iteration(optimizer):
            assert self._iteration is not None
            self._iteration += 1
            operations.logger.set_current_iteration(self._iteration)

    # -- forward and backward ---------------------------------------------------------------------------

    def _forward_begins(self, module: nn.Module) -> None:
        self._recording().begin(FORWARD)

    def _forward_ends(self, module: nn.Module) -> None:
        self._recording().end(FORWARD, TRAIN if module.training else VALIDATION)

    def _pass_begins(self) -> None:
        self._recording().begin(BACKWARD)

    def _pass_ends(self, status: str) -> None:
        self._recording().end(BACKWARD, status=status)

    def _timed_pass(self, run: Callable[..., object]) -> Callable[..., object]:
        begins, ends = self._guard(self._pass_begins), self._guard(self._pass_ends)

        @functools.wraps(run)
        def timed(*args: object, **kwargs: object) -> object:
            if getattr(self._of_thread, "in_pass", False):  # a pass within a pass: that of a checkpoint
                return run(*args, **kwargs)
            self._of_thread.in_pass, status = True, OK
            begins()
            try:
                return run(*args, **kwargs)
            except BaseException as error:
                status = f"error:{type(error).__name__}"
                raise
            finally:
                self._of_thread.in_pass = False
                ends(status)

        timed._torchdynamo_disable = True  # type: ignore[attr-defined]
        return timed

    # -- data -------------------------------------------------------------------------------------------

    def _timed_fetch(self, fetch: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @self._guard
        def fetched(start_ns: int, status: str, batch: object) -> None:
            end_ns, logger = perf_counter_ns(), self._recording().logger
            logger.record_interval(DATA, start_ns, end_ns, work=self._work_of(batch), status=status)

        @functools.wraps(fetch)
        def timed(loader: Any) -> Any:
            start_ns = perf_counter_ns()
            try:
                batch = fetch(loader)
            except StopIteration:
                raise
            except BaseException as error:
                fetched(start_ns, f"error:{type(error).__name__}", None)
                raise
            fetched(start_ns, OK, batch)
            return batch

        return timed


# -- the outermost modules of a program, whose forward passes are those of its steps ----------------------

_MOST_LEVELS = 4


class RootModules:
    """The outermost modules that hold an optimizer's parameters, as far as they are called.

    Only they get a hook. Hooks on all modules would cost a call for each layer, and ``torch.compile`` would
    have to compile them.

    Args:
        begins, ends: called with a module when its forward pass begins, and when it has ended well.
    """

    def __init__(self, begins: Callable[[nn.Module], None], ends: Callable[[nn.Module], None]) -> None:
        self._begins = begins
        self._ends = ends
        self._uncalled: weakref.WeakKeyDictionary[Optimizer, list[_Watched]] = weakref.WeakKeyDictionary()

    def look_for_those_of(self, optimizer: Optimizer) -> None:
        """Watch the modules of an optimizer that took a step.

        Those that were not called since its step before give way to the modules in them: a container, such as
        that of a framework, is never called itself.
        """
        if optimizer not in self._uncalled:
            self._uncalled[optimizer] = self._watched(_roots_with(_parameters_of(optimizer)), 0)
        elif uncalled := self._uncalled[optimizer]:
            self._uncalled[optimizer] = [
                below for watched in uncalled if not watched.was_called for below in self._below(watched)
            ]

    def _below(self, watched: _Watched) -> list[_Watched]:
        module = watched.let_go()
        if module is None or watched.level == _MOST_LEVELS:
            return []
        return self._watched(module.children(), watched.level + 1)

    def _watched(self, modules: Iterable[nn.Module], level: int) -> list[_Watched]:
        return [_Watched(module, level, self._begins, self._ends) for module in modules]


class _Watched:
    """A module whose forward passes are told."""

    def __init__(
        self,
        module: nn.Module,
        level: int,
        begins: Callable[[nn.Module], None],
        ends: Callable[[nn.Module], None],
    ) -> None:
        self.module = weakref.ref(module)
        self.level = level
        self.was_called = False

        def begun(module: nn.Module, *_: object) -> None:
            self.was_called = True
            begins(module)

        def ended(module: nn.Module, *_: object) -> None:
            ends(module)

        self._handles = [
            module.register_forward_pre_hook(_Hook(begun), prepend=True),
            module.register_forward_hook(_Hook(ended)),
        ]

    def let_go(self) -> nn.Module | None:
        """Watch the module no more, and return it."""
        for handle in self._handles:
            handle.remove()
        return self.module()


class _Hook:
    """A hook that neither a pickled nor a copied module keeps: there it is a function that does nothing."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __call__(self, module: nn.Module, *args: object) -> None:
        if not is_compiling():  # torch.compile, which follows calls into hooks, finds that nothing is done
            self._function(module, *args)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return getattr, (nullcontext(), "__exit__")  # takes anything, and can be loaded without this package


def _parameters_of(optimizer: Optimizer) -> set[int]:
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}


def _roots_with(parameters: set[int]) -> list[nn.Module]:
    """Return the modules that hold some of these parameters (by ``id``) and are part of no other module."""
    from torch import nn

    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]
    parts = {id(part) for module in modules for part in vars(module).get("_modules", {}).values()}
    return [
        module
        for module in modules
        if id(module) not in parts and any(id(one) in parameters for one in module.parameters())
    ]


# -- which of a program's optimizers counts its iterations -----------------------------------------------


class LeadingOptimizer:
    """Follows the optimizer whose steps end iterations: the one that steps, whatever others are still there.

    Several optimizers may step in each iteration, such as those of two networks: the first one leads. The
    lead passes on when another one steps twice while the leading one does not, and when one takes its first
    step of all after a training of at least ``TRAINING_STEPS`` steps: a program that trains twice, or a
    learning-rate finder.
    """

    def __init__(self) -> None:
        self._leading: weakref.ref[Optimizer] | None = None
        self._n_led = 0
        self._known: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._stepped_since: weakref.WeakSet[Optimizer] = weakref.WeakSet()

    def ends_iteration(self, optimizer: Optimizer) -> bool:
        """Note a step of ``optimizer``, and return whether an iteration ends with it."""
        leading = None if self._leading is None else self._leading()
        if leading is not None and leading is not optimizer and not self._takes_the_lead(optimizer):
            self._known.add(optimizer)
            self._stepped_since.add(optimizer)
            return False
        if leading is not optimizer:
            self._leading, self._n_led = weakref.ref(optimizer), 0
        self._n_led += 1
        self._known.add(optimizer)
        self._stepped_since.clear()
        return True

    def _takes_the_lead(self, optimizer: Optimizer) -> bool:
        is_new = optimizer not in self._known
        return optimizer in self._stepped_since or (is_new and self._n_led >= TRAINING_STEPS)


# -- how much a batch of data is: the work of the row in which it was loaded, from its shapes alone ------
# No value of a tensor is looked at, so nothing waits for a device. Tokens that only pad a sequence count,
# since they are computed like the others. To be imported where torch is already.


_INTEGERS: frozenset[DType] = frozenset({int8, int16, int32, int64, uint8})
_FIRST = slice(16)  # parts are looked at: a batch of thousands of loose tensors would take too long


def work_of(batch: object) -> int | None:
    """Return the number of elements of the largest tensor of whole numbers in a batch, such as token ids.

    Where there is none of two dimensions or more, as with images and labels, it is the number of samples:
    the length of the largest tensor.

    Returns:
        None where there is no tensor in the batch, or in a list, tuple or dict in it; or where one has no
        shape, as nested tensors have none.
    """
    try:
        return _counted(batch)
    except Exception:  # of a tensor of a class of its own: it is no reason to time nothing more
        return None


def _counted(batch: object) -> int | None:
    n_tokens = n_most = 0
    n_samples = None
    for part in _parts(batch):
        for tensor in (part,) if isinstance(part, Tensor) else _parts(part):
            if isinstance(tensor, Tensor) and (n_dimensions := tensor.dim()):
                size = tensor.numel()
                if size > n_tokens and n_dimensions > 1 and tensor.dtype in _INTEGERS:
                    n_tokens = size
                if size > n_most:
                    n_most, n_samples = size, tensor.shape[0]
    return n_tokens or n_samples


def _parts(of: object) -> Sequence[object]:
    """Return the first things that a list, tuple or dict holds; a tensor itself; of anything else none.

    What a subclass does when it is asked for its parts, such as loading them, is not set off.
    """
    if isinstance(of, Tensor):
        return (of,)
    if isinstance(of, tuple):
        return tuple.__getitem__(of, _FIRST)
    if isinstance(of, list):
        return list.__getitem__(of, _FIRST)
    if isinstance(of, UserDict):  # as the batches of Hugging Face's tokenizers
        of = vars(of).get("data")
    return list(dict.values(of))[_FIRST] if isinstance(of, dict) else ()
