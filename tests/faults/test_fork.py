"""P9: a forked child neither hangs nor writes into its parent's file."""

from __future__ import annotations

import importlib.util
import weakref
from pathlib import Path

import pytest
from fault_programs import FORKS_UNDER_LOAD
from processes import rows, run_python, run_warm
from slow import slow

from timing_logger.recording import lifecycle


@pytest.mark.parametrize("forks", [10, slow(500, "the same more often")])
@pytest.mark.both_cores
def test_forks_under_load_leave_the_parents_records_exactly_once(tmp_path: Path, forks: int) -> None:
    run = run_python(FORKS_UNDER_LOAD, tmp_path, forks)
    assert run.returncode == 0, run.stderr
    assert {row[4] for row in rows(tmp_path / "timing-rank0.csv")} == {"PARENT"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["timing-rank0.csv", "timing-rank0.meta.json"]


@pytest.mark.both_cores
def test_a_child_that_leaves_through_sys_exit_writes_nothing_and_does_not_hang(tmp_path: Path) -> None:
    run = run_python(
        """
        import os, sys
        from timing_logger import init_timing_logger, shutdown_timing_logger
        logger = init_timing_logger(0, sys.argv[1], flush_interval=3600)
        logger.record_timing("PARENT", 1.0)
        pid = os.fork()
        if pid == 0:
            logger.record_timing("CHILD", 1.0)
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        shutdown_timing_logger()
        """,
        tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert "after close" not in run.stderr  # the child leaves by its parent's hooks
    assert [row[4] for row in rows(tmp_path / "timing-rank0.csv")] == ["PARENT"]


@pytest.mark.both_cores
def test_a_forked_child_may_make_a_logger_of_its_own_and_loses_nothing(tmp_path: Path) -> None:
    run = run_python(
        """
        import multiprocessing, sys
        from timing_logger import get_timing_logger, init_timing_logger
        def child():
            logger = init_timing_logger(1, sys.argv[1], flush_interval=3600)
            logger.record_timing("CHILD", 1.0)  # and no shutdown
        if __name__ == "__main__":
            init_timing_logger(0, sys.argv[1], flush_interval=3600).record_timing("PARENT", 1.0)
            process = multiprocessing.get_context("fork").Process(target=child)
            process.start()
            process.join()
            assert process.exitcode == 0
        """,
        tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert [row[4] for row in rows(tmp_path / "timing-rank0.csv")] == ["PARENT"]
    assert [row[4] for row in rows(tmp_path / "timing-rank1.csv")] == ["CHILD"]


@pytest.mark.slow("torch's workers are forked children, which are tried")
def test_dataloader_workers_leave_the_file_alone(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs the extra torch")
    run = run_warm(
        """
        import sys
        import torch
        from timing_logger import get_timing_logger, init_timing_logger
        class Data(torch.utils.data.Dataset):
            def __len__(self): return 64
            def __getitem__(self, i):
                with get_timing_logger().record_mpi_operation("WORKER"):
                    return i
        logger = init_timing_logger(0, sys.argv[1], flush_interval=0.001)
        for _ in range(2):
            for batch in torch.utils.data.DataLoader(Data(), batch_size=8, num_workers=2,
                                                     multiprocessing_context="fork"):
                logger.record_timing("PARENT", 1.0)
        """,
        tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert [row[4] for row in rows(tmp_path / "timing-rank0.csv")] == ["PARENT"] * 16


def test_what_a_child_lets_go_of_its_own_children_let_go_of_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of either may be at work in the moment of the fork."""

    class Owner:
        detached = 0

        def detach(self) -> None:
            self.detached += 1

    monkeypatch.setattr(lifecycle, "_detachables", weakref.WeakSet())
    owner = Owner()
    lifecycle.detach_in_forked_children(owner)
    lifecycle._detach_all()
    lifecycle._detach_all()
    assert owner.detached == 2
