"""A tracker gets the curves of a run over its iterations, and in words what changes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from conditions import wait_for
from snapshots import BEGINS, SLOW, snapshot_of

from timing_logger.live.destinations import MLflow, TensorBoard, WandB
from timing_logger.live.events import change_text
from timing_logger.live.figures import Figures
from timing_logger.live.trackers import StepTracker, Tracked, named
from timing_logger.live.watcher import Snapshot

IN_WORDS = change_text(BEGINS)


class Notebook:
    """A writer that keeps what it is given."""

    def __init__(self) -> None:
        self.written: list[tuple[Mapping[str, float], int]] = []
        self.told: list[tuple[str, int]] = []
        self.is_closed = False

    def write(self, values: Mapping[str, float], step: int) -> None:
        self.written.append((values, step))

    def tell(self, text: str, step: int) -> None:
        self.told.append((text, step))

    def close(self) -> None:
        self.is_closed = True


def at(iteration: int | None, epoch: int | None = None, n_ranks: int = 2) -> Snapshot:
    place = {"iteration": iteration, "epoch": epoch}
    return snapshot_of(n_ranks, SLOW, **{f"rank{rank}": place for rank in range(n_ranks)})


def test_labels_are_part_of_a_name_and_states_and_times_are_left_out() -> None:
    values = named(Figures().of(snapshot_of(4, SLOW), BEGINS))
    assert values["timing_logger/step_seconds/median"] == values["timing_logger/rank_3/step_seconds"] == 0.5
    assert values["timing_logger/hang"] == 0
    assert values["timing_logger/rows_written_total"] == 4000
    assert not any("state" in name or "timestamp" in name or "/verdict" in name for name in values)


def test_what_changes_is_told_in_words_at_the_latest_iteration_and_only_then() -> None:
    notebook = Notebook()
    tracked = Tracked(notebook)
    for snapshot, change in ((at(70), None), (at(90), BEGINS), (at(95), None)):
        tracked.show(snapshot, change)
    assert [step for _, step in notebook.written] == [70, 90, 95]
    assert notebook.told == [(IN_WORDS, 90)]


def test_what_is_still_held_is_written_at_the_end_alone() -> None:
    notebook = Notebook()
    tracked = Tracked(notebook)
    tracked.show(at(70), None)
    assert not notebook.is_closed
    tracked.close()
    assert notebook.is_closed


def test_steps_are_iterations_also_after_a_restart_from_an_earlier_one() -> None:
    steps = StepTracker()
    assert [steps.of(at(iteration)) for iteration in (0, 70, 40, 90)] == [0, 70, 40, 90]


def test_where_iterations_restart_with_each_epoch_steps_go_on() -> None:
    steps = StepTracker()
    looks = [(0, 40), (0, 99), (1, 3), (1, 99), (2, 0)]
    assert [steps.of(at(iteration, epoch)) for epoch, iteration in looks] == [40, 99, 103, 199, 200]


def test_a_look_without_an_iteration_has_the_step_before() -> None:
    steps = StepTracker()
    assert [steps.of(at(iteration)) for iteration in (None, 7, None)] == [0, 7, 7]


# -- the trackers themselves -------------------------------------------------------------------------------


def show_a_run(destination: TensorBoard | WandB | MLflow) -> None:
    """Show three looks at a run, at the second of which a rank is told to be slow."""
    exporter = destination.open()
    exporter.show(at(10, n_ranks=4), None)
    exporter.show(at(20, n_ranks=4), BEGINS)
    exporter.show(at(30, n_ranks=4), None)
    exporter.close()


def test_tensorboard_reads_back_the_curves_and_what_changes(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    show_a_run(TensorBoard(str(tmp_path)))
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    steps = [(one.step, one.value) for one in events.Scalars("timing_logger/rank_3/step_seconds")]
    assert steps == [(10, 0.5), (20, 0.5), (30, 0.5)]
    (told,) = events.Tensors("timing_logger/verdict")
    assert told.step == 20
    assert told.tensor_proto.string_val[0].decode() == IN_WORDS


def test_tensorboard_has_a_look_before_the_next_one(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    exporter = TensorBoard(str(tmp_path)).open()
    exporter.show(at(10), None)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [one.step for one in events.Scalars("timing_logger/ranks")] == [10]
    exporter.close()


def records_in(log: bytes) -> Iterator[bytes]:
    """Yield the records of a file of Weights & Biases: those of a LevelDB log, after seven bytes of its own.

    A block of 32 KiB holds pieces of records, each after its checksum, length and type: 1 is a whole record,
    and 4 the last piece of one. Where no further piece fits a block is filled up.
    """
    at, record = 7, b""
    while at + 7 <= len(log):
        if at % 32768 > 32768 - 7:
            at += 32768 - at % 32768
            continue
        length, kind = struct.unpack_from("<HB", log, at + 4)
        record += log[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield record
            record = b""


def test_wandb_keeps_the_curves_and_what_changes_in_its_files(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed (pip install wandb)")
    from wandb.proto.wandb_internal_pb2 import Record

    show_a_run(WandB("speech", group="run-7", mode="offline", folder=str(tmp_path)))
    (path,) = tmp_path.rglob("run-*.wandb")

    def written() -> list[Record]:
        records = [Record.FromString(data) for data in records_in(path.read_bytes())]
        return records if records and records[-1].HasField("exit") else []

    records = wait_for(written)  # by a process of wandb's own
    looks = [
        {"/".join(item.nested_key) or item.key: item.value_json for item in record.history.item}
        for record in records
        if record.HasField("history")
    ]
    assert [look["timing_logger/step"] for look in looks] == ["10", "20", "30"]
    assert {look["timing_logger/rank_3/step_seconds"] for look in looks} == {"0.5"}
    told = [one.value_json for record in records for one in record.summary.update if "verdict" in str(one)]
    assert json.dumps(IN_WORDS) in told
    assert capfd.readouterr() == ("", "")


def test_wandb_online_without_a_login_is_an_error_and_not_in_silence_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb", reason="wandb is not installed (pip install wandb)")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with pytest.raises(wandb.errors.UsageError):
        WandB("speech", folder=str(tmp_path)).open()


def test_mlflow_has_the_curves_and_what_changes_in_a_run_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mlflow", reason="MLflow is not installed (pip install mlflow)")
    from mlflow.tracking import MlflowClient

    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path}/runs.db"
    show_a_run(MLflow(uri, name="timing"))
    assert capfd.readouterr().out == ""
    client = MlflowClient(uri)
    of_it = client.get_experiment_by_name("timing_logger")
    (run,) = client.search_runs([of_it.experiment_id])
    curve = client.get_metric_history(run.info.run_id, "timing_logger/rank_3/step_seconds")
    assert [(one.step, one.value) for one in curve] == [(10, 0.5), (20, 0.5), (30, 0.5)]
    assert run.data.tags["timing_logger.verdict"] == IN_WORDS
    assert (run.info.run_name, run.info.status) == ("timing", "FINISHED")


def test_mlflow_adds_the_curves_to_the_run_of_the_training_and_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow", reason="MLflow is not installed (pip install mlflow)")
    from mlflow.tracking import MlflowClient

    monkeypatch.chdir(tmp_path)
    uri = f"sqlite:///{tmp_path}/runs.db"
    client = MlflowClient(uri)
    training = client.create_run(client.create_experiment("speech")).info.run_id
    client.log_metric(training, "loss", 0.5, step=20)
    show_a_run(MLflow(uri, run_id=training))
    run = client.get_run(training)
    assert {"loss", "timing_logger/waiting_ratio/median"} <= set(run.data.metrics)
    assert run.info.status == "RUNNING"
