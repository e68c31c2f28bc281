"""What is said to Weights & Biases and MLflow: stand-ins for both keep it, as neither is here."""

from __future__ import annotations

import logging
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest

from timing_logger.live import trackers
from timing_logger.live.trackers import MLflowWriter, WandBWriter


class Kept:
    """Keeps each call of a library: its name and arguments. What it returns is itself."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.summary: dict[str, str] = {}

    def keep(self, name: str, *arguments: Any, **named: Any) -> None:
        self.calls.append((name, *arguments, *([named] if named else [])))


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept()
    run = SimpleNamespace(
        summary=kept.summary,
        define_metric=lambda *its, **named: kept.keep("define_metric", *its, **named),
        log=lambda values: kept.keep("log", values),
        finish=lambda: kept.keep("finish"),
    )

    def init(**named: Any) -> SimpleNamespace:
        kept.keep("init", **named)
        return run

    module = ModuleType("wandb")
    vars(module).update(
        Settings=lambda **named: named, setup=lambda settings: kept.keep("setup", settings), init=init
    )
    monkeypatch.setitem(sys.modules, "wandb", module)
    return kept


def test_a_run_of_wandb_is_set_up_before_it_begins_and_its_axis_is_the_step(wandb: Kept) -> None:
    WandBWriter({"project": "p", "mode": "offline"})
    setup, init, axis = wandb.calls
    settings = setup[1]
    assert setup[0] == "setup"
    assert (settings["console"], settings["silent"], settings["x_disable_stats"]) == ("off", True, True)
    assert 0 < settings["init_timeout"] <= 15.0  # the end of a monitor waits as long for a dead server
    assert 0 < settings["login_timeout"] <= 1
    assert init == (
        "init", {"job_type": "timing_logger", "settings": settings, "project": "p", "mode": "offline"}
    )  # fmt: skip
    assert axis == ("define_metric", "timing_logger/*", {"step_metric": "timing_logger/step"})


def test_values_are_logged_over_the_step_and_what_changes_is_in_the_summary(wandb: Kept) -> None:
    writer = WandBWriter({})
    del wandb.calls[:]
    writer.write({"timing_logger/ranks": 8.0}, 70)
    writer.tell("rank 2 is slow", 70)
    writer.close()
    assert wandb.calls == [("log", {"timing_logger/ranks": 8.0, "timing_logger/step": 70}), ("finish",)]
    assert wandb.summary == {"timing_logger/verdict": "rank 2 is slow"}


class Client:
    """A client of MLflow, with one experiment at most."""

    kept = Kept()
    experiments: ClassVar[dict[str, str]] = {}

    def __init__(self, uri: str) -> None:
        self.kept.keep("client", uri)

    def get_experiment_by_name(self, name: str) -> SimpleNamespace | None:
        found = self.experiments.get(name)
        return None if found is None else SimpleNamespace(experiment_id=found)

    def create_experiment(self, name: str) -> str:
        self.kept.keep("create_experiment", name)
        return "made"

    def create_run(self, experiment: str, run_name: str | None) -> SimpleNamespace:
        self.kept.keep("create_run", experiment, run_name)
        return SimpleNamespace(info=SimpleNamespace(run_id="new"))

    def log_batch(self, run_id: str, metrics: list[tuple[Any, ...]]) -> None:
        self.kept.keep("log_batch", run_id, [(name, value, step) for name, value, _, step in metrics])

    def set_tag(self, run_id: str, name: str, text: str) -> None:
        self.kept.keep("set_tag", run_id, name, text)

    def set_terminated(self, run_id: str) -> None:
        self.kept.keep("set_terminated", run_id)


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Kept:
    monkeypatch.setattr(Client, "kept", Kept())
    monkeypatch.setattr(Client, "experiments", {"known": "4"})
    monkeypatch.setitem(os.environ, "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "")
    monkeypatch.delenv("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT")
    monkeypatch.setattr(logging.getLogger("mlflow"), "level", logging.NOTSET)
    for name, content in {
        "mlflow": {}, "mlflow.tracking": {"MlflowClient": Client},
        "mlflow.entities": {"Metric": lambda *its: its},
    }.items():  # fmt: skip
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return Client.kept


@pytest.mark.parametrize(
    ("experiment", "name", "made"),
    [
        ("known", "mine", [("create_run", "4", "mine")]),
        ("known", "", [("create_run", "4", None)]),
        ("other", "mine", [("create_experiment", "other"), ("create_run", "made", "mine")]),
    ],
)
def test_a_new_run_of_mlflow_is_made_in_its_experiment_and_ended(
    mlflow: Kept, experiment: str, name: str, made: list[tuple[Any, ...]]
) -> None:
    writer = MLflowWriter("sqlite:///runs.db", experiment, name, "")
    writer.write({"a": 1.0, "b": 2.0}, 70)
    writer.tell("rank 2 is slow", 70)
    writer.close()
    assert mlflow.calls == [
        ("client", "sqlite:///runs.db"), *made, ("log_batch", "new", [("a", 1.0, 70), ("b", 2.0, 70)]),
        ("set_tag", "new", "timing_logger.verdict", "rank 2 is slow"), ("set_terminated", "new"),
    ]  # fmt: skip


@pytest.mark.usefixtures("mlflow")
def test_values_in_mlflow_are_of_now_in_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    instants_ms: list[int] = []

    def log_batch(_: Client, run_id: str, metrics: list[tuple[Any, ...]]) -> None:
        instants_ms.extend(at_ms for _, _, at_ms, _ in metrics)

    monkeypatch.setattr(Client, "log_batch", log_batch)
    monkeypatch.setattr(trackers, "time", SimpleNamespace(time_ns=lambda: 1_700_000_000_123_999_999))
    MLflowWriter("uri", "known", "", "theirs").write({"a": 1.0}, 70)
    assert instants_ms == [1_700_000_000_123]


def test_the_run_of_a_training_in_mlflow_is_neither_made_nor_ended(mlflow: Kept) -> None:
    writer = MLflowWriter("uri", "known", "", "theirs")
    writer.tell("x", 1)
    writer.close()
    assert mlflow.calls[1:] == [("set_tag", "theirs", "timing_logger.verdict", "x")]


def test_mlflow_prints_nothing_unless_somebody_wants_it_to(mlflow: Kept) -> None:
    MLflowWriter("uri", "known", "", "theirs")
    assert os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] == "true"
    assert logging.getLogger("mlflow").level == logging.WARNING
