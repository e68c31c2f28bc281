"""JSON that was written earlier: what is not of its type is left out, and said where it was."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from timing_logger.schema.typed_json import Checked, Rules, checked


@dataclass
class _Written:
    count: int | None = None
    peer: int = 0
    share: float = 0.0
    named: dict[str, list[int]] | None = None


def read(**content: Any) -> Checked:
    return checked(content, _Written, Rules(signed=("peer",)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 0), ("count", 2**63 - 1), ("count", None), ("peer", -(2**63)), ("share", -1.5),
        ("share", 2), ("named", {"a": [1]}), ("of a later version", object()),
    ],
)  # fmt: skip
def test_a_value_of_its_type_is_kept(name: str, value: object) -> None:
    assert read(**{name: value}) == ({name: value}, [])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", -1), ("count", 2**63), ("count", True), ("count", 1.0), ("peer", -(2**63) - 1),
        ("peer", 2**63), ("share", float("inf")), ("share", -float("inf")), ("share", float("nan")),
        ("share", True), ("share", None), ("named", [1]),
    ],
)  # fmt: skip
def test_a_value_of_another_type_or_that_64_bits_do_not_hold_is_left_out(name: str, value: object) -> None:
    assert read(**{name: value}) == ({}, [name])


def test_of_a_list_only_what_is_wrong_is_left_out_and_its_place_is_told() -> None:
    assert read(named={"a": [1, -1, 2]}) == ({"named": {"a": [1, 2]}}, ["named.a[1]"])


def test_a_hundred_problems_are_told_and_of_each_its_first_200_characters() -> None:
    found = read(named={"a" * 300: [-1] * 101}).problems
    assert (len(found), set(found)) == (100, {("named." + "a" * 300)[:200]})


class _Point(NamedTuple):
    x: int
    y: int


@dataclass
class _Places:
    points: list[_Point] | None = None


@pytest.mark.parametrize(
    ("whole", "kept"), [((), [{"x": 1}, {"x": 1, "y": 2}]), ((_Point,), [{"x": 1, "y": 2}])]
)
def test_an_entry_that_lacks_a_field_is_of_use_unless_it_has_to_be_whole(
    whole: tuple[type, ...], kept: list[dict[str, int]]
) -> None:
    found = checked({"points": [{"x": 1}, {"x": 1, "y": 2}]}, _Places, Rules(whole=whole))
    assert found == ({"points": kept}, ["points[0].y"] if whole else [])
