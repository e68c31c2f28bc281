"""The kinds of jobs whose steps differ, by name; the first line of each function is a table of the page."""

from __future__ import annotations

from verdict_accuracy.architectures import Architecture, one_team, stages, teams_of_four
from verdict_accuracy.jobs import groups, solvers, training

LATE_IN_TURN = frozenset({"diffuse"})
WORK_GOES_WHERE_IT_IS_DONE = frozenset({"not judged"})

JOBS: dict[str, Architecture] = {
    "training": Architecture(training.training, one_team),
    "evaluation": Architecture(training.with_evaluation, one_team),
    "short steps": Architecture(training.short_steps, one_team),
    "partly timed": Architecture(training.partly_timed, one_team),
    "accumulation": Architecture(training.accumulating, one_team),
    "accumulation, uneven": Architecture(training.accumulating_unevenly, one_team, acceptable=LATE_IN_TURN),
    "local SGD": Architecture(training.local_sgd, one_team),
    "ranks join": Architecture(training.ranks_join, one_team),
    "ranks leave": Architecture(training.ranks_leave, one_team),
    "overlapped": Architecture(training.overlapped, one_team),
    "one bucket": Architecture(training.one_bucket, one_team),
    "devices": Architecture(training.on_devices, one_team),
    "experts": Architecture(groups.experts, one_team),
    "experts, uneven": Architecture(groups.experts_uneven, one_team, acceptable=LATE_IN_TURN),
    "experts, ALLTOALLV": Architecture(groups.experts_in_alltoallv, one_team),
    "ring": Architecture(groups.ring, one_team),
    "causal ring": Architecture(groups.causal_ring, one_team, acceptable=LATE_IN_TURN),
    "SENDRECV ring": Architecture(groups.sendrecv_ring, one_team),
    "free ring": Architecture(groups.free_ring, one_team),
    "HSDP": Architecture(groups.hybrid_sharded, teams_of_four),
    "rails": Architecture(groups.rails, groups.on_rails),
    "many small": Architecture(groups.many_small, one_team),
    "interleaved": Architecture(groups.interleaved, stages, are_roles=True),
    "rounds": Architecture(solvers.rounds, one_team),
    "rooted": Architecture(solvers.rooted, one_team),
    "coupled": Architecture(solvers.coupled, solvers.halves),
    "farm": Architecture(solvers.farm, one_team, acceptable=WORK_GOES_WHERE_IT_IS_DONE),
}
