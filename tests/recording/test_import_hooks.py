"""A hook on a module is called once it has been imported, and the module is what it would be without."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from timing_logger.recording.import_hooks import after_import


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    before = list(sys.meta_path)
    yield tmp_path
    sys.meta_path[:] = before
    for name in [name for name in sys.modules if name.startswith("hooked")]:
        del sys.modules[name]


def test_the_hook_sees_the_whole_module_once(folder: Path) -> None:
    (folder / "hooked.py").write_text("value = 1\nlast = 2\n")
    seen: list[ModuleType] = []
    after_import("hooked", seen.append)
    assert seen == []
    module = importlib.import_module("hooked")
    importlib.reload(module)
    assert seen == [module]
    assert module.last == 2


def test_a_look_whether_there_is_a_module_leaves_the_hook_for_its_import(folder: Path) -> None:
    """Frameworks look before they import."""
    (folder / "hooked.py").write_text("")
    seen: list[ModuleType] = []
    after_import("hooked", seen.append)
    assert importlib.util.find_spec("hooked") is not None
    assert importlib.util.find_spec("hooked") is not None
    assert [importlib.import_module("hooked")] == seen


def test_a_module_that_is_there_already_is_hooked_at_once(folder: Path) -> None:
    (folder / "hooked.py").write_text("")
    module = importlib.import_module("hooked")
    seen: list[ModuleType] = []
    after_import("hooked", seen.append)
    assert seen == [module]


def test_a_module_within_a_package_is_hooked(folder: Path) -> None:
    (folder / "hooked_package").mkdir()
    (folder / "hooked_package" / "__init__.py").write_text("")
    (folder / "hooked_package" / "part.py").write_text("")
    seen: list[ModuleType] = []
    after_import("hooked_package.part", seen.append)
    importlib.import_module("hooked_package")
    assert seen == []
    assert [importlib.import_module("hooked_package.part")] == seen


def test_the_module_says_of_itself_what_it_says_without_a_hook(folder: Path) -> None:
    for name in ("hooked", "hooked_other"):
        (folder / f"{name}.py").write_text("")
    after_import("hooked", lambda module: None)
    hooked, other = importlib.import_module("hooked"), importlib.import_module("hooked_other")
    assert type(hooked.__loader__) is type(other.__loader__)
    assert hooked.__spec__ is not None
    assert hooked.__spec__.loader is hooked.__loader__


def test_a_module_that_is_not_there_is_not_there(folder: Path) -> None:
    after_import("hooked_nowhere", lambda module: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("hooked_nowhere")


def test_an_error_of_the_module_is_its_own_and_the_hook_is_not_called(folder: Path) -> None:
    (folder / "hooked.py").write_text("1 / 0")
    seen: list[ModuleType] = []
    after_import("hooked", seen.append)
    with pytest.raises(ZeroDivisionError):
        importlib.import_module("hooked")
    assert seen == []
