"""The figures of a run in progress beside the curves of its training: TensorBoard, Weights & Biases, MLflow.

One process writes for all ranks. A tracker has no labels, so they are part of a name:
``timing_logger/step_seconds/median``, ``timing_logger/rank_3/waiting_ratio``. States are left out: what they
tell is written in words when it changes.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from timing_logger.live.events import change_text
from timing_logger.live.figures import Figure, Figures
from timing_logger.live.series import PREFIX

if TYPE_CHECKING:
    from timing_logger.engine.changes import Change
    from timing_logger.live.watcher import Snapshot

_IN_NAMES = frozenset({"stat", "rank"})
_INIT_S = 15.0  # how long wandb tries to reach its server: a later look tries again, and no end waits longer
_TIMES = frozenset({"look_timestamp", "change_timestamp"})  # a tracker keeps the time of each point itself


class Writer(Protocol):
    """What writes into a tracker."""

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Write the values of one look, by name."""

    def tell(self, text: str, step: int) -> None:
        """Write what changes."""

    def close(self) -> None:
        """Write what is still held."""


class Tracked:
    """Shows a run in a tracker.

    Args:
        writer: writes into the tracker.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._figures = Figures()
        self._steps = StepTracker()

    def show(self, snapshot: Snapshot, change: Change | None) -> None:
        """Write the figures at the latest iteration, and in words what changes. Raises what goes wrong."""
        step = self._steps.of(snapshot)
        self._writer.write(named(self._figures.of(snapshot, change)), step)
        if change:
            self._writer.tell(change_text(change), step)

    def close(self) -> None:
        """Write what is still held."""
        self._writer.close()


class StepTracker:
    """Finds the step of a look, which is the latest iteration.

    Where iterations restart with each epoch, those of earlier epochs are added as far as looks saw them, so
    that a step is a little too small from then on.
    """

    def __init__(self) -> None:
        self._epoch: int | None = None
        self._before = 0
        self._latest = 0

    def of(self, snapshot: Snapshot) -> int:
        """Return the step; that of the look before if no iteration is known."""
        places = [(now.epoch or 0, now.iteration) for now in snapshot.ranks if now.iteration is not None]
        if not places:
            return self._latest
        epoch, iteration = max(places)
        if self._epoch is not None and epoch > self._epoch:
            self._before = self._latest + 1
        self._epoch, self._latest = epoch, self._before + iteration
        return self._latest


def named(figures: list[Figure]) -> dict[str, float]:
    """Return values by the names that they have in a tracker."""
    return {
        _name(figure): figure.value
        for figure in figures
        if _IN_NAMES.issuperset(figure.labels) and figure.series.name not in _TIMES
    }


def _name(figure: Figure) -> str:
    name = figure.series.full_name.removeprefix(f"{PREFIX}_")
    if "rank" in figure.labels:
        return f"{PREFIX}/rank_{figure.labels['rank']}/{name.removeprefix('rank_')}"
    return "/".join((PREFIX, name, *figure.labels.values()))


# -- the trackers ------------------------------------------------------------------------------------------


class TensorBoardWriter:
    """Writes an event file of its own into a folder.

    Args:
        folder: is made if it is not there; other event files in it are left alone.
    """

    def __init__(self, folder: str) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._file = EventFileWriter(folder, filename_suffix=f".{PREFIX}")

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Write each value as a scalar."""
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._add(
            Summary(value=[Summary.Value(tag=tag, simple_value=one) for tag, one in values.items()]), step
        )

    def tell(self, text: str, step: int) -> None:
        """Write a text, which the tab of texts shows."""
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.plugins.text.metadata import create_summary_metadata
        from tensorboard.util.tensor_util import make_tensor_proto

        tag, tensor = f"{PREFIX}/verdict", make_tensor_proto([text.encode()])
        about = create_summary_metadata(display_name=tag, description="What changes while the run goes on.")
        self._add(Summary(value=[Summary.Value(tag=tag, metadata=about, tensor=tensor)]), step)

    def close(self) -> None:
        """Write what is still held."""
        self._file.close()

    def _add(self, summary: Any, step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._file.add_event(Event(wall_time=time.time(), step=step, summary=summary))
        self._file.flush()


class WandBWriter:
    """Writes a run of its own into Weights & Biases.

    Args:
        settings: arguments of ``wandb.init``.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        import wandb

        own = wandb.Settings(
            console="off", silent=True, x_disable_stats=True, init_timeout=_INIT_S, login_timeout=1
        )  # fmt: skip
        wandb.setup(own)
        self._run = wandb.init(job_type=PREFIX, settings=own, **settings)
        self._run.define_metric(f"{PREFIX}/*", step_metric=f"{PREFIX}/step")

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Write the values, over the step as the axis."""
        self._run.log({**values, f"{PREFIX}/step": step})

    def tell(self, text: str, step: int) -> None:
        """Write a text into the summary of the run."""
        self._run.summary[f"{PREFIX}/verdict"] = text

    def close(self) -> None:
        """End the run, and wait until all of it is written or sent."""
        self._run.finish()


class MLflowWriter:
    """Writes into a run of MLflow: a new one, or that of the training, beside its metrics.

    Args:
        tracking_uri: of the server, or of a folder or a database.
        experiment: its name; it is made if it is not there.
        run_name: of the new run.
        run_id: of the run that is there; "" for a new one.
    """

    def __init__(self, tracking_uri: str, experiment: str, run_name: str, run_id: str) -> None:
        from mlflow.tracking import MlflowClient

        # else the terminal hears of tables that it makes, and of links
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
        self._client = MlflowClient(tracking_uri)
        self._is_new = not run_id
        self._run_id = run_id or self._new_run(experiment, run_name)

    def write(self, values: Mapping[str, float], step: int) -> None:
        """Write the values in one request."""
        from mlflow.entities import Metric

        now_ms = time.time_ns() // 1_000_000
        metrics = [Metric(name, value, now_ms, step) for name, value in values.items()]
        self._client.log_batch(self._run_id, metrics=metrics)

    def tell(self, text: str, step: int) -> None:
        """Write a text as a tag of the run, in the place of the one before."""
        self._client.set_tag(self._run_id, f"{PREFIX}.verdict", text)

    def close(self) -> None:
        """End the run if it was begun here."""
        if self._is_new:
            self._client.set_terminated(self._run_id)

    def _new_run(self, experiment: str, run_name: str) -> str:
        found = self._client.get_experiment_by_name(experiment)
        of_it = found.experiment_id if found else self._client.create_experiment(experiment)
        return str(self._client.create_run(of_it, run_name=run_name or None).info.run_id)
