"""Random tests are not red by chance: they have the same examples in every run."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st


def test_random_tests_have_the_same_examples_in_every_run(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--hypothesis-profile") == "new-examples":
        pytest.skip("others were asked for")
    seen: list[int] = []

    @given(st.integers())
    def looks_at(number: int) -> None:
        seen.append(number)

    looks_at()
    first, seen[:] = seen.copy(), []
    looks_at()
    assert seen == first


def test_examples_are_the_same_whatever_modules_were_imported_before(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Hypothesis tries the constants that it finds in modules of the project."""
    if request.config.getoption("--hypothesis-profile") == "new-examples":
        pytest.skip("others were asked for")
    seen: list[int] = []

    @given(st.lists(st.integers(), min_size=20))
    def looks_at(numbers: list[int]) -> None:
        seen.extend(numbers)

    looks_at()
    first, seen[:] = seen.copy(), []
    later = ModuleType("imported_later")
    later.__file__ = str(tmp_path / "imported_later.py")
    Path(later.__file__).write_text("\n".join(f"NUMBER_{n} = {987_654_000 + n}" for n in range(100)))
    monkeypatch.setitem(sys.modules, "imported_later", later)
    looks_at()
    assert seen == first
