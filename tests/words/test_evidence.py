"""Facts in words: how slow, what ties ranks, in what they lose time, and what was compared."""

from __future__ import annotations

from math import nan

import pytest

from timing_logger.analysis import Gate
from timing_logger.results.facts import (
    ActAsOne,
    AllSlower,
    AloneInRole,
    BondKind,
    Fact,
    FewSteps,
    LostToSlowest,
    MostlyTransfers,
    NotNamed,
    SelfTimeOfRows,
    SlowHost,
    Slowness,
    SlowOperation,
    SlowRole,
    SlowTransfers,
    Transfer,
    VaryAlone,
    WorkOfRank,
)
from timing_logger.results.plain import UNLOGGED, StepRange
from timing_logger.words.evidence import sentence

LINK = Transfer("ALLREDUCE", "world", None, None, None)
SLOWNESS = Slowness(1.5, "persistent", StepRange(3, 9), 1)
HOW_SLOW = "(persistent, iterations 3 to 9, 1 slow step)."


@pytest.mark.parametrize(("n_hosts", "shared"), [(2, "storage, a network"), (0, "a host, storage")])
def test_ranks_of_several_hosts_may_share_a_network_and_others_a_host(n_hosts: int, shared: str) -> None:
    said = sentence(ActAsOne((1, 2), "something", n_hosts, "", 0, None))
    assert f"they share something ({shared}), or wait for each other" in said


@pytest.mark.parametrize(
    ("bond", "host", "host_ranks", "end"),
    [
        ("host", "n1", 2, "these are all ranks of n1, and no rank of another host is as slow then."),
        (
            "part of host", "n1", 8, "these are 2 of the 8 ranks of n1, and no rank of another host is as "
            "slow then, so they likely share something there.",
        ),
        (
            "waiting", "n1", 2, "they wait for each other in something that is not logged, and it is one of "
            "them, or n1, of which they are all.",
        ),
        (
            "waiting", "n1", 3,
            "they wait for each other in something that is not logged, and it is one of them.",
        ),
    ],
)  # fmt: skip
def test_what_ties_ranks_is_said_as_far_as_their_host_tells(
    bond: BondKind, host: str, host_ranks: int, end: str
) -> None:
    said = sentence(ActAsOne((1, 2), bond, 1, host, host_ranks, None))
    assert said == f"Ranks 1 and 2 are slow in the same steps by the same amount: {end}"


@pytest.mark.parametrize(("vary_together", "is_said"), [(False, True), (True, False), (None, False)])
def test_that_ranks_vary_together_only_where_they_are_slow_is_said_if_it_is_known(
    vary_together: bool | None, is_said: bool
) -> None:
    said = sentence(ActAsOne((1, 2), "something", 1, "", 0, vary_together))
    assert ("that is not logged only then, and" in said) is is_said


def test_how_often_transfers_are_slow_is_said_where_they_are_compared_with_their_own_usual_time() -> None:
    assert sentence(SlowTransfers(LINK, 6.0, 2.0, "usual", 7, 40)) == (
        "ALLREDUCE in group world take 6 ms without waiting in 7 of 40 steps, 3.0 times what they take in "
        "the others (2 ms)."
    )
    assert " steps" not in sentence(SlowTransfers(LINK, 6.0, 2.0, "before", 7, 40))


def test_messages_are_named_by_their_ends_and_timed_from_the_later_begin() -> None:
    assert sentence(SlowTransfers(Transfer("SEND", "", 1, 2, 4096), 6.0, 2.0, "others", 7, 40)) == (
        "Messages of up to 4096 bytes from rank 1 to rank 2 take 6 ms from when the later side began until "
        "it knew of the end, 3.0 times what others of their kind take (2 ms)."
    )


def test_a_group_without_a_name_is_said_to_have_none() -> None:
    said = sentence(MostlyTransfers(0.25, LINK._replace(group="", up_to_bytes=512)))
    assert "for 25% of the run, most of it in ALLREDUCE of up to 512 bytes in group without a name. " in said


FAILED = (Gate("cost share", 0.0123456, 0.05, False), Gate("steps", 4, 6, False))


@pytest.mark.parametrize(
    ("fact", "said"),
    [
        (
            SlowHost("n1", SLOWNESS),
            f"The typical rank of n1: 1.50 times the median of the other hosts {HOW_SLOW}",
        ),
        (
            NotNamed(2, SLOWNESS, FAILED), f"Rank 2: 1.50 times the median of its peers {HOW_SLOW} "
            "Not named: cost share 0.0123, limit 0.05; steps 4, limit 6.",
        ),
        (SlowOperation("DATA", 2, 0.8), "DATA holds 80% of what rank 2 spent beyond its peers."),
        (SlowOperation("DATA", 2, nan), "DATA is where rank 2 spent most beyond its peers."),
        (
            SlowOperation(UNLOGGED, 2, 0.8),
            f"{UNLOGGED}, the code that is not timed, holds 80% of what rank 2 spent beyond its peers.",
        ),
        (
            VaryAlone("DATA"),
            "Apart from that, DATA varies on each by itself: nobody there waits for another in it.",
        ),
        (
            WorkOfRank(2, 1.0, 0.0, 1.234),
            "For the work that it has, rank 2 takes 1.23 times as long as its peers.",
        ),
        (
            WorkOfRank(2, 1.5, 0.001, 10.0), "Rank 2 has 1.50 times the work of its peers, which explains 0% "
            "of its delay; for the work that it has, it takes 10 times as long as they do.",
        ),
        (
            SlowRole("", (3, 4), 1.5),
            "Role without a name: 1.50 times the median of the other roles, its ranks alike.",
        ),
        (
            SlowRole("a=1", (3,), 1.5), "Role a=1: 1.50 times the median of the other roles, its ranks "
            "alike. Whether the rank or the work of its role is slow cannot be told.",
        ),
        (AllSlower(0.75, 1.5, "together"), "75% of the ranks took 1.50 times their own best past, together."),
        (
            AllSlower(0.75, 1.5, "little by little"),
            "75% of the ranks took 1.50 times their own best past, after a growth that went on little "
            "by little.",
        ),
        (
            LostToSlowest(0.2, (3,)),
            "20% of the time is lost to the slowest rank of each step, most of that to rank 3.",
        ),
        (
            LostToSlowest(0.2, ()), "20% of the time is lost to the slowest rank of each step, most of "
            "that to no one in particular.",
        ),
        (SelfTimeOfRows(("a", "b")), "Self time is that of the rows of own work: a, b."),
        (SelfTimeOfRows(()), "Self time is that of the rows of own work: there are none."),
        (FewSteps(1, nobody_is_slow=False), "Only 1 step is recorded."),
        (
            FewSteps(5, nobody_is_slow=True),
            "Only 5 steps are recorded: a rank that is a little slow would not be seen.",
        ),
    ],
)  # fmt: skip
def test_each_fact_says_what_is_known_and_no_more(fact: Fact, said: str) -> None:
    assert sentence(fact) == said


@pytest.mark.parametrize(("n", "told"), [(5, "r0; r1; r2; r3; r4."), (6, "r0; r1; r2; r3; r4; ....")])
def test_five_roles_of_one_rank_are_told_and_that_there_are_more(n: int, told: str) -> None:
    assert sentence(AloneInRole(tuple(f"r{i}" for i in range(n)))).endswith(f"to compare it with: {told}")
