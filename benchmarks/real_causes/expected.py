"""What is to be said of each scenario, and how a verdict is scored against it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

Score = Literal["right", "untold", "wrong"]

_CAUSES_BY_FACT = {"uneven-work"}
_CAUSES_BY_OPERATION = {"GC", "COMPILE", "CHECKPOINT"}
_CAUSES_BY_VERDICT = {"communication"}
_MACHINE, _WORK = {"machine"}, {"work"}


class Expected(NamedTuple):
    """What is right.

    Attributes:
        ranks: which ranks are slow; nobody if there are none.
        causes: any of these is the cause; empty if none can be told from what is recorded.
        owners: whose matter it is.
        besides: what may be told as well, and is not enough.
        seconds: for how long the job is to run: what all ranks share takes long to be told from chance.
    """

    ranks: tuple[int, ...]
    causes: set[str]
    owners: set[str]
    besides: frozenset[str] = frozenset()
    seconds: float = 40.0


EXPECTED = {
    "healthy": Expected((), set(), {""}, frozenset({"processor-wait"})),  # most ranks share a core
    "collector": Expected((), {"GC"}, {""}),
    "compilation": Expected((1,), {"COMPILE"}, _MACHINE),
    "burner": Expected((1,), {"processor-wait"}, _MACHINE),
    "quota": Expected((1,), {"cpu-quota"}, _MACHINE),
    "crowd": Expected((), {"processor-wait"}, {""}, seconds=130.0),
    "faults": Expected((1,), {"memory-wait", "disk-wait"}, _MACHINE),
    "memory": Expected((1,), {"memory-wait"}, _MACHINE),
    "disk": Expected((1,), {"disk-wait"}, _MACHINE),
    "write_back": Expected((1,), {"disk-wait"}, _MACHINE),
    "checkpoint": Expected((0,), {"CHECKPOINT", "disk-wait"}, _MACHINE),
    "asleep": Expected((1,), set(), _MACHINE),
    "network": Expected((), {"communication"}, {""}),
    "loss": Expected((), {"network-loss"}, {""}, frozenset({"communication"}), seconds=130.0),
    "device_clock": Expected((1,), {"device-clock"}, _MACHINE),
    "longer": Expected((1,), set(), _WORK),
    "packed": Expected((), {"uneven-work"}, _WORK),
    "experts": Expected((1,), set(), _WORK),
}
"""By the scenario's name. An owner that is "unknown" is never wrong."""


def causes_told(verdict: Mapping[str, Any]) -> set[str]:
    """Return the causes that a verdict, as ``stragglers --json`` prints it, names."""
    told = {fact["fact"] for fact in verdict["evidence"]} & _CAUSES_BY_FACT
    told |= {fact["operation"] for fact in verdict["evidence"] if fact["fact"] == "pauses"}
    if verdict.get("cause"):
        told.add(verdict["cause"]["name"])
    told |= {verdict["verdict"]} & _CAUSES_BY_VERDICT
    return told | ({verdict["operation"]} & _CAUSES_BY_OPERATION)


def scored(verdict: Mapping[str, Any], expected: Expected) -> Score:
    """Tell whether a verdict names the right ranks, owner and cause, less than that, or others."""
    named, told, owner = set(verdict["ranks"]), causes_told(verdict), verdict["owner"]
    contradicts = (owner, expected.owners) in (("machine", _WORK), ("work", _MACHINE))
    if named - set(expected.ranks) or told - expected.causes - expected.besides or contradicts:
        return "wrong"
    is_told = not expected.causes or bool(told & expected.causes)
    is_whose = owner in expected.owners or expected.owners == _MACHINE
    return "right" if named == set(expected.ranks) and is_told and is_whose else "untold"
