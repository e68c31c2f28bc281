"""What sinks raise, and where the reference has them."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module

from places import ROOT

from timing_logger import sinks
from timing_logger.sinks import PartlyWritten

METHODS = ("write", "sync", "close")


def test_the_reference_has_every_sink() -> None:
    modules = [f"{sinks.__name__}.{one.name}" for one in pkgutil.iter_modules(sinks.__path__)]
    found = [
        f"{module}.{name}"
        for module in modules
        if not module.rpartition(".")[2].startswith("_")
        for name, one in inspect.getmembers(import_module(module), inspect.isclass)
        if one.__module__ == module and all(hasattr(one, method) for method in METHODS)
    ]
    page = (ROOT / "website" / "pages" / "api" / "sinks.md").read_text("utf-8")
    assert len(found) >= 4
    assert [name for name in found if f"::: {name}\n" not in page] == [], (
        "website/pages/api/sinks.md lacks it"
    )


def test_a_batch_that_was_written_in_part_says_so_and_why() -> None:
    error = PartlyWritten(3, OSError(28, "No space left on device"))
    assert str(error) == (
        "only 3 records of a batch could be written: OSError(28, 'No space left on device')"
    )
    assert error.records == 3
