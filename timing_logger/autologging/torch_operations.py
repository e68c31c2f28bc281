"""Rows of the parts of a training step, by hooks of torch: DATA, FORWARD, BACKWARD and OPTIMIZER.

An iteration ends with a step of the optimizer that leads (``leading_optimizer.py``).
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from timing_logger.autologging.leading_optimizer import LeadingOptimizer
from timing_logger.autologging.root_modules import RootModules
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
from timing_logger.record import OK
from timing_logger.recording.clock import perf_counter_ns

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

        if self._session.states_batch_work:
            from timing_logger.autologging.batch_work import work_of

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
