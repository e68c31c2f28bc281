"""Tell what changes in a run in progress: somebody is found slow, it is another, it is over.

Who is named is told, a suspect is not, and nothing is told twice. The verdict on the last seconds may be
another at the next look, so it takes two looks in succession that say the same, of which the first may only
suspect; but a hang, and its end, is told at once.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from timing_logger.results import criteria
from timing_logger.results.verdict import Verdict

Kind = Literal["begins", "changes", "ends"]

_TOLD = frozenset({"rank", "role"})
"""The verdicts that name who is slower than others at the same time.

That all ranks or all transfers are slower than before shows only as long as the time before is looked at."""


_OVER = "bounded"  # the window of what ended before the last step


class Change(NamedTuple):
    """A change of what is found.

    Attributes:
        kind: what is told of it.
        verdict: what begins, what it changes into, or what ends.
        first_iteration, first_epoch: the first slow step, as it was known when it began; None if unknown.
        unix_s: when it was seen, in seconds since 1970.
        began_unix_s: when it was told that these ranks are found, likewise; None if that is ``unix_s``.
    """

    kind: Kind
    verdict: Verdict
    first_iteration: int | None
    first_epoch: int | None
    unix_s: float
    began_unix_s: float | None = None


class FoundVerdict(NamedTuple):
    """What makes one verdict another: not its figures, which are others at each look.

    Attributes:
        verdict: what is found; "hang" for a hang.
        ranks: who is named.
        operation, owner: as of the verdict; "" for a hang.
    """

    verdict: str
    ranks: tuple[int, ...]
    operation: str
    owner: str


class Changes:
    """Follows the verdicts on a run.

    Args:
        told: what another told of the run until now, and is not over. It is not told again; its end is only
            seen by :attr:`something_stands`.
    """

    def __init__(self, told: FoundVerdict | None = None) -> None:
        self._standing: Change | None = None
        self._told: FoundVerdict | None = told
        self._seen: FoundVerdict | None = None
        self._n_seen = 0
        self._likely: frozenset[tuple[int, ...]] = frozenset()

    @property
    def something_stands(self) -> bool:
        """Whether somebody was told and it is not over."""
        return self._told is not None

    def after(self, verdict: Verdict, unix_s: float) -> Change | None:
        """Return what changes with a further look; None if nothing does.

        Args:
            verdict: the verdict on the last seconds.
            unix_s: when it was reached, in seconds since 1970.
        """
        now = _found(verdict)
        was_likely = now is not None and now.ranks in self._likely
        self._n_seen = self._n_seen + 1 if now == self._seen else 1 + was_likely
        self._seen = now
        self._likely = frozenset(
            one.ranks for one in verdict.suspects if one.likelihood >= criteria.MOST_SHARE
        )
        at_once = _hangs(now) or _hangs(self._told)
        if now == self._told or (self._n_seen < criteria.LOOKS_UNTIL_TOLD and not at_once):
            return None
        change = self._change(verdict, now, unix_s)
        self._told, self._standing = now, change if now else None
        return change

    def _change(self, verdict: Verdict, now: FoundVerdict | None, unix_s: float) -> Change | None:
        before = self._standing
        if now is None:
            return before and before._replace(kind="ends", unix_s=unix_s)
        if before is None or before.verdict.ranks != verdict.ranks:
            kind: Kind = "begins" if before is None else "changes"
            return Change(kind, verdict, verdict.first_iteration, verdict.first_epoch, unix_s, unix_s)
        return before._replace(kind="changes", verdict=verdict, unix_s=unix_s)


def _found(verdict: Verdict) -> FoundVerdict | None:
    """Return what stands at the end of the time that a verdict is on; None if nobody is named."""
    if verdict.end.hangs:
        return FoundVerdict("hang", verdict.end.culprits, "", "")
    if verdict.verdict not in _TOLD or verdict.window == _OVER:
        return None
    return FoundVerdict(verdict.verdict, verdict.ranks, verdict.operation, verdict.owner)


def _hangs(found: FoundVerdict | None) -> bool:
    return found is not None and found.verdict == "hang"
