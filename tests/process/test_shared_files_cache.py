"""Where libraries lie that are built on the user's machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from timing_logger.process.shared_files import library_path


def test_it_is_in_the_cache_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    path = library_path("mpi", ["source"])
    assert path.parent == Path("/cache/timing_logger")
    assert path.name.startswith("mpi-")
    assert (len(path.stem), path.suffix) == (len("mpi-") + 16, ".so")


@pytest.mark.parametrize("named", [None, ""])
def test_else_it_is_in_the_cache_at_home(monkeypatch: pytest.MonkeyPatch, named: str | None) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if named is not None:
        monkeypatch.setenv("XDG_CACHE_HOME", named)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert library_path("mpi", []).parent == Path("/home/somebody/.cache/timing_logger")


def test_what_is_made_of_other_texts_is_another_library() -> None:
    made_of = [["a", "b"], ["ab"], ["b", "a"], ["a"], ["a", "b", ""]]
    assert len({library_path("mpi", texts) for texts in made_of}) == len(made_of)
    assert library_path("mpi", iter(["a", "b"])) == library_path("mpi", ["a", "b"])
