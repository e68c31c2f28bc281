"""What a run would have taken with something repaired."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from timing_logger.errors import FixError
from timing_logger.results.facts import Reason

Kind = Literal[
    "rank", "host", "operation", "without", "cause", "transfers", "work", "bytes", "bucket", "group"
]

_ONLY_VALUE = {"transfers": "usual", "work": "even"}
_OTHER_NAMES = {"phase": "operation"}


class Fix(NamedTuple):
    """A repair: of what, and of which one.

    Attributes:
        kind: ``rank``: the rank is like its peers, in all steps. ``host``: so are all ranks of a host.
            ``operation``: it takes on each rank and in each step what is usual. ``without``: the operation
            takes no time at all. ``cause``: nobody stops for it, where it is a pause that is recorded, such
            as ``GC``; else it is a cause that the verdict names, and its ranks are like their peers in their
            slow steps. ``transfers``: transfers of slow links take what is usual. ``work``: in each step, all
            ranks of a role have equally much to do. ``bytes``: each transfer has this fraction of its bytes.
            ``bucket``: collectives move what they moved in messages of so many bytes. ``group``: each
            collective is among so many ranks.
        value: the rank, the host, the operation or the cause; ``usual`` for transfers, ``even`` for work; a
            number for the last three, in bytes for ``bucket``, which kB, MB or GB may follow.
    """

    kind: Kind
    value: str

    def __str__(self) -> str:
        return f"{self.kind}={self.value}"

    @classmethod
    def parse(cls, text: str) -> Fix:
        """Return the repair that a text such as ``rank=2`` names.

        Raises:
            FixError: it names none.
        """
        name, _, value = text.partition("=")
        kind = _OTHER_NAMES.get(name, name)
        if kind not in get_args(Kind) or not value:
            raise FixError(f"fix={text!r}: say what is repaired, {_SAID}")
        if value != _ONLY_VALUE.get(kind, value):
            raise FixError(f"fix={text!r}: say {kind}={_ONLY_VALUE[kind]}")
        fix = cls(kind, value)  # type: ignore[arg-type]
        if kind in _NUMBERS and not fix.number > 0 and value != "0":
            raise FixError(f"fix={text!r}: say a number, such as {_NUMBERS[kind]}")
        return fix

    @property
    def number(self) -> float:
        """The value as a number; NaN if it is none."""
        match = _NUMBER.fullmatch(self.value)
        if match is None or (self.kind in ("rank", "group") and not self.value.isdecimal()):
            return float("nan")
        return float(match[1]) * _UNITS[match[2]]


_NUMBERS = {"rank": "rank=2", "bytes": "bytes=0.5", "bucket": "bucket=25MB", "group": "group=4"}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(|kB|KB|MB|GB)")
_UNITS = {"": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9}

_SAID = (
    "such as rank=2, host=node9, operation=DATA, without=SAVE, cause=GC, transfers=usual, work=even, "
    "bytes=0.5, bucket=25MB or group=4; several are repaired together"
)


@dataclass(frozen=True, kw_only=True)
class Slowest:
    """Who would cost the run most, then.

    Attributes:
        rank: the rank.
        operation: the operation in which it takes most beyond its peers; "" if that is unknown.
        cost_ms: by how much the run would be shorter still with this rank like its peers, in ms.
    """

    rank: int
    operation: str
    cost_ms: float


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """What a run would have taken with something repaired.

    Attributes:
        fixes: what is repaired, all of it together.
        run_ms: how long the run was, in ms.
        gain_ms: by how much it would have been shorter, in ms.
        gain_low_ms, gain_high_ms: a run made again with this repaired would be shorter by an amount between
            these, with 95% confidence: by how much the steps of the run as repaired differ from each other,
            and by what playing the run again does not reproduce.
        assumed_gain_ms: where no rank had now more and now less to do, so that the run does not tell how its
            times grow with the work (``work=even``): the least and the greatest gain by what may be so. The
            least is that if ranks with more to do are only slow; the greatest that if the others take no
            longer with the work that they take over. ``gain_ms`` takes times to grow as from the ranks with
            less to those with more, and the interval above spans all of it. None where nothing is assumed.
        slowest: who would cost most then; None if nobody would cost 1% of the run.
        why_unjudged: why nobody could be judged in this run, such as that ranks have no rows; None if that is
            not so.
        plays_again: whether the run was played again. If not, its rows do not show who waits for whom in all
            of it, and each step is taken to be as long as its slowest rank works.
    """

    fixes: tuple[Fix, ...]
    run_ms: float
    gain_ms: float
    gain_low_ms: float
    gain_high_ms: float
    assumed_gain_ms: tuple[float, float] | None
    slowest: Slowest | None
    why_unjudged: Reason | None
    plays_again: bool

    @property
    def gain_share(self) -> float:
        """The gain as a fraction of the run."""
        return self.gain_ms / self.run_ms if self.run_ms > 0 else 0.0
