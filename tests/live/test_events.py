"""An event states of a change what its table of keys says: who, where, since when, in which run and job."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import jsonschema
import pytest
from places import ROOT, SAMPLE

from timing_logger.analysis import RunEnd, Verdict
from timing_logger.engine.changes import Change, Changes
from timing_logger.live.events import (
    KEYS,
    MOST_NAMED,
    Event,
    WatchedRun,
    event_line,
    event_of,
    event_schema,
    run_of,
)
from timing_logger.live.watcher import Watcher
from timing_logger.schema.sidecar import NOT_TOLD

SLOW = Verdict(
    verdict="rank", ranks=(2,), operation="DATA", owner="machine", window="ongoing", first_iteration=70,
    cost_ms=900.0, cost_share=0.3,
)  # fmt: skip
HANGS = Verdict(verdict="hang", end=RunEnd(state="hang", culprits=(3, 1), sentences=("The run hangs.",)))
RUN = WatchedRun("slurm-17.0", "17", 4, {0: "n1", 1: "n1", 2: "n2", 3: "n2"})


def began(verdict: Verdict, unix_s: float = 0.0) -> Change:
    return Change("begins", verdict, verdict.first_iteration, verdict.first_epoch, unix_s)


def told_in_turn(*verdicts: Verdict) -> list[Event]:
    """Return the events of a run that is found so, at one look after the other, a second apart."""
    changes = Changes()
    told = [changes.after(verdict, float(at)) for at, verdict in enumerate(verdicts)]
    return [event_of(change, RUN) for change in told if change]


def check(event: Event) -> Any:
    """Check an event as a receiver gets it against the schema."""
    received = json.loads(event_line(event))
    jsonschema.validate(received, event_schema(), format_checker=jsonschema.FormatChecker())
    return received


def test_a_slow_rank_is_told_with_its_node_its_run_its_job_and_since_when() -> None:
    event = check(event_of(began(SLOW), RUN))
    assert (event["event"], event["change"], event["ranks"]) == ("verdict", "begins", [2])
    assert event["named"] == [{"rank": 2, "node": "n2"}]
    assert (event["hosts"], event["run_id"], event["job_id"]) == (["n2"], "slurm-17.0", "17")
    assert (event["world_size"], event["since_iteration"]) == (4, 70)
    assert event["at"] == event["since"] == "1970-01-01T00:00:00.000+00:00"


def test_a_hang_names_the_ranks_that_the_others_wait_for_and_their_nodes() -> None:
    event = check(event_of(began(HANGS), RUN))
    assert (event["event"], event["ranks"], event["hosts"]) == ("hang", [3, 1], ["n2", "n1"])
    assert event["text"] == "The run hangs."


def test_what_ends_states_since_when_it_was_found() -> None:
    healthy = Verdict(verdict="healthy")
    begins, ends = told_in_turn(SLOW, SLOW, SLOW, healthy, healthy)
    assert begins["at"] == begins["since"] == ends["since"] == "1970-01-01T00:00:01.000+00:00"
    assert (ends["change"], ends["at"]) == ("ends", "1970-01-01T00:00:04.000+00:00")


def test_the_same_event_has_the_same_id_and_another_has_another() -> None:
    once, twice, other = (event_of(began(SLOW, at), RUN) for at in (1.0, 1.0, 2.0))
    assert once["id"] == twice["id"] != other["id"]
    assert re.fullmatch("[0-9a-f]{16}", once["id"])


def test_what_is_not_known_is_null_or_empty_and_the_schema_knows_it() -> None:
    unknown = Verdict(verdict="rank", ranks=(5,), cost_ms=math.nan, cost_share=math.nan)
    event = check(event_of(began(unknown), WatchedRun()))
    assert event["named"] == [{"rank": 5, "node": None}]
    assert (event["run_id"], event["job_id"], event["world_size"]) == ("", "", None)
    assert event["cost_ms"] is event["cost_share"] is event["since_iteration"] is None


def test_an_epoch_is_stated_where_iterations_restart() -> None:
    restarts = Verdict(verdict="rank", ranks=(2,), first_iteration=3, first_epoch=1)
    assert check(event_of(began(restarts), RUN))["since_epoch"] == 1
    assert "since_epoch" not in event_of(began(SLOW), RUN)


def test_what_the_source_of_an_import_does_not_tell_is_stated() -> None:
    imported = {"kind": "inspector", "not_told": ["own work", "end", "sizes"]}
    run = run_of([{"rank": 2, "sidecar": {"imported": imported}}])
    assert check(event_of(began(SLOW), run))["not_told"] == [
        {"kind": "inspector", "name": name, "text": NOT_TOLD[name]} for name in ("own work", "end")
    ]
    assert check(event_of(began(SLOW), RUN))["not_told"] == []


def test_of_very_many_ranks_the_first_are_named_with_their_nodes() -> None:
    crowd = Verdict(verdict="role", ranks=tuple(range(1_000)))
    event = check(event_of(began(crowd), RUN))
    assert (len(event["ranks"]), len(event["named"])) == (1_000, MOST_NAMED)


def test_the_keys_of_an_event_are_those_of_the_table_in_its_order() -> None:
    restarts = Verdict(verdict="rank", ranks=(2,), first_iteration=3, first_epoch=1)
    assert list(event_of(began(restarts), RUN)) == [key.name for key in KEYS]


def test_the_table_in_the_documentation_is_that_of_the_code() -> None:
    page = (ROOT / "docs" / "events.md").read_text("utf-8")
    rows = "\n".join(f"| `{key.name}` | {key.meaning} |" for key in KEYS)
    assert f"| key | what it holds |\n|---|---|\n{rows}\n\n" in page


def test_the_schema_in_the_documentation_is_that_of_the_code() -> None:
    stored = json.loads((ROOT / "docs" / "events.schema.json").read_text("utf-8"))
    assert stored == event_schema()


def test_the_event_in_the_documentation_is_one_of_this_version() -> None:
    page = (ROOT / "docs" / "events.md").read_text("utf-8")
    (shown,) = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    event = check(json.loads(shown))
    assert list(event) == [key.name for key in KEYS if key.name in event]


@pytest.mark.slow("hosts of events are quick on made sidecars")
@pytest.mark.parametrize("environment", [{}, {"SLURM_JOB_ID": "99"}])
def test_the_ranks_of_a_real_run_are_on_the_hosts_of_their_sidecars(environment: dict[str, str]) -> None:
    snapshot = Watcher(SAMPLE).snapshot()
    run = run_of(snapshot.files, environment)
    assert (run.world_size, run.hosts) == (4, dict.fromkeys(range(4), "vm"))
    assert run.job_id == environment.get("SLURM_JOB_ID", "")
