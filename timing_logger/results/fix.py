"""What may be repaired in a run."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple, get_args

from timing_logger.errors import FixError

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
