"""What docs/architecture.md says that only one place does, is done nowhere else: read from the syntax trees.

The docstring of each test is the line of the page that it holds. What is said of imports between packages is
in the contracts of ``pyproject.toml`` (``test_layers.py``).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from places import ROOT

from timing_logger.schema.record import COLUMNS

LOGGER, INSTRUMENTATION = "timing_logger", "allreduce_instrumentation"
RECORDING = [
    INSTRUMENTATION,
    *(
        f"{LOGGER}/{name}"
        for name in ("autologging", "compat", "integrations", "native_mpi", "recording", "sinks")
    ),
]
READING = [
    f"{LOGGER}/{name}"
    for name in ("analysis", "cli", "engine", "live", "reading", "report", "results", "words")
]
TIMES = {"end_counter", "elapsed_ms", "timestamp", "issue_counter", "start_s", "end_s", "begin_s"}


ANNOTATIONS = {(ast.arg, "annotation"), (ast.FunctionDef, "returns"), (ast.AnnAssign, "annotation")}


@cache
def running(file: Path) -> list[ast.AST]:
    """Return the nodes of a file without what only a type checker looks at."""
    return list(_what_runs(ast.parse(file.read_text(encoding="utf-8"))))


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the statements of a file that run, and what holds some, but not the expressions in them."""
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        if _is_for_a_type_checker(node):
            continue
        yield node
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            found = getattr(node, block, None)
            waiting.extend(found if isinstance(found, list) else ())


def _is_for_a_type_checker(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _what_runs(tree: ast.AST) -> Iterator[ast.AST]:
    """Leaves out annotations, and what is imported for them; ``ast.walk`` over a changed tree takes long."""
    waiting = [tree]
    for node in waiting:
        if _is_for_a_type_checker(node):
            continue
        yield node
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                if field != "ctx" and (type(node), field) not in ANNOTATIONS:
                    waiting.append(value)
            elif isinstance(value, list):
                waiting.extend(one for one in value if isinstance(one, ast.AST))


def files_of(*places: str) -> list[Path]:
    """Return the files of Python in these folders; a place may be a file, too."""
    files = [
        file
        for place in map(ROOT.joinpath, places)
        for file in (sorted(place.rglob("*.py")) if place.is_dir() else [place])
    ]
    assert files
    return files


def files_with(pattern: str, *places: str) -> list[Path]:
    """Return the files in these folders that hold such a text: to parse the others takes long."""
    text = re.compile(pattern, re.MULTILINE)
    return [file for file in files_of(*places) if text.search(file.read_text(encoding="utf-8"))]


def where(does: Callable[[ast.AST], bool], words: Iterable[str], *places: str) -> set[str]:
    """Return the files in these folders in which some node of the syntax tree ``does`` it.

    ``words`` are those without one of which in its file no node can.
    """
    files = files_with("|".join(map(re.escape, words)), *places)
    return {str(file.relative_to(ROOT)) for file in files if any(map(does, running(file)))}


@cache
def called(node: ast.AST) -> str:
    """Return what a node calls, such as ``signal.signal``; "" if it is no call."""
    return _dotted(node.func) if isinstance(node, ast.Call) else ""


def _dotted(node: ast.AST) -> str:
    """``ast.unparse``, which takes long, of an expression that mostly is a name or one of its attributes."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Attribute, ast.Name)):
        return f"{_dotted(node.value)}.{node.attr}"
    return ast.unparse(node)


@cache
def imported(file: Path) -> frozenset[str]:
    return frozenset(_imported(file))


def _imported(file: Path) -> Iterator[str]:
    for node in _statements(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield f"{node.module}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importing(modules: set[str], *places: str) -> set[str]:
    """Return the files in these folders that import one of the modules, or something of it."""
    return {
        str(file.relative_to(ROOT))
        for file in files_with(rf"\b({'|'.join(module.rpartition('.')[2] for module in modules)})\b", *places)
        if any(
            name == module or name.startswith(f"{module}.") for name in imported(file) for module in modules
        )
    }


def dotted(places: list[str]) -> set[str]:
    return {place.replace("/", ".") for place in places}


# -- the page -----------------------------------------------------------------------------------------------


def test_the_page_has_the_claim_of_each_test_here_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("\n## What only one place does\n")[2].partition("\n## ")[0]
    stated = [" ".join(line.split()).replace("`", "") for line in section.split("\n- ")[1:]]
    tests = [test for name, test in globals().items() if name.startswith("test_")][1:]  # but for this one
    assert stated == [f"{test.__doc__}".replace("`", "") for test in tests]


# -- the two halves -----------------------------------------------------------------------------------------


def test_only_the_command_run_reaches_from_the_reading_half_into_the_recording_half() -> None:
    """Of the code that reads, only ``timing-logger run`` imports code that records."""
    assert importing(dotted(RECORDING), *READING) == {
        "timing_logger/cli/end_of_run.py",
        "timing_logger/cli/launch.py",
    }


def test_what_both_halves_share_imports_neither() -> None:
    """``schema`` and ``process`` import neither half."""
    shared = [f"{LOGGER}/schema", f"{LOGGER}/process"]
    assert importing(dotted([*RECORDING, *READING]), *shared) == set()


def test_only_the_door_opens_files_that_are_not_of_the_kernel_or_the_package() -> None:
    """Only the door opens files in folders that others may write to."""
    of_os = (
        "fchmod fchown ftruncate link listdir mkdir open remove rename replace rmdir scandir symlink unlink"
    )
    of_shutil = "copy copyfile copytree move rmtree"
    of_tempfile = "NamedTemporaryFile TemporaryDirectory TemporaryFile mkdtemp mkstemp"
    of_paths = (
        "glob iterdir mkdir read_bytes read_text rglob rmdir symlink_to touch unlink write_bytes write_text"
    )
    functions = {
        *("open", "io.open", "fcntl.flock", "fcntl.lockf"),
        *(f"os.{name}" for name in of_os.split()),
        *(f"shutil.{name}" for name in of_shutil.split()),
        *(f"tempfile.{name}" for name in of_tempfile.split()),
    }
    methods = set(of_paths.split())

    def opens(node: ast.AST) -> bool:
        owner, _, name = called(node).rpartition(".")
        mode = node.args[0] if isinstance(node, ast.Call) and name == "open" and node.args else None
        of_path = isinstance(mode, ast.Constant) and mode.value in {
            "a",
            "ab",
            "r",
            "rb",
            "r+b",
            "w",
            "wb",
            "x",
        }
        return called(node) in functions or (name in methods and owner != "os") or of_path

    words = {*(f"{name}(" for name in functions), *(f".{name}(" for name in methods)}
    assert where(opens, words, LOGGER, INSTRUMENTATION) - OF_NOBODY_ELSE == {
        "timing_logger/process/shared_files.py",
        "timing_logger/autologging/site/_timing_logger_start.py",  # where the package cannot be imported
    }


OF_NOBODY_ELSE = {
    f"{INSTRUMENTATION}/torch_distributed/_operations.py",  # the kernel's
    f"{INSTRUMENTATION}/torch_distributed/group_library.py",  # sources of the package
    f"{LOGGER}/cli/parser.py",  # /dev/null
    f"{LOGGER}/cli/stderr.py",
    f"{LOGGER}/native_mpi/build.py",  # sources of the package
    f"{LOGGER}/process/which_core.py",
    f"{LOGGER}/process/this_process.py",  # the kernel's, and git's
    f"{LOGGER}/reading/living.py",
    f"{LOGGER}/reading/machine.py",
    f"{LOGGER}/recording/cores/python/calls.py",  # unlinks an open call from a list
    f"{LOGGER}/recording/cores/python/small_files.py",  # the kernel's
    f"{LOGGER}/recording/ring.py",
    f"{LOGGER}/recording/watchers/host_sampler.py",
    f"{LOGGER}/recording/watchers/kernel_files.py",
    f"{LOGGER}/recording/watchers/machine_counters.py",
    f"{LOGGER}/recording/watchers/process_counters.py",
    f"{LOGGER}/report/html/page.py",  # parts of the page
}
"""Where files are opened of the kernel, or of the package."""


def test_exceptions_that_are_defined_elsewhere_are_caught_by_the_package() -> None:
    """Exceptions that reach a user are in ``errors.py``, but for ``PartlyWritten`` of sinks."""
    both = (LOGGER, INSTRUMENTATION)
    defined = {
        node.name
        for file in files_with(r"^ *class \w+\([^)]*(Error|Exception)\b", *both)
        for node in running(file)
        if file.name != "errors.py" and isinstance(node, ast.ClassDef)
        for base in node.bases
        if ast.unparse(base).endswith(("Error", "Exception"))
    }
    caught = {
        ast.unparse(name)
        for file in files_with("|".join(defined), *both)
        for node in running(file)
        if isinstance(node, ast.ExceptHandler) and node.type is not None
        for name in ast.walk(node.type)
        if isinstance(name, ast.Name)
    }
    assert defined - caught == {"PartlyWritten"}  # for sinks of others; caught as what it is, an OSError


# -- recording ----------------------------------------------------------------------------------------------


def test_only_delivery_calls_a_sink_and_only_the_flush_thread_has_a_delivery() -> None:
    """Only the flush thread calls sinks, through its ``Delivery``."""

    def calls_a_sink(node: ast.AST) -> bool:
        owner, _, method = called(node).rpartition(".")
        return owner.rpartition(".")[2].strip("_") in {"sink", "sinks"} and method in {
            "write",
            "sync",
            "close",
        }

    def makes_a_delivery(node: ast.AST) -> bool:
        return called(node) == "Delivery"

    recording = f"{LOGGER}/recording"
    assert where(calls_a_sink, {"sink"}, recording) == {"timing_logger/recording/delivery.py"}
    assert where(makes_a_delivery, {"Delivery("}, recording) == {"timing_logger/recording/flusher.py"}


def test_no_file_but_record_lists_the_columns() -> None:
    """Only ``record.py`` lists the columns."""
    # the last ones of the table, one after the other in any spelling, in Python, C or Cython
    listed = re.compile(r"\W+".join(COLUMNS[-5:]), re.IGNORECASE)
    named = re.compile(r"\W+(?:\w+\W+)?".join(f"Field..{name}.[^)]*." for name in COLUMNS[-5:]))
    made = {"columns.h", "columns.pxi", "core.c"}
    sources = [
        file for ending in ("py", "pyx", "pxi", "h", "c") for file in (ROOT / LOGGER).rglob(f"*.{ending}")
    ]
    texts = {str(file.relative_to(ROOT)): file.read_text() for file in sources if file.name not in made}
    assert [name for name, text in texts.items() if listed.search(text)] == []
    assert [name for name, text in texts.items() if named.search(text)] == ["timing_logger/schema/record.py"]


def test_recording_never_imports_torch() -> None:
    """``recording`` and ``sinks`` never import torch."""
    assert importing({"torch"}, f"{LOGGER}/recording", f"{LOGGER}/sinks") == set()


def test_only_accelerator_asks_torch_about_devices_in_timing_logger() -> None:
    """In ``timing_logger``, only ``accelerator.py`` uses torch's device API."""
    names = {"Event", "Stream", "accelerator", "cuda", "device", "get_device_module", "mps", "xpu"}

    def asks(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Attribute)
            and node.attr in names
            and ast.unparse(node.value).endswith("torch")
        )

    assert where(asks, {"torch."}, LOGGER) == {"timing_logger/recording/device/accelerator.py"}


def test_timing_waits_for_a_device_only_where_a_value_of_an_interval_is_asked_for() -> None:
    """Timing waits for a device only where somebody asks for an interval's value."""

    def waits(node: ast.AST) -> bool:
        return called(node).endswith(".synchronize")

    assert where(waits, {".synchronize"}, LOGGER) == {"timing_logger/recording/device/intervals.py"}


def test_only_the_exit_and_who_asks_for_it_set_a_handler_of_signals_in_a_training_process() -> None:
    """In a training process, only the exit hook and ``handle_sigterm`` set signal handlers."""

    def sets(node: ast.AST) -> bool:
        return called(node) in {"signal.signal", "signal.set_wakeup_fd", "signal.sigaction"}

    assert where(sets, {"signal.s"}, *RECORDING) == {
        "timing_logger/recording/lifecycle.py",
        "timing_logger/recording/termination.py",
    }


def test_nothing_calls_synchronise_clocks_by_itself() -> None:
    """Nothing calls ``synchronise_clocks`` but the program."""
    name = "synchronise_clocks"
    assert where(lambda node: called(node).endswith(name), {f"{name}("}, LOGGER, INSTRUMENTATION) == set()


def test_only_initialization_changes_private_names_of_torch_in_allreduce_instrumentation() -> None:
    """In ``allreduce_instrumentation``, only ``initialization.py`` changes private names of torch."""

    def changes(node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            return called(node) == "setattr" and _is_of_torch(f"{ast.unparse(node.args[0])}._")
        return isinstance(node, (ast.Assign, ast.Delete)) and any(
            map(_is_of_torch, map(ast.unparse, node.targets))
        )

    assert where(changes, {"c10d", "dist", "torch"}, INSTRUMENTATION) == {
        "allreduce_instrumentation/torch_distributed/initialization.py"
    }


def _is_of_torch(target: str) -> bool:
    """Whether a target is a private name of a module of torch, or an entry in the names of one."""
    owner, _, name = target.replace("vars(", "").partition(".")
    return owner.partition(")")[0] in {"c10d", "c10d_in_c", "dist", "torch"} and (
        target.startswith("vars(") or "_" in {part[:1] for part in name.split(".")}
    )


def test_no_algorithm_of_all_reduce_has_a_clock_or_a_logger() -> None:
    """No all-reduce algorithm has a clock or a logger."""
    for name in ("algorithms", "oktopk"):
        file = ROOT / INSTRUMENTATION / "sparse" / f"{name}.py"
        assert not {"time", "timing_logger"} & {module.partition(".")[0] for module in imported(file)}
        handed_on = [
            argument
            for node in running(file)
            if called(node) == "reduce_over_ranks" and isinstance(node, ast.Call)
            for argument in node.args
        ]
        loggers = [
            node for node in running(file) if isinstance(node, ast.Name) and node.id == "timing_logger"
        ]
        assert loggers
        assert all(logger in handed_on for logger in loggers)


# -- reading and judging ------------------------------------------------------------------------------------


def test_analyses_and_reports_know_nothing_of_the_parts_of_a_file() -> None:
    """Analyses and reports know nothing of the parts of a file."""

    def knows(node: ast.AST) -> bool:
        return (isinstance(node, ast.Name) and node.id in {"FilePart", "parts_of"}) or (
            isinstance(node, ast.Constant) and node.value == "parts"
        )

    assert (
        where(knows, {"FilePart", "parts_of", '"parts"'}, f"{LOGGER}/analysis", f"{LOGGER}/report") == set()
    )


def test_only_the_matcher_makes_instances_of_collectives() -> None:
    """Only ``matching.py`` matches collectives."""
    assert where(lambda node: called(node) == "Instances", {"Instances("}, LOGGER) == {
        "timing_logger/analysis/collectives/matching.py"
    }


def test_the_matcher_reads_no_instant_but_the_start_that_orders_a_ranks_own_rows() -> None:
    """The matcher reads no time but the start that orders a rank's own rows."""
    matcher = ROOT / LOGGER / "analysis" / "collectives" / "matching.py"
    named = {node.value for node in running(matcher) if isinstance(node, ast.Constant)}
    assert "start_counter" in named
    assert named & TIMES == set()


def test_only_run_end_of_tells_how_a_run_ended() -> None:
    """Only ``run_end_of`` decides how a run ended."""

    def tells(node: ast.AST) -> bool:
        return called(node) == "RunEnd" and ast.unparse(node) != "RunEnd(state='unknown')"

    assert where(tells, {"RunEnd("}, LOGGER) == {"timing_logger/analysis/hangs/diagnosis.py"}


def test_no_analysis_but_that_of_hangs_has_pandas_go_over_rows_one_by_one() -> None:
    """Only ``hangs`` has pandas go over rows one by one."""

    names = {"iterrows", "itertuples", "apply", "to_dicts"}

    def goes(node: ast.AST) -> bool:
        return called(node).rpartition(".")[2] in names

    assert {file.split("/")[2] for file in where(goes, names, f"{LOGGER}/analysis")} <= {"hangs"}


def test_what_two_spellings_of_an_argument_mean_together_is_decided_in_one_place() -> None:
    """Only ``one_value`` decides what two spellings of an argument mean together."""

    spellings = {"mpi_op_name", "message_size_bytes"}

    def decides(node: ast.AST) -> bool:
        """Whether another spelling is used for more than to see if it is there, and to ask."""
        if not isinstance(node, (ast.IfExp, ast.BoolOp, ast.Assign)):
            return False
        names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        return bool(spellings & names) and "one_value" not in names

    assert where(decides, spellings, f"{LOGGER}/recording", INSTRUMENTATION) == set()
    native = (ROOT / LOGGER / "recording/cores/native/recorder.pxi").read_text(encoding="utf-8")
    assert native.count("one_value(") == 2 * native.count("mpi_op_name=None")


def test_an_analysis_opens_no_file_starts_nothing_and_asks_no_clock() -> None:
    """An analysis opens no file, starts nothing and asks no clock."""
    modules = {
        "io",
        "os",
        "random",
        "shutil",
        "signal",
        "socket",
        "subprocess",
        "tempfile",
        "threading",
        "time",
    }
    assert importing(modules, f"{LOGGER}/analysis") == set()
    assert where(lambda node: called(node) == "open", {"open("}, f"{LOGGER}/analysis") == set()


def test_a_page_of_the_report_has_no_time_of_writing_and_no_random_name() -> None:
    """A report page has no time of writing and no random name."""
    assert importing({"datetime", "random", "secrets", "time", "uuid"}, f"{LOGGER}/report/html") == set()


def test_the_scripts_of_the_report_write_text_nodes_only() -> None:
    """Scripts of the report write text nodes only; only ``following.js`` parses a page, its own server's."""
    scripts = list((ROOT / LOGGER / "report" / "html" / "static").glob("*.js"))
    assert scripts
    for script in scripts:
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "eval("):
            if (script.name, way) != ("following.js", "DOMParser"):  # parts of a page from its own server
                assert way not in script.read_text(encoding="utf-8"), script


# -- what is built ------------------------------------------------------------------------------------------


def test_setup_py_states_no_fact_of_the_package() -> None:
    """``setup.py`` states no fact of the package; ``pyproject.toml`` does."""
    (setup,) = [node for node in running(ROOT / "setup.py") if called(node) == "setup"]
    assert isinstance(setup, ast.Call)
    assert {keyword.arg for keyword in setup.keywords} == {"cmdclass", "ext_modules"}
