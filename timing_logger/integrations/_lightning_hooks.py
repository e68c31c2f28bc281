"""Lightning's hooks and profiler actions as rows; the modules beside this one add a base class.

``lightning.pytorch`` and ``pytorch_lightning`` are two packages with the same hooks, so nothing here imports
either of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from timing_logger.errors import ConfigurationError
from timing_logger.integrations import _operations as names
from timing_logger.integrations._callback import FrameworkCallback
from timing_logger.recording.device.intervals import HostInterval
from timing_logger.recording.global_logger import get_timing_logger

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer
    from torch.utils.hooks import RemovableHandle


class Trainer(Protocol):
    """What the hooks ask of a trainer: of either package's ``Trainer``."""

    @property
    def global_rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    @property
    def current_epoch(self) -> int: ...
    @property
    def global_step(self) -> int: ...
    @property
    def sanity_checking(self) -> bool: ...


class Module(Protocol):
    """What the hooks ask of a model: of either package's ``LightningModule``."""

    @property
    def automatic_optimization(self) -> bool: ...


class CallbackHooks(FrameworkCallback):
    """Times ``Trainer.fit``: training steps, their parts, and validation steps.

    ``iteration`` is ``trainer.global_step`` when the batch begins, which counts optimizer steps: with
    ``accumulate_grad_batches=4`` four batches share an iteration, and with two optimizers stepped manually
    every other number is missing. Validation has the number of steps done so far.

    - ``DATA`` (host clock): from the end of a batch to the beginning of the next one: the data loader, the
    batch's transfer to the device, and what loggers and other callbacks do in between. The first of an epoch
    begins with the epoch, the first after a validation with its end. An interval in which a checkpoint was
    saved is left out.
    - ``TRAIN_STEP``: the whole batch, ``on_train_batch_start`` to ``on_train_batch_end``.
    - ``FORWARD``: from the beginning of the batch until gradients are zeroed or the backward pass begins,
    whichever is first: ``training_step``, and hooks before it.
    - ``BACKWARD``: one row for each ``backward``; with DDP this includes the all-reduce.
    - ``OPTIMIZER``: one row for each step: clipping and the optimizer's ``step``. If the optimizer has no
    ``register_step_post_hook``, or a gradient scaler skips the step, it ends with the batch; under manual
    optimization there is then no row.
    - ``VALIDATION_STEP``, phase ``val``: one batch of validation. The sanity check leaves no rows.

    If there is a device, its events time everything but ``DATA``. Under manual optimization ``FORWARD`` is
    the time before the first ``manual_backward``; a later forward pass has no row. ``trainer.validate``,
    ``test`` and ``predict`` leave no rows.

    Args:
        log_dir: folder for a logger that is opened and closed with the training; each ``fit`` writes a file
            of its own. Unless the process has a logger already, this one becomes the process's for that time,
            and other instrumentation writes into the same file. None for the process's logger, or, if there
            is none, ``logs/timing``.
        timing_logger: a logger to use instead, which is left open. A copy of the callback in another process
            (``ddp_spawn``) uses that process's logger, if it has one.
        options: ``labels``, ``flush_interval``, ``record_every_n_steps``, ... of
            :class:`~timing_logger.TimingLogger`, for a new logger. Rank and world size are the trainer's.

    Raises:
        ConfigurationError: an option is unknown, out of range or contradicts ``timing_logger``.
    """

    def _begin_idle(self) -> None:
        super()._begin_idle()
        self._step_ends: dict[int, RemovableHandle] = {}

    # -- the run --------------------------------------------------------------------------------------

    def on_fit_start(self, trainer: Trainer, pl_module: Module) -> None:
        """Open the logger, now that the process group exists."""
        self._operations.start(self._run_logger.open(trainer.global_rank, trainer.world_size, trainer))

    def teardown(self, trainer: Trainer, pl_module: Module, stage: str) -> None:
        """Close the logger in the last hook of a run that succeeded."""
        self._stop()

    def on_exception(self, trainer: Trainer, pl_module: Module, exception: BaseException) -> None:
        """End open intervals with a status that names the exception, and close the logger.

        This is the last hook of a run that failed.
        """
        self._operations.end_all(f"error:{type(exception).__name__}")
        self._stop()

    def _stop(self) -> None:
        for handle in self._step_ends.values():
            handle.remove()
        self._step_ends.clear()
        self._operations.stop()
        self._run_logger.close()

    # -- training -------------------------------------------------------------------------------------

    def on_train_epoch_start(self, trainer: Trainer, pl_module: Module) -> None:
        self._operations.logger.set_current_epoch(trainer.current_epoch)
        self._operations.wait()

    def on_train_batch_start(self, trainer: Trainer, *_: object, **__: object) -> None:
        self._operations.logger.set_current_iteration(trainer.global_step)
        self._operations.end_wait(names.DATA)
        self._operations.begin(names.TRAIN_STEP)
        self._operations.begin(names.FORWARD)

    def on_before_zero_grad(self, trainer: Trainer, pl_module: Module, optimizer: Optimizer) -> None:
        self._operations.end(names.FORWARD)

    def on_before_backward(self, trainer: Trainer, pl_module: Module, loss: Tensor) -> None:
        self._operations.end(names.FORWARD)
        self._operations.drop(names.OPTIMIZER)  # it has ended by now, but no hook reported when
        self._operations.begin(names.BACKWARD)

    def on_after_backward(self, trainer: Trainer, pl_module: Module) -> None:
        self._operations.end(names.BACKWARD)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: Module, optimizer: Optimizer) -> None:
        self._operations.drop(names.FORWARD)  # still open: it contains a backward pass that called no hooks
        if id(optimizer) not in self._step_ends and hasattr(optimizer, "register_step_post_hook"):
            self._step_ends[id(optimizer)] = optimizer.register_step_post_hook(self._on_optimizer_stepped)
        self._operations.begin(names.OPTIMIZER)

    def _on_optimizer_stepped(self, *_: object) -> None:
        self._operations.end(names.OPTIMIZER)

    def on_train_batch_end(self, trainer: Trainer, pl_module: Module, *_: object, **__: object) -> None:
        if pl_module.automatic_optimization:
            self._operations.end(names.OPTIMIZER)
        self._operations.end(names.TRAIN_STEP)
        self._operations.drop_all()  # such as a forward pass without a backward pass
        self._operations.wait()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Module) -> None:
        self._operations.drop_all()  # a batch that ends the epoch by returning -1 has no end hook

    def on_save_checkpoint(self, *_: object, **__: object) -> None:
        self._operations.drop_wait()

    # -- validation, inside of training ---------------------------------------------------------------

    def on_validation_start(self, trainer: Trainer, pl_module: Module) -> None:
        self._operations.logger.set_current_iteration(trainer.global_step)

    def on_validation_batch_start(self, trainer: Trainer, *_: object, **__: object) -> None:
        if not trainer.sanity_checking:
            self._operations.begin(names.VALIDATION_STEP)

    def on_validation_batch_end(self, *_: object, **__: object) -> None:
        self._operations.end(names.VALIDATION_STEP, names.VALIDATION)

    def on_validation_end(self, trainer: Trainer, pl_module: Module) -> None:
        self._operations.wait()  # replaces the wait that was open before the validation


class ProfilerActions:
    """Records every action that Lightning names as a row of the process's logger, timed by the host's clock.

    ``[Strategy]DDPStrategy.training_step`` has the operation ``TRAINING_STEP`` and the layer name
    ``[Strategy]DDPStrategy``. Together with the callback, its rows are in the same file and have its
    iterations. ``TRAIN_DATALOADER_NEXT`` is the data loader alone, and has the iteration before the one that
    it fetches for.

    Args:
        actions: last parts of the names to record, such as ``["train_dataloader_next"]``; None for all of
            them, which are some thirty rows a batch, and more with more callbacks.

    Raises:
        ConfigurationError: ``actions`` is a single name.
    """

    def __init__(self, actions: Collection[str] | None = None) -> None:
        super().__init__()
        if isinstance(actions, str):
            raise ConfigurationError(f"actions must be a collection of names, such as [{actions!r}].")
        self._actions = actions
        self._open: dict[str, HostInterval] = {}

    def start(self, action_name: str) -> None:
        if get_timing_logger().recording and self._records(action_name):
            self._open[action_name] = HostInterval()

    def stop(self, action_name: str) -> None:
        interval = self._open.pop(action_name, None)
        if interval is not None:
            interval.end()
            owner, _, action = action_name.rpartition(".")
            get_timing_logger().record_interval(action, interval.start_ns, interval.end_ns, layer_name=owner)

    def _records(self, action_name: str) -> bool:
        return self._actions is None or action_name.rpartition(".")[2] in self._actions
