"""Classes over those of a core."""

from __future__ import annotations

import pytest
from both_cores import BuiltCore

from timing_logger.recording.cores.core import over


class Counted:
    """Counts."""

    OWN = ("count",)
    __slots__ = ()


def test_a_class_over_one_of_a_core_is_made_once_for_each(each_core: BuiltCore) -> None:
    made = over(Counted, each_core.classes.Caller)
    assert over(Counted, each_core.classes.Caller) is made
    assert over(Counted, each_core.classes.Span) is not made
    assert issubclass(made, (Counted, each_core.classes.Caller))
    assert issubclass(made, each_core.classes.Caller)


def test_it_is_told_apart_by_name_and_holds_what_is_its_own_alone(each_core: BuiltCore) -> None:
    made = over(Counted, each_core.classes.Span)
    assert (made.__name__, made.__doc__) == ("Counted", "Counts.")
    span = made.__new__(made)
    span.count = 3  # type: ignore[attr-defined]
    with pytest.raises(AttributeError):
        span.other = 3  # type: ignore[attr-defined]
