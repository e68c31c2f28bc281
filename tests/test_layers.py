"""Imports go one way: the halves share the schema only, and nothing heavy loads at import."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest
from processes import run_python

ROOT = Path(__file__).parent.parent

SCHEMA = [
    "timing_logger.errors",
    "timing_logger.record",
    "timing_logger._typed_json",
    "timing_logger._descriptors",
    "timing_logger.run_info",
]
ONLINE = [
    *SCHEMA,
    "timing_logger._clock",
    "timing_logger._processes",
    "timing_logger._termination",
    "timing_logger.sampling",
    "timing_logger._options",
    "timing_logger.sinks",
    "timing_logger._channel",
    "timing_logger._engine_threads",
    "timing_logger._device.accelerator",
    "timing_logger._device.stream_marks",
    "timing_logger._device.devices",
    "timing_logger._device.intervals",
    "timing_logger._device.anchors",
    "timing_logger._device.clock",
    "timing_logger._device.rows",
    "timing_logger._device",
    "timing_logger._calls",
    "timing_logger._open_calls",
    "timing_logger._hang_watch",
    "timing_logger._sidecar",
    "timing_logger._span",
    "timing_logger._recorder",
    "timing_logger._flusher",
    "timing_logger.logger",
    "timing_logger.global_logger",
    "timing_logger.timers._interval_sums",
    "timing_logger.timers._region_settings",
    "timing_logger.timers._region_timer",
    "timing_logger.timers.regions",
    "timing_logger.timers.cuda_timers",
    "timing_logger.timers",
    "timing_logger.profilers._loader_names",
    "timing_logger.profilers._timed_loader",
    "timing_logger.profilers._scalar_windows",
    "timing_logger.profilers._runtime_options",
    "timing_logger.profilers._runtime_blocks",
    "timing_logger.profilers",
    "timing_logger.integrations._run_logger",
    "timing_logger.integrations._phases",
    "timing_logger.integrations._callback",
    "timing_logger.integrations._lightning_hooks",
    "timing_logger.integrations.pytorch_lightning",
    "timing_logger.integrations.lightning",
    "timing_logger.integrations.huggingface",
    "timing_logger.integrations",
    "allreduce_instrumentation._operation_counts",
    "allreduce_instrumentation.mpi._constants",
    "allreduce_instrumentation.mpi._buffer_size",
    "allreduce_instrumentation.mpi._comm_identity",
    "allreduce_instrumentation.mpi._operations",
    "allreduce_instrumentation.mpi._pending",
    "allreduce_instrumentation.mpi._calls",
    "allreduce_instrumentation.mpi._requests",
    "allreduce_instrumentation.mpi._matched_messages",
    "allreduce_instrumentation.mpi._timed_methods",
    "allreduce_instrumentation.mpi.communicators",
    "allreduce_instrumentation.mpi",
    "allreduce_instrumentation._timed_work",
    "allreduce_instrumentation.copies",
    "allreduce_instrumentation.process_group._backends",
    "allreduce_instrumentation.process_group._group_identity",
    "allreduce_instrumentation.process_group._layer_names",
    "allreduce_instrumentation.process_group._compilation",
    "allreduce_instrumentation.process_group._methods",
    "allreduce_instrumentation.process_group._gloo_threads",
    "allreduce_instrumentation.process_group._future_callbacks",
    "allreduce_instrumentation.process_group._operations",
    "allreduce_instrumentation.process_group._backward_waits",
    "allreduce_instrumentation.process_group._works",
    "allreduce_instrumentation.process_group._backend_durations",
    "allreduce_instrumentation.process_group._timing",
    "allreduce_instrumentation.process_group._issue",
    "allreduce_instrumentation.process_group._common_calls",
    "allreduce_instrumentation.process_group._timed_group",
    "allreduce_instrumentation.process_group._world",
    "allreduce_instrumentation.process_group.existing_groups",
    "allreduce_instrumentation.process_group.initialization",
    "allreduce_instrumentation.process_group",
    "allreduce_instrumentation.clock_sync._estimate",
    "allreduce_instrumentation.clock_sync._links",
    "allreduce_instrumentation.clock_sync._mpi_link",
    "allreduce_instrumentation.clock_sync._direct",
    "allreduce_instrumentation.clock_sync._group_link",
    "allreduce_instrumentation.clock_sync._ping_pong",
    "allreduce_instrumentation.clock_sync.synchronisation",
    "allreduce_instrumentation.clock_sync",
    "allreduce_instrumentation._selection",
    "allreduce_instrumentation._payloads",
    "allreduce_instrumentation._error_feedback",
    "allreduce_instrumentation.compressors",
    "allreduce_instrumentation.allreducers._mpi_transport",
    "allreduce_instrumentation.allreducers._group_transport",
    "allreduce_instrumentation.allreducers._transport",
    "allreduce_instrumentation.allreducers._agreement",
    "allreduce_instrumentation.allreducers._timed_compressor",
    "allreduce_instrumentation.allreducers._call",
    "allreduce_instrumentation.allreducers._regions",
    "allreduce_instrumentation.allreducers._thresholds",
    "allreduce_instrumentation.allreducers.dense",
    "allreduce_instrumentation.allreducers.topk",
    "allreduce_instrumentation.allreducers.gtopk",
    "allreduce_instrumentation.allreducers.oktopk",
    "allreduce_instrumentation.allreducers",
    "allreduce_instrumentation.optimizer._mpi_ranks",
    "allreduce_instrumentation.optimizer._group_ranks",
    "allreduce_instrumentation.optimizer._ranks",
    "allreduce_instrumentation.optimizer._buckets",
    "allreduce_instrumentation.optimizer._bucket_means",
    "allreduce_instrumentation.optimizer._all_reducer",
    "allreduce_instrumentation.optimizer._broadcast",
    "allreduce_instrumentation.optimizer._gradient_passes",
    "allreduce_instrumentation.optimizer.distributed_optimizer",
    "allreduce_instrumentation.optimizer",
]
OFFLINE = [
    *SCHEMA,
    "timing_logger._drafts",
    "timing_logger._parsing",
    "timing_logger._parquet",
    "timing_logger._clock_course",
    "timing_logger._file_flaws",
    "timing_logger._alignment",
    "timing_logger._cores",
    "timing_logger._freed_memory",
    "timing_logger._chunks",
    "timing_logger._inflight",
    "timing_logger._arrow_scan",
    "timing_logger._duckdb_scan",
    "timing_logger._plain_files",
    "timing_logger._missing_parts",
    "timing_logger._sources",
    "timing_logger._runs_of_job",
    "timing_logger._dask_table",
    "timing_logger.reading",
    "timing_logger._selection",
    "timing_logger.converting",
    "timing_logger.analysis",
    "timing_logger.watching",
    "timing_logger._workers",
    "timing_logger._file_by_file",
    "timing_logger._rows_on_disk",
    "timing_logger._blocks",
    "timing_logger._questions",
    "timing_logger.report",
    "timing_logger._commands",
    "timing_logger.cli",
    "timing_logger.__main__",
]
TABLES_OF_CONTENTS = ["timing_logger", "allreduce_instrumentation"]


@functools.cache
def modules() -> dict[str, Path]:
    """Every module of both packages by its dotted name."""
    found = {}
    for package in ("timing_logger", "allreduce_instrumentation"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported_by(path: Path) -> set[str]:
    """Names of our modules that the file imports anywhere, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module}
    return {name for name in names if name in modules()}


def layer(module: str, order: list[str]) -> int | None:
    """Where in ``order`` the module, or the package that holds it, stands."""
    places = [i for i, name in enumerate(order) if module == name or module.startswith(name + ".")]
    return places[0] if places else None


@pytest.mark.parametrize("module", [name for name in modules() if name not in TABLES_OF_CONTENTS])
def test_a_module_imports_only_from_layers_to_its_left(module: str) -> None:
    order = next((order for order in (ONLINE, OFFLINE) if layer(module, order) is not None), None)
    assert order is not None, f"{module} stands in no layer"
    own = layer(module, order)
    for other in imported_by(modules()[module]) - set(TABLES_OF_CONTENTS):
        place = layer(other, order)
        assert place is not None, f"{module} imports {other} of the other half"
        assert own is not None
        assert place <= own, f"{module} imports {other}, to its right"


def test_no_layer_is_imaginary() -> None:
    assert {name for name in ONLINE + OFFLINE if name not in modules()} == set()


@pytest.mark.parametrize("package", TABLES_OF_CONTENTS)
def test_importing_brings_nothing_heavy(package: str) -> None:
    run = run_python(
        f"""
        import sys
        import {package}
        heavy = {{"torch", "mpi4py", "numpy", "pandas", "narwhals", "rich", "plotly", "matplotlib"}}
        print(sorted(heavy & set(sys.modules)))
        """
    )
    assert run.stdout == "[]\n", run.stderr


@pytest.mark.parametrize("package", TABLES_OF_CONTENTS)
def test_every_public_name_can_be_had(package: str) -> None:
    run = run_python(f"import {package}; [getattr({package}, name) for name in {package}.__all__]")
    assert run.returncode == 0, run.stderr
