"""What changes in a run, as an event: one JSON object, the same for everybody who is told.

:data:`KEYS` says what an event holds; ``docs/events.md`` and ``docs/events.schema.json`` state the same, and
a test compares them.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, get_args

from timing_logger.analysis.rows.files import File, hosts_of, not_told, sidecar_of
from timing_logger.engine.changes import Change, FoundVerdict, Kind
from timing_logger.process.launchers import Environment
from timing_logger.report.json import strict_json
from timing_logger.results.verdict import Owner, Verdict, VerdictKind
from timing_logger.words.not_told import not_told_values
from timing_logger.words.verdict import verdict_sentence, what_next

VERSION = 1

MOST_NAMED = 64
"""Of how many ranks an event states the node: more hosts than anybody looks at by hand."""

Event: TypeAlias = "dict[str, Any]"
"""An event as plain values, under the names of :data:`KEYS`."""

_Schema: TypeAlias = Mapping[str, object]


class Key(NamedTuple):
    """A key of an event.

    Attributes:
        name: the key.
        schema: the values that it may have, in JSON Schema.
        meaning: what it holds, in a line of Markdown.
        always: whether every event has it.
    """

    name: str
    schema: _Schema
    meaning: str
    always: bool = True


def _one_of(*values: str) -> _Schema:
    return {"type": "string", "enum": list(values)}


def _list_of(items: _Schema) -> _Schema:
    return {"type": "array", "items": items}


def _list_of_objects(**properties: _Schema) -> _Schema:
    return _list_of({"type": "object", "properties": properties, "required": list(properties)})


def _or_null(kind: str) -> _Schema:
    return {"type": [kind, "null"]}


_TEXT: _Schema = {"type": "string"}
_INSTANT: _Schema = {"type": "string", "format": "date-time"}
_RANK: _Schema = {"type": "integer", "minimum": 0}

_AS_ASKED = "as in `stragglers --json`"

KEYS: tuple[Key, ...] = (
    Key("version", {"const": VERSION}, "another one once a key goes or means something else"),
    Key("id", _TEXT, "tells the event from others; if it comes twice, it has the same"),
    Key("event", _one_of("verdict", "hang"), "`verdict`, or `hang`"),
    Key("change", _one_of(*get_args(Kind)),
        "`begins`, `changes` or `ends`; what ends is told as it was when it last changed"),
    Key("at", _INSTANT, "when it was seen, in UTC"),
    Key("since", _INSTANT, "when these ranks were first told, in UTC; the same as `at` for what begins"),
    Key("run_id", _TEXT, "the run, as in the sidecars; empty if they do not say"),
    Key("job_id", _TEXT, "the job, as the batch system calls it; empty if it is not known"),
    Key("world_size", _or_null("integer"), "the number of ranks; null if it is not known"),
    Key("verdict", _one_of(*get_args(VerdictKind)), _AS_ASKED),
    Key("ranks", _list_of(_RANK),
        "the ranks to look at, the costliest first; of a hang, those that the others wait for"),
    Key("named", _list_of_objects(rank=_RANK, node=_or_null("string")),
        f"the first {MOST_NAMED} of them, each with its `rank`, and the `node` that it runs on or null"),
    Key("hosts", _list_of(_TEXT), "the hosts of `ranks`; empty where all ranks run on one host"),
    Key("operation", _TEXT, f"the operation in which the time is lost, {_AS_ASKED}"),
    Key("owner", _one_of(*get_args(Owner)), f"what the delay is due to, {_AS_ASKED}"),
    Key("cause", _or_null("string"), f"what coincides, {_AS_ASKED}; null if nothing does"),
    Key("since_iteration", _or_null("integer"), "the first slow step; null if it is not known"),
    Key("since_epoch", {"type": "integer"}, "its epoch; there only where iterations restart", always=False),
    Key("cost_ms", _or_null("number"), "what it costs the seconds that were looked at, in ms"),
    Key("cost_share", _or_null("number"), "the same as a fraction of them, 0 to 1"),
    Key("text", _TEXT, "what is found, in words"),
    Key("next", _TEXT, "what to look at next, in words; may be empty"),
    Key("not_told", _list_of_objects(kind=_TEXT, name=_TEXT, text=_TEXT),
        f"what the source of an imported run does not tell, {_AS_ASKED}; empty for any other run"),
)  # fmt: skip
"""All keys of an event, in the order in which it has them."""


def event_of(change: Change, run: WatchedRun) -> Event:
    """Return the event that tells a change in a run."""
    verdict, hangs = change.verdict, change.verdict.end.hangs
    ranks = verdict.end.culprits if hangs else verdict.ranks
    began = change.unix_s if change.began_unix_s is None else change.began_unix_s
    content = {
        "event": "hang" if hangs else "verdict",
        "change": change.kind,
        "at": _in_utc(change.unix_s),
        "since": _in_utc(began),
        "run_id": run.run_id,
        "job_id": run.job_id,
        "world_size": run.world_size,
        "verdict": verdict.verdict,
        "ranks": list(ranks),
        "named": [{"rank": rank, "node": run.hosts.get(rank) or None} for rank in ranks[:MOST_NAMED]],
        "hosts": run.hosts_of_ranks(ranks),
        "operation": verdict.operation,
        "owner": verdict.owner,
        "cause": verdict.cause and verdict.cause.name,
        "since_iteration": change.first_iteration,
        **({} if change.first_epoch is None else {"since_epoch": change.first_epoch}),
        "cost_ms": verdict.cost_ms,
        "cost_share": verdict.cost_share,
        "text": what_is_found(verdict),
        "next": what_next(verdict),
        "not_told": not_told_values("watch", run.not_told),
    }
    return _with_id(content)


def found_in(event: Event) -> FoundVerdict:
    """Return what an event says is found."""
    if event["event"] == "hang":
        return FoundVerdict("hang", tuple(event["ranks"]), "", "")
    return FoundVerdict(event["verdict"], tuple(event["ranks"]), event["operation"], event["owner"])


def end_of(event: Event, unix_s: float) -> Event:
    """Return the event that tells that it is over what an event told.

    Args:
        event: what was told, maybe by another process.
        unix_s: when that was seen, in seconds since 1970.
    """
    content = {**event, "change": "ends", "at": _in_utc(unix_s)}
    del content["version"], content["id"]
    return _with_id(content)


def event_line(event: Event) -> str:
    """Return an event as strict JSON in one line, without the end of the line."""
    return strict_json(event)


def event_schema() -> dict[str, object]:
    """Return the JSON Schema of an event."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What changes in a run in progress",
        "type": "object",
        "properties": {key.name: {**key.schema, "description": key.meaning} for key in KEYS},
        "required": [key.name for key in KEYS if key.always],
    }


def _in_utc(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, timezone.utc).isoformat(timespec="milliseconds")


def _with_id(content: Event) -> Event:
    """Return an event with its ``id``, which is the same for the same event, and tells it from all others."""
    digest = hashlib.sha256(strict_json(content).encode()).hexdigest()
    return {"version": VERSION, "id": digest[:16], **content}


# -- a change in words -----------------------------------------------------------------------------------


_AS_IT_IS = {"begins": "", "changes": "now: ", "ends": "over: "}


def change_text(change: Change) -> str:
    """Return a change in a line, which begins with the local time."""
    return f"{clock_time(change.unix_s)} {what_changes(change)}"


def what_changes(change: Change) -> str:
    """Return a change in a line, without its time."""
    return f"{_AS_IT_IS[change.kind]}{what_is_found(change.verdict)}"


def clock_time(unix_s: float) -> str:
    """Return the local time of day of an instant that is given in seconds since 1970."""
    return time.strftime("%H:%M:%S", time.localtime(unix_s))


def iso_time(unix_s: float) -> str:
    """Return such an instant for programs, with the offset of the local time from UTC."""
    return datetime.fromtimestamp(unix_s).astimezone().isoformat()


def what_is_found(verdict: Verdict) -> str:
    """Return in sentences what a verdict says of a run in progress, or the hang that came after it."""
    if verdict.end.hangs:
        return " ".join(verdict.end.sentences[:2])
    return verdict_sentence(verdict).removeprefix("Verdict: ")


# -- what its sidecars say of a run, and the environment of a process of its job -------------------------


_NO_ENVIRONMENT: Environment = MappingProxyType({})

_JOB_VARIABLES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID")
"""What Slurm, PBS, LSF and Flux call their jobs in the environment of a job's processes."""

_OF_SLURM = re.compile(r"(?:.*/)?slurm-(\w+)\..*")  # the row of srun in launchers.py


class WatchedRun(NamedTuple):
    """What an event states of the run itself.

    Attributes:
        run_id: the run, as its sidecars call it; "" if they do not.
        job_id: the job that the run is of, as the batch system calls it; "" if it is not known.
        world_size: the number of ranks; None if it is not known.
        hosts: the host of each rank; "" for a rank of which it is not known.
        not_told: what the source of an imported run does not tell, by the kind of the import and the names of
            ``sidecar.NOT_TOLD``.
    """

    run_id: str = ""
    job_id: str = ""
    world_size: int | None = None
    hosts: Mapping[int, str] = MappingProxyType({})
    not_told: Mapping[str, Sequence[str]] = MappingProxyType({})

    def hosts_of_ranks(self, ranks: Sequence[int]) -> list[str]:
        """Return the hosts of these ranks, each once; nothing where all ranks run on one host."""
        if len(set(self.hosts.values())) < 2:
            return []
        return list(dict.fromkeys(host for rank in ranks if (host := self.hosts.get(rank))))


def run_of(files: Iterable[File], environment: Environment = _NO_ENVIRONMENT) -> WatchedRun:
    """Return what is known of a run.

    Args:
        files: its timing files with their sidecars, as ``Snapshot.files`` has them.
        environment: the environment of a process of the run's job, for the name of the job. None is given by
            whoever looks on from elsewhere: he may be in a job of his own.
    """
    known = list(files)
    ids = (sidecar_of(file).get("run_id") for file in known)
    sizes = (sidecar_of(file).get("world_size") for file in known)
    run_id = next(filter(None, ids), "")
    return WatchedRun(
        run_id, _job_of(run_id, environment), max(filter(None, sizes), default=None), hosts_of(known),
        not_told(known),
    )  # fmt: skip


def _job_of(run_id: str, environment: Environment) -> str:
    """Return the job that ``srun`` stated on the ranks, or that a process of the job has as its own."""
    if stated := _OF_SLURM.fullmatch(run_id):
        return stated[1]
    return next((environment[name] for name in _JOB_VARIABLES if environment.get(name)), "")
