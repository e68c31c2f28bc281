"""Random tests are not red by chance: they have the same examples in every run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st


def test_random_tests_have_the_same_examples_in_every_run(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--hypothesis-profile"):
        pytest.skip("others were asked for")
    seen: list[int] = []

    @given(st.integers())
    def looks_at(number: int) -> None:
        seen.append(number)

    looks_at()
    first, seen[:] = seen.copy(), []
    looks_at()
    assert seen == first
