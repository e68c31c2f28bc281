"""For each number of a policy, runs of which another is said as soon as the number is another.

They lie close to the number on one side or the other, so that one that is a little larger or smaller shows.
"""

from __future__ import annotations

from typing import Any

from policy_runs import (
    ALL,
    apart,
    bad_clock,
    cause,
    cost,
    counted,
    groups,
    leaving_late,
    logged,
    owner,
    saving,
    short_between,
    slow_groups,
    slower_later,
    spans,
    steps,
    suspects,
    unequal,
    when,
    windows,
    working,
)  # fmt: skip

EXAMPLES: dict[str, list[Any]] = {
    # -- slow, or chance --
    "min_score_gap": [
        (unequal(30, 1, 1.14, 1, 1), "rank 1", 0.15, "suspect 1"),
        (unequal(30, 1, 1.10, 1, 1), "suspect 1", 0.08, "rank 1"),
    ],
    "flagged_score": [
        (steps(60, 8, (1, 1.38, slice(0, 60, 5))), "rank 1", 0.7, "not judged"),
        (steps(60, 8, (1, 1.3, slice(0, 60, 5))), "not judged", 0.8, "rank 1"),
    ],
    "min_z": [
        (unequal(40, 1, 1, 1.04, 1.04, 1.08, 1.08, 1.3), "rank 6", 4.0, "suspect 6"),
        (unequal(40, 0.92, 0.96, 1, 1.04, 1.08, 1.4), "suspect 5", 3.0, "rank 5"),
    ],
    "min_noise_sigma": [
        (unequal(30, 1, 1.12, 1, 1), "rank 1", 0.035, "suspect 1"),
        (steps(80, 8, (1, 1.3, slice(20)), (2, 1.065, slice(20, 80))), "diffuse", 0.014, "rank 1 2"),
    ],
    "min_level_steps": [
        (steps(3, 2), "healthy", 4, "not judged"),
        (steps(2, 2), "not judged", 2, "healthy"),
        (steps(60, 4, (1, 2.0, slice(30, 33))), "1 bounded 30 32", 4, "1 bounded 30 33", windows),
    ],
    "min_slower_steps_share": [
        (steps(42, 4, (1, 1.2), (1, 0.8, slice(3, 40, 4))), "rank 1", 0.8, "not judged"),
    ],
    "max_chance": [
        (steps(60, 4, (1, 2.0, slice(4, 52, 8))), "1 intermittent 4 44", 0.0008, "", windows),
        (steps(60, 5, (1, 2.0, slice(4, 44, 8))), "", 0.002, "1 intermittent 4 36", windows),
    ],
    "event_block_times": [
        (steps(60, 4, (1, 2.0, slice(4, 22, 3))), "1 intermittent 4 19", 4, "", windows),
    ],
    "max_suspected_chance": [
        (steps(60, 8, (1, 20.0, slice(10, 60, 15))), "suspect 1", 0.0015, "diffuse"),
        (steps(60, 8, (1, 20.0, slice(10, 55, 20))), "diffuse", 0.02, "suspect 1"),
    ],
    "very_slow_times": [
        (steps(80, 4, *((rank, 1.5, slice(rank, 80, 4)) for rank in range(4)), (1, 3.6, slice(7, 80, 11))),
         "rank 1", 4.0, "diffuse"),
    ],
    "min_steps_alone": [
        (saving(20, 40), "rank 1", 3, "not judged"),
        (saving(40), "not judged", 1, "rank 1"),
    ],
    "edge_steps_share": [
        (steps(100, 2, (1, 1.5, slice(5, 100))), "persistent", 0.04, "ongoing", when),
        (steps(100, 2, (1, 1.5, slice(6, 100))), "ongoing", 0.06, "persistent", when),
    ],
    "min_change_z": [
        (steps(60, 4, (1, 1.2, slice(20, 30)), noise=0.08, seed=1), "1 bounded 20 29", 1.5, "", windows),
        (steps(60, 4, (1, 1.2, slice(20, 30)), noise=0.08, seed=79), "", 0.5, "1 bounded 20 29", windows),
    ],
    "min_change_z_growth": [
        (steps(60, 4, (1, 1.2, slice(20, 30)), noise=0.08, seed=1), "1 bounded 20 29", 2.5, "", windows),
        (steps(60, 4, (1, 1.2, slice(20, 30)), noise=0.08, seed=79), "", 1.7, "1 bounded 20 29", windows),
    ],
    "interval_length_ratio": [
        (steps(80, 4, (1, 1.3, slice(20, 25)), noise=0.08, seed=56), "1 bounded 20 24", 0.6, "", windows),
        (steps(60, 4, (1, 1.2, slice(20, 30)), noise=0.08, seed=1), "1 bounded 20 29", 0.85, "", windows),
    ],
    "interval_shift_share": [
        (steps(80, 4, (1, 1.3, slice(20, 25)), noise=0.08, seed=22), "1 bounded 20 24", 0.5, "", windows),
        (steps(60, 4, (1, 1.2, slice(20, 30)), noise=0.08, seed=79), "", 0.15, "1 bounded 20 29", windows),
    ],
    "min_compared_stretches": [
        (steps(60, 4, (1, 1.3, slice(20, 40)), noise=0.08, seed=10, memory=0.5),
         "1 bounded 20 39", 4, "", windows),
        (steps(60, 4, (1, 1.3, slice(20, 40)), noise=0.08, seed=0, memory=0.7),
         "", 16, "1 bounded 20 39", windows),
    ],
    # -- the gates of a rank --
    "min_step_share": [
        (short_between(0.012, 1.0), "rank 1", 0.004, "diffuse"),
        (short_between(0.02, 2.0), "diffuse", 0.02, "rank 1"),
    ],
    "min_slow_steps": [
        (steps(100, 4, (1, 1.2, slice(40, 60))), "rank 1", 21, "suspect 1"),
        (steps(100, 4, (1, 1.2, slice(40, 59))), "suspect 1", 19, "rank 1"),
    ],
    "min_costly_slow_steps": [
        (steps(60, 4, (1, 3.0, slice(40, 50))), "rank 1", 11, "diffuse"),
        (steps(60, 4, (1, 3.0, slice(40, 49))), "not judged", 9, "rank 1"),
    ],
    "min_cost_share": [
        (steps(200, 2, (1, 1.12, slice(40, 62))), "rank 1", 0.014, "healthy"),
        (steps(260, 2, (1, 1.12, slice(40, 61))), "healthy", 0.008, "rank 1"),
    ],
    "visible_cost_share": [
        (steps(60, 4, (1, 1.095, slice(20, 60))), "suspect 1", 0.06, "healthy"),
        (steps(60, 4, (1, 1.095, slice(30, 60))), "healthy", 0.04, "suspect 1"),
    ],
    "suspected_score_gap": [
        (unequal(30, 1, 1.095, 1, 1), "suspect 1", 0.09, "not judged"),
        (unequal(30, 1, 1.075, 1, 1), "not judged", 0.065, "suspect 1"),
    ],
    "few_steps": [
        (steps(10, 4, (1, 1.3)), "rank 1", 11, "suspect 1"),
        (steps(9, 4, (1, 1.3)), "not judged", 9, "rank 1"),
    ],
    "min_score_gap_of_few": [
        (steps(9, 4, (1, 1.6)), "rank 1", 0.45, "diffuse"),
        (steps(9, 4, (1, 1.45)), "diffuse", 0.3, "rank 1"),
    ],
    "min_waited_share": [
        (apart(13, 16.5, 13, 13, 10, 10, 10, 10), "rank 1", 0.55, "suspect 1"),
        (apart(13, 15.5, 13, 13, 10, 10, 10, 10), "suspect 1", 0.45, "rank 1"),
    ],
    "min_late_to_leave_share": [
        (leaving_late(1.5, 20.8), "not judged", 0.56, "healthy"),
        (leaving_late(1.5, 21.2), "healthy", 0.45, "not judged"),
    ],
    "min_bursts": [
        (steps(60, 4, (1, 2.0, spans((10, 16), (30, 36)))), "rank 1", 3, "not judged"),
        (steps(60, 4, (1, 2.0, spans((10, 15), (25, 30), (40, 45)))), "rank 1", 4, "not judged"),
    ],
    "min_peers_for_spread": [(unequal(40, 1, 1.08, 1.4), "suspect 2", 3, "rank 2")],
    "half_gap_share": [
        (steps(80, 6, (1, 1.3, slice(20)), (5, 1.06, slice(20, 80)), roles="aaaabb"),
         "rank 1 5", 0.6, "rank 1"),
        (steps(80, 6, (1, 1.3, slice(20)), (5, 1.048, slice(20, 80)), roles="aaaabb"),
         "rank 1", 0.4, "rank 1 5"),
    ],
    # -- who it is --
    "min_explained_share": [
        (steps(80, 8, (1, 1.5, slice(40)), (2, 1.2, slice(50, 72))), "rank 1", 0.9, "rank 1 2"),
        (steps(80, 8, (1, 1.5, slice(40)), (2, 1.2, slice(48, 80))), "rank 1 2", 0.7, "rank 1"),
    ],
    "min_probably_explained_share": [
        (unequal(40, 0.9, 1, 1, 1.1, 1.3, 1.3, 1.3, 1.7), "suspect 7", 0.75, "diffuse"),
        (unequal(40, 0.9, 1, 1, 1.1, 1.37, 1.37, 1.37, 1.7), "diffuse", 0.5, "suspect 7"),
    ],
    "min_likelihood": [
        (steps(100, 4, (1, 1.2, slice(40, 58))), "suspect 1", 0.9, "healthy"),
        (steps(100, 4, (1, 1.12, slice(40, 55))), "healthy", 0.6, "suspect 1"),
    ],
    "max_slow_share_of_role": [
        (steps(40, 8, (slice(1, 4), 1.5), noise=0.03), "rank 3 1 2", 0.35, "diffuse"),
        (steps(40, 8, (slice(1, 5), 1.5), noise=0.03), "diffuse", 0.6, "rank 3 1 4 2"),
    ],
    "max_crowded_steps_share": [
        (steps(60, 4, (1, 1.5, slice(32)), (2, 1.5, slice(28, 60))), "diffuse", 0.08, "rank 1 2"),
        (steps(60, 4, (1, 1.5, slice(31)), (2, 1.5, slice(29, 60))), "rank 1 2", 0.03, "diffuse"),
    ],
    "min_lockstep_correlation": [
        (steps(40, 8, (slice(1, 3), 1.5), noise=0.05, seed=1, together=0.1), "suspect 1 2", 0.85, "rank 1 2"),
        (steps(40, 8, (slice(1, 3), 1.5), noise=0.06, seed=1, together=0.1), "rank 1 2", 0.65, "suspect 1 2"),
    ],
    "min_level_ratio": [
        (steps(40, 8, (1, 1.5), (2, 1.42), noise=0.02, together=0.1), "suspect 1 2", 0.9, "rank 1 2"),
        (steps(40, 8, (1, 1.5), (2, 1.3), noise=0.02, together=0.1), "rank 1 2", 0.6, "suspect 1 2"),
    ],
    "min_lockstep_steps": [
        (steps(6, 8, (slice(1, 3), 2.0), noise=0.01, seed=2, together=0.1), "suspect 1 2", 6, "rank 2 1"),
        (steps(5, 8, (slice(1, 3), 2.0), noise=0.01, seed=2, together=0.1), "rank 2 1", 4, "suspect 1 2"),
    ],
    "min_shared_steps_share": [
        (steps(80, 8, (1, 1.6, slice(40)), (2, 1.5, spans((0, 30), (36, 43))), noise=0.02, together=0.1),
         "1+2", 0.7, "1+2, 2", suspects),
        (steps(80, 8, (1, 1.6, slice(40)), (2, 1.5, spans((0, 30), (37, 44))), noise=0.02, together=0.1),
         "1+2, 2", 0.4, "1+2", suspects),
    ],
    "max_apart_correlation": [
        (steps(90, 8, (slice(1, 3), 2.0, slice(0, 90, 2)), noise=0.02, together=0.020, host_ranks=4),
         "rank 1 2", 0.2, "suspect 1 2"),
        (steps(90, 8, (slice(1, 3), 2.0, slice(0, 90, 2)), noise=0.02, together=0.035, host_ranks=4),
         "suspect 1 2", 0.7, "rank 1 2"),
    ],
    "min_host_share": [
        (steps(90, 8, (slice(1, 3), 2.0, slice(0, 90, 2)), noise=0.02, host_ranks=4),
         "rank 1 2", 0.6, "suspect 1 2"),
        (steps(90, 10, (slice(1, 3), 2.0, slice(0, 90, 2)), noise=0.02, host_ranks=5),
         "suspect 1 2", 0.3, "rank 1 2"),
    ],
    # -- what it costs, and what is known --
    "max_replay_error_share": [
        (bad_clock(28.0), "146 ms", 0.03, "89 ms", cost),
        (bad_clock(25.0), "97 ms", 0.01, "150 ms", cost),
    ],
    "min_alike_ranks": [
        (steps(40, 3, (1, 1.5), noise=0.1, seed=1), "370 ms", 4, "375 ms", cost),
        (steps(40, 2, (1, 1.5), noise=0.1, seed=1), "377 ms", 2, "374 ms", cost),
    ],
    "min_work_share": [
        (logged(40, WORK=[20] * 4, REST=[2, 5, 5, 2], END=[1] * 4, unlogged="REST"),
         "healthy", 0.83, "diffuse"),
        (logged(40, WORK=[20] * 4, REST=[2, 5.6, 5.6, 2], END=[1] * 4, unlogged="REST"),
         "diffuse", 0.75, "healthy"),
    ],
    "min_role_work_share": [
        (logged(40, "aaaabbbb", WORK=[12] * 4 + [20] * 4, CLIP=[16] * 4 + [15] * 4, END=[1] * 8),
         "role 4 5 6 7", 0.6, "healthy"),
        (logged(40, "aaaabbbb", WORK=[12] * 4 + [17] * 4, CLIP=[24] * 4 + [20] * 4, END=[1] * 8),
         "healthy", 0.4, "role 4 5 6 7"),
    ],
    "min_outdoing_times": [
        (logged(40, WORK=[10, 13, 10, 10], REST=[10, 12.25, 10, 10], END=[1] * 4, unlogged="REST"),
         "207 ms", 1.5, "202 ms", cost),
        (logged(40, WORK=[10, 13, 10, 10], REST=[10, 14, 10, 10], END=[1] * 4, unlogged="REST"),
         "271 ms", 2.5, "278 ms", cost),
    ],
    "most_waiting_share": [
        (steps(9, 4, (1, 1.3, slice(5)), (2, 1.3, slice(5, 9))), "not judged", 0.6, "healthy"),
        (steps(9, 4, (1, 1.3, slice(4)), (2, 1.3, slice(4, 7)), (3, 1.3, slice(7, 9))),
         "healthy", 0.4, "not judged"),
    ],
    # -- roles, all ranks, and none in particular --
    "min_growth_steps": [
        (working(40, 4, as_much=1.4, slower=1, varies=0.2, grows=False), "machine", 60, "work", owner),
        (working(12, 2, as_much=1.4, slower=1, varies=0.2, grows=False), "work", 5, "machine", owner),
    ],
    "min_work_difference": [
        (working(40, 4, as_much=1.4, slower=1, varies=0.15, grows=False), "machine", 0.6, "work", owner),
        (working(40, 4, as_much=1.4, slower=1, varies=0.02, grows=False), "work", 0.02, "machine", owner),
    ],
    "max_growth_error": [
        (
            working(40, 4, as_much=1.4, slower=1, varies=0.15, grows=False, noise=0.05),
            "machine", 0.005, "work", owner,
        ),
        (
            working(20, 4, as_much=1.6, slower=1, varies=0.06, grows=False, noise=0.1),
            "work", 1.0, "machine", owner,
        ),
    ],
    "min_explained_by_work": [
        (working(40, 4, as_much=1.4, slower=1.2, varies=0.1), "both", 0.5, "work", owner),
        (working(40, 4, as_much=1.4, slower=1.02, varies=0.1), "work", 0.99, "both", owner),
    ],
    "max_explained_by_work": [
        (working(40, 4, as_much=1.08, slower=1.4, varies=0.01), "machine", 0.1, "both", owner),
        (working(40, 4, as_much=1.4, slower=1.2, varies=0.1), "both", 0.7, "machine", owner),
    ],
    "min_slower_ranks_share": [
        (steps(60, 8, (slice(6), 1.5, slice(30, 60))), "group-wide", 0.8, "healthy"),
        (steps(60, 8, (slice(5), 1.5, slice(30, 60))), "healthy", 0.6, "group-wide"),
    ],
    "min_common_stretches": [
        (slower_later(120, 1.2, 0.12), "group-wide", 3, "healthy"),
        (slower_later(200, 1.2, 0.15), "group-wide", 6, "healthy"),
    ],
    "min_past_steps": [
        (steps(60, 4, (ALL, 1.5, slice(20, 60))), "group-wide", 21, "healthy"),
        (steps(60, 4, (ALL, 1.5, slice(19, 60))), "healthy", 19, "group-wide"),
    ],
    "max_lost_share": [
        (steps(40, 8, *((rank, 1.4, slice(rank, 40, 8)) for rank in range(8))), "diffuse", 0.35, "healthy"),
        (steps(40, 8, *((rank, 1.25, slice(rank, 40, 8)) for rank in range(8))), "healthy", 0.15, "diffuse"),
    ],
    # -- transfers --
    "max_cause_chance": [
        (counted(30), "main_run_queue_wait_us", 0.0085, "", cause),
    ],
    "min_covered_share": [
        (counted(60, states=0.6), "main_run_queue_wait_us", 0.55, "", cause),
        (counted(60, states=0.55), "", 0.45, "main_run_queue_wait_us", cause),
    ],
    "min_cause_correlation": [
        (counted(100, "major_faults", varying=0.25), "major_faults", 0.6, "", cause),
        (counted(100, "major_faults", varying=0.35), "", 0.4, "major_faults", cause),
    ],
    "min_transfer_times": [
        (groups(60, 1, (1.6, slice(30, 60)), work_ms=6), "communication", 1.7, "healthy"),
        (groups(60, 1, (1.4, slice(20, 60)), work_ms=4), "healthy", 1.3, "communication"),
    ],
    "min_transfer_cost_share": [
        (groups(60, 1, (3.0, slice(30, 60)), work_ms=32), "communication", 0.06, "healthy"),
        (groups(60, 1, (2.0, slice(30, 60)), work_ms=20), "healthy", 0.03, "communication"),
    ],
    "min_transfer_cost_ms": [
        (groups(60, 1, (3.0, slice(30, 60)), work_ms=10), "communication", 140.0, "healthy"),
        (groups(4, 1, work_ms=1), "healthy", 7.0, "communication"),
    ],
    "mostly_transfers_share": [
        (groups(30, 1, work_ms=1.5), "communication", 0.7, "healthy"),
        (groups(30, 1, work_ms=2.5), "healthy", 0.4, "communication"),
    ],
    "min_transfer_steps": [
        (groups(100, 1, (10.0, slice(50, 60)), work_ms=30), "communication", 11, "healthy"),
        (groups(100, 1, (10.0, slice(50, 59)), work_ms=26), "healthy", 9, "communication"),
    ],
    "min_costly_transfer_steps": [
        (groups(60, 1, (30.0, slice(50, 53)), work_ms=2.5), "174 ms", 4, "0 ms", cost),
    ],
    "min_alike_links": [(slow_groups(3, 1), "communication", 4, "healthy")],
    "max_slow_links_share": [
        (slow_groups(3, 1), "communication", 0.3, "healthy"),
        (slow_groups(4, 2), "not judged", 0.6, "communication"),
    ],
    "min_transfer_noise_sigma": [
        (groups(60, 1, (0.875, slice(9)), (1.125, slice(9, 18)), (1.9, slice(18, 60))),
         "communication", 0.08, "healthy"),
    ],
    "max_transfer_times": [
        (groups(60, 1, (0.05, slice(8, 32, 8)), (1.9, slice(32, 60))), "communication", 4.0, "healthy"),
    ],
    "quick_transfers_share": [
        (groups(200, 1, (2.0, slice(25, 200))), "communication", 0.15, "healthy"),
        (groups(240, 1, (2.0, slice(21, 240))), "healthy", 0.08, "communication"),
    ],
}  # fmt: skip
"""For each number: a run, what is said of it, another number, and what is said then."""
