"""What the entries of the files that were read tell: hosts, cores, and what an import does not tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from timing_logger.analysis.rows.files import (
    File,
    hosts_of,
    laid_end_to_end,
    not_told,
    run_python,
    sidecar_of,
    unread_files,
)


def file(rank: int, incarnation: int = 1, **sidecar: Any) -> File:
    return {"rank": rank, "incarnation": incarnation, "sidecar": sidecar or None}  # type: ignore[typeddict-item]


def imported(names: object, rank: int = 0, kind: str = "otf2", incarnation: int = 1) -> File:
    return file(rank, incarnation, imported={"kind": kind, "not_told": names})


@pytest.mark.parametrize(
    ("cores", "did"),
    [(["native-mpi", "native-mpi"], False), (["native-mpi", "python"], True), (["native"], True),
     (["native-mpi", None], True), ([], True)],
)  # fmt: skip
def test_some_process_ran_python_unless_all_files_are_of_the_native_library(
    cores: list[str | None], did: bool
) -> None:
    assert run_python(file(rank, core=core) for rank, core in enumerate(cores)) == did


def test_a_file_without_a_sidecar_has_an_empty_one() -> None:
    assert sidecar_of({"rank": 0}) == {}
    assert sidecar_of(file(0)) == {}
    assert sidecar_of(file(0, host="a")) == {"host": "a"}


def test_a_rank_has_the_host_that_all_of_its_processes_state() -> None:
    files = [file(0, host="a"), file(0, 2, host="a"), file(1, host="a"), file(1, 2, host="b"), file(2)]
    assert hosts_of([*files, file(3, host=None), file(4), file(4, 2, host="a")]) == {
        0: "a", 1: "", 2: "", 3: "", 4: "",
    }  # fmt: skip


def test_what_sources_do_not_tell_is_named_by_the_kind_of_import_in_one_order() -> None:
    files = [
        imported(["end", "waits"]), imported(["communication", "another"], 1), imported(["end"], 2, "kineto"),
        imported(["another"], 3, "nsys"), imported("end", 4, "text"), imported(None, 5, "none"), file(6),
    ]  # fmt: skip
    assert not_told(files) == {"otf2": ["communication", "waits", "end"], "kineto": ["end"]}
    assert not_told([file(0, host="a")]) == {}


def test_rows_without_instants_lie_end_to_end_but_for_steps_that_follow_each_other() -> None:
    files = [
        imported(["instants"], 0), imported(["instants", "waits"], 1, incarnation=2),
        imported(["instants", "communication"], 2), imported(["waits"], 3), imported("instants", 4), file(5),
    ]  # fmt: skip
    assert laid_end_to_end(files) == {(0, 1), (1, 2)}
    assert laid_end_to_end([{k: v for k, v in files[0].items() if k != "incarnation"}]) == {(0, 1)}  # type: ignore[misc]


def test_of_files_that_are_not_read_again_it_is_known_what_they_state_and_how_they_are_aligned() -> None:
    source: Any = SimpleNamespace(stated=lambda: {"rank": 3, "path": "x.csv"}, second_run="below a header")
    clock: Any = SimpleNamespace(description=lambda: {"alignment": "anchors"})
    assert unread_files([(source, clock)]) == [
        {"rank": 3, "path": "x.csv", "second_run": "below a header", "clock": {"alignment": "anchors"}}
    ]
