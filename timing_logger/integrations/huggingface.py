"""Hooks for the Hugging Face ``Trainer``.

::

    from timing_logger.integrations.huggingface import TimingLoggerCallback

    trainer = transformers.Trainer(..., callbacks=[TimingLoggerCallback("logs/timing")])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from timing_logger.integrations import _operations as names
from timing_logger.integrations._callback import FrameworkCallback

try:
    from transformers import TrainerCallback
except ModuleNotFoundError as error:
    if error.name != "transformers":
        raise
    raise ImportError("transformers is not installed: pip install timing_logger[transformers].") from error

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

__all__ = ["TimingLoggerCallback"]


class TimingLoggerCallback(FrameworkCallback, TrainerCallback):
    """Times ``Trainer.train``.

    ``iteration`` is ``state.global_step`` when the step begins. It counts optimizer steps: with
    ``gradient_accumulation_steps=4`` a step has four batches. Rows of operations after a step (``LOG``,
    ``EVALUATE``, ``SAVE``) have the number of steps done so far, as in the trainer's own log.

    - ``DATA`` (host clock): from the trainer's last event until a step begins; all batches of the step are
    fetched in it. The first of an epoch also contains the start of the loader's workers, and after a resume
    the skipping of what was trained before.
    - ``TRAIN_STEP``: ``on_step_begin`` to ``on_step_end``, with all its batches, the optimizer and the
    learning rate scheduler.
    - ``FORWARD_BACKWARD``: one row for each batch, including its transfer to the device. No hook separates
    the two passes. The row of the last batch contains the clipping of gradients.
    - ``OPTIMIZER``: the optimizer's ``step``, ``on_pre_optimizer_step`` to ``on_optimizer_step``.
    - ``LOG``, ``SAVE`` (host clock): from the trainer's last event until it reports that it has logged or
    saved. To log, it gathers the loss of all ranks and waits for the device.
    - ``EVALUATE`` (host clock), phase ``val``: one evaluation of the training loop, including loader and
    metrics.

    If there is a device, its events time ``TRAIN_STEP``, ``FORWARD_BACKWARD`` and ``OPTIMIZER``. ``evaluate``
    and ``predict`` outside of ``train`` leave no rows.

    The trainer reports no exception to callbacks. Intervals that are open then leave no row, and a logger
    that the callback opened stays open until the next training or the end of the process: nothing is lost.

    Args:
        log_dir: folder for a logger that is opened and closed with the training; each ``train`` writes a file
            of its own. Unless the process has a logger already, this one becomes the process's for that time,
            and other instrumentation writes into the same file. None for the process's logger, or, if there
            is none, ``logs/timing``.
        timing_logger: a logger to use instead, which is left open. A copy of the callback in another process
            uses that process's logger, if it has one.
        options: ``labels``, ``flush_interval``, ``record_every_n_steps``, ... of
            :class:`~timing_logger.TimingLogger`, for a new logger. Rank and world size are the trainer's.

    Raises:
        ConfigurationError: an option is unknown, out of range or contradicts ``timing_logger``.
    """

    def _begin_idle(self) -> None:
        super()._begin_idle()
        self._epoch: int | None = None
        self._evaluated: object = None

    # -- the run --------------------------------------------------------------------------------------

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, *_: object, **__: object) -> None:
        self._begin_idle()
        logger = self._run_logger.open(args.process_index, args.world_size, state)
        logger.set_current_iteration(state.global_step)
        self._operations.start(logger)
        self._operations.wait()

    def on_train_end(self, *_: object, **__: object) -> None:
        self._operations.stop()
        self._run_logger.close()

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, *_: object, **__: object) -> None:
        # Counted here, because state.epoch lags behind in the epoch after one that stopped early.
        self._epoch = int(state.epoch or 0) if self._epoch is None else self._epoch + 1
        self._operations.logger.set_current_epoch(self._epoch)
        self._operations.wait()

    def on_epoch_end(self, *_: object, **__: object) -> None:
        self._operations.wait()

    # -- a step ---------------------------------------------------------------------------------------

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, *_: object, **__: object) -> None:
        self._evaluated = None
        self._operations.logger.set_current_iteration(state.global_step)
        self._operations.end_wait(names.DATA)
        self._operations.begin(names.TRAIN_STEP)
        self._operations.begin(names.FORWARD_BACKWARD)

    def on_substep_end(self, *_: object, **__: object) -> None:
        self._operations.end(names.FORWARD_BACKWARD)
        self._operations.begin(names.FORWARD_BACKWARD)

    def on_pre_optimizer_step(self, *_: object, **__: object) -> None:
        self._operations.end(names.FORWARD_BACKWARD)
        self._operations.begin(names.OPTIMIZER)

    def on_optimizer_step(self, *_: object, **__: object) -> None:
        self._operations.end(names.OPTIMIZER)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, *_: object, **__: object) -> None:
        self._operations.end(names.TRAIN_STEP)
        self._operations.drop_all()
        self._operations.logger.set_current_iteration(state.global_step)
        self._operations.wait()

    # -- between steps --------------------------------------------------------------------------------

    def on_log(self, *_: object, **__: object) -> None:
        if self._evaluated is None:  # an evaluation logs its metrics before it ends
            self._operations.end_wait(names.LOG)
            self._operations.wait()

    def on_prediction_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        eval_dataloader: object = None,
        **_: object,
    ) -> None:
        if eval_dataloader is self._evaluated:
            return
        by_the_trainer = control.should_evaluate or self._epoch is None  # eval_on_start comes before epochs
        if self._evaluated is not None or not by_the_trainer:  # the wait is that of an interrupted training
            self._operations.drop_wait()
        self._evaluated = eval_dataloader

    def on_evaluate(self, *_: object, **__: object) -> None:
        self._evaluated = None
        self._operations.end_wait(names.EVALUATE, names.VALIDATION)
        self._operations.wait()

    def on_predict(self, *_: object, **__: object) -> None:
        self._evaluated = None
        self._operations.wait()

    def on_save(self, *_: object, **__: object) -> None:
        self._operations.end_wait(names.SAVE)
        self._operations.wait()
