"""The kinds of jobs whose steps differ, by name; the first line of each function is a table of the page."""

from __future__ import annotations

from verdict_accuracy.architectures import Architecture, one_team
from verdict_accuracy.jobs import training

JOBS: dict[str, Architecture] = {
    "training": Architecture(training.training, one_team),
    "evaluation": Architecture(training.with_evaluation, one_team),
    "short steps": Architecture(training.short_steps, one_team),
    "partly timed": Architecture(training.partly_timed, one_team),
    "accumulation": Architecture(training.accumulating, one_team),
    "local SGD": Architecture(training.local_sgd, one_team),
    "ranks join": Architecture(training.ranks_join, one_team),
    "ranks leave": Architecture(training.ranks_leave, one_team),
    "devices": Architecture(training.on_devices, one_team),
}
