"""The warm parent: it has imported what takes long, and forks a child for each program that clients ask for.

Usage: ``parent.py FOLDER MODULE...``. It imports the modules, and listens in the folder. When its standard
input ends, it ends what runs, removes the folder, and ends.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import multiprocessing.process
import os
import resource
import runpy
import selectors
import shutil
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple, NoReturn

SITE = "TIMING_LOGGER_TESTS_WARM_SITE"
"""As in ``__init__.py``."""

WARM, COLD = b"y", b"n"
"""Answers to a client: this process runs its program, or it has to start a Python of its own."""

# -- what is asked for --------------------------------------------------------------------------------------


class Program(NamedTuple):
    """What is to run, as Python's command line says it.

    Attributes:
        argv: ``sys.argv`` at first.
        beside: the folder in which it finds modules first.
        run: runs it in this process.
        unbuffered: whether its output is.
    """

    argv: list[str]
    beside: str
    run: Callable[[], Any]
    unbuffered: bool


class Request:
    """What the process of a client has, and its program is to have as well; ``OSError`` if it has gone."""

    def __init__(self, pid: int, streams: list[int]) -> None:
        self.pid = pid
        self.streams = streams
        self.folder = os.readlink(f"/proc/{pid}/cwd")
        self.arguments = _texts(f"/proc/{pid}/cmdline")[1:]
        pairs = (text.partition("=") for text in _texts(f"/proc/{pid}/environ"))
        self.environment = {name: value for name, _, value in pairs}
        self.status = _status(pid)
        self.rights = _rights(pid)
        self.affinity = os.sched_getaffinity(pid)
        self.priority = os.getpriority(os.PRIO_PROCESS, pid)
        self.limits = {which: resource.prlimit(pid, which) for which in LIMITS}

    @property
    def paths(self) -> list[str]:
        """The folders of PYTHONPATH."""
        given = self.environment.get("PYTHONPATH")
        paths = given.split(os.pathsep) if given else []
        return [os.path.abspath(os.path.join(self.folder, path)) for path in paths]

    @property
    def program(self) -> Program | None:
        """What is to run; None if that takes more than a fork."""
        unbuffered = bool(self.environment.get("PYTHONUNBUFFERED"))
        arguments = self.arguments
        if arguments[:1] == ["-u"]:
            unbuffered, arguments = True, arguments[1:]
        match arguments:
            case ["-c", text, *rest]:
                return Program(["-c", *rest], self.folder, lambda: _run_text(text), unbuffered)
            case ["-m", module, *rest]:
                return Program(["-m", *rest], self.folder, lambda: _run_module(module), unbuffered)
            case [path, *rest] if path.endswith(".py"):
                file = os.path.realpath(os.path.join(self.folder, path))
                if os.path.isfile(file):
                    return Program([path, *rest], os.path.dirname(file), lambda: _run_file(path), unbuffered)
        return None


LIMITS = [value for name, value in vars(resource).items() if name.startswith("RLIMIT_")]
RIGHTS = ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")


def _texts(path: str) -> list[str]:
    return os.fsdecode(Path(path).read_bytes()).split("\0")[:-1]


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _rights(pid: int) -> list[object]:
    """What the kernel lets a process do and see: that of this one cannot be changed, or not back."""
    status, of_process = _status(pid), Path("/proc", str(pid))
    return [
        [status.get(name) for name in RIGHTS],
        [(name, os.readlink(of_process / "ns" / name)) for name in os.listdir(of_process / "ns")],
        os.readlink(of_process / "root"),
        (of_process / "cgroup").read_text(),
    ]


# -- whether a fork can have it -----------------------------------------------------------------------------

READ_AT_START = (
    "PYTHON", "LC_", "LANG", "MALLOC_", "GLIBC_", "LD_PRELOAD", "LD_AUDIT", "OMP_NUM_THREADS",
    "TORCH_CPP_LOG_LEVEL", "TORCH_DEVICE_BACKEND_AUTOLOAD", "TORCH_DISTRIBUTED_DEBUG", "TORCH_LOGS",
    "TORCH_SHOW_CPP_STACKTRACES",
)  # fmt: skip
"""How variables begin that Python, or a library, reads at its start. LD_LIBRARY_PATH is mpiexec's."""


def _settings(environment: dict[str, str]) -> dict[str, str]:
    """Return what a program that runs already would not heed."""
    taken_over = ("PYTHONPATH", "PYTHONUNBUFFERED")
    with_default = {"OMP_NUM_THREADS": "1", **environment}
    return {
        name: value
        for name, value in with_default.items()
        if name.startswith(READ_AT_START) and name not in taken_over
    }


class Fork:
    """What a fork of this process, as it is now, can run."""

    def __init__(self) -> None:
        self.imported = {name.partition(".")[0] for name in sys.modules} - {"__main__"}
        self.settings = _settings(dict(os.environ))
        self.rights = _rights(os.getpid())

    def can_run(self, program: Program, request: Request) -> bool:
        ours = self.imported | (set() if SITE in request.environment else {"sitecustomize", "usercustomize"})
        return (
            _settings(request.environment) == self.settings
            and request.rights == self.rights
            and os.path.isdir(request.folder)
            and ours.isdisjoint(_modules_in([program.beside, *request.paths]))
        )


def _modules_in(folders: Iterable[str]) -> set[str]:
    """Return the names of the modules that are found in folders."""
    found = set()
    for folder in folders:
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    found.add(entry.name.removesuffix(".py"))
                elif os.path.isfile(os.path.join(entry.path, "__init__.py")):
                    found.add(entry.name)
    return found


# -- forking ------------------------------------------------------------------------------------------------


class Parent:
    """Forks, and tells each client how its program ended."""

    def __init__(self, listening: socket.socket) -> None:
        self.listening = listening
        self.running: dict[int, socket.socket] = {}
        self.selector = selectors.DefaultSelector()
        self.can = Fork()
        self.woken, self.wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def serve(self) -> Callable[[], None] | None:
        """Serve until standard input ends; in a child, return at once what runs its program."""
        signal.set_wakeup_fd(self.wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for source, what in ((self.listening, "client"), (sys.stdin, "end"), (self.woken, "child")):
            self.selector.register(source, selectors.EVENT_READ, what)
        while True:
            for key, _ in self.selector.select():
                match key.data, key.fileobj:
                    case "end", _:
                        self.end_all()
                        return None
                    case "child", _:
                        os.read(self.woken, 4096)
                        self.reap()
                    case "client", _:
                        connection, _ = self.listening.accept()
                        self.selector.register(connection, selectors.EVENT_READ, "request")
                    case "request", socket.socket() as connection:
                        self.selector.unregister(connection)
                        program = self.begin(connection)
                        if program is not None:
                            return program
                    case pid, connection:
                        if self.running.get(pid) is connection:  # and it was not reaped in this round
                            self.pass_on(pid, connection)

    def begin(self, connection: socket.socket) -> Callable[[], None] | None:
        """As ``serve``: fork a child for a client's program, if it can run that, and tell the client."""
        streams: list[int] = []
        pid = -1
        with contextlib.suppress(OSError):  # of a client that has gone, or says nothing; of a full machine
            _, streams, *_ = socket.recv_fds(connection, 1, 3)
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            request = Request(struct.unpack("3i", peer)[0], streams)
            program = request.program
            if len(streams) == 3 and program is not None and self.can.can_run(program, request):
                pid = os.fork()
        if pid == 0:
            connection.close()
            self.forget()
            return lambda: run(program, request)
        for stream in streams:
            os.close(stream)
        with contextlib.suppress(OSError):
            connection.sendall(COLD if pid < 0 else WARM)
        if pid < 0:
            connection.close()
        else:
            self.running[pid] = connection
            self.selector.register(connection, selectors.EVENT_READ, pid)
        return None

    def forget(self) -> None:
        """In a child: be no server."""
        signal.set_wakeup_fd(-1)
        for key in list(self.selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self.selector.close()
        os.close(self.woken)
        os.close(self.wake)

    def pass_on(self, pid: int, connection: socket.socket) -> None:
        """Pass a client's signal on to its program; a client that has ended ends it, and what it started."""
        number = b""
        with contextlib.suppress(OSError):
            number = connection.recv(1)
        if number:
            os.kill(pid, number[0])
        else:
            self.selector.unregister(connection)
            connection.close()
            end(pid)

    def reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self.tell(*found)

    def tell(self, pid: int, status: int) -> None:
        connection = self.running.pop(pid, None)
        if connection is None or connection.fileno() < 0:
            return
        self.selector.unregister(connection)
        with contextlib.suppress(OSError):
            connection.sendall(struct.pack("i", status))
        connection.close()

    def end_all(self) -> None:
        for pid in self.running:
            end(pid)


def end(pid: int) -> None:
    """Kill a child, which is not reaped yet, and the processes of its group."""
    os.kill(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):  # it has made none yet
        os.killpg(pid, signal.SIGKILL)


# -- in a child ---------------------------------------------------------------------------------------------


def run(program: Program, request: Request) -> NoReturn:
    """Run the program as Python would, and end."""
    take_over(request)
    sys.orig_argv = [sys.executable, *request.arguments]
    sys.argv = program.argv
    sys.path[0:1] = request.paths
    multiprocessing.process.ORIGINAL_DIR = request.folder
    sys.stdout = sys.__stdout__ = _opened(1, sys.stdout, program.unbuffered)
    sys.stderr = sys.__stderr__ = _opened(2, sys.stderr, program.unbuffered)
    if SITE in request.environment:
        with contextlib.suppress(ModuleNotFoundError):
            __import__("sitecustomize")
    end_with(_status_of(program.run))


def take_over(request: Request) -> None:
    """Make this process as that of the client is."""
    os.setsid()
    os.chdir(request.folder)
    for wanted, stream in enumerate(request.streams):
        os.dup2(stream, wanted)
        os.close(stream)
    ignored = int(request.status["SigIgn"], 16) | 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN if ignored >> number - 1 & 1 else signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.umask(int(request.status["Umask"], 8))
    os.sched_setaffinity(0, request.affinity)
    if request.priority != os.getpriority(os.PRIO_PROCESS, 0):
        os.setpriority(os.PRIO_PROCESS, 0, request.priority)
    for which, limit in request.limits.items():
        if limit != resource.getrlimit(which):
            resource.setrlimit(which, limit)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    tempfile.tempdir = None
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # those of the standard library see to that themselves


def _opened(number: int, like: io.TextIOWrapper, unbuffered: bool) -> io.TextIOWrapper:
    """Return standard output or error as Python opens it."""
    raw = io.FileIO(number, "w", closefd=False)
    raw.name = like.name
    return io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),  # type: ignore[arg-type]  # as Python itself does
        encoding=like.encoding,
        errors=like.errors,
        newline="\n",
        line_buffering=not unbuffered and (number == 2 or raw.isatty()),
        write_through=unbuffered,
    )


def _main_module(**values: Any) -> dict[str, Any]:
    """Return the names of a new ``__main__``."""
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, __annotations__={}, **values)
    return module.__dict__


def _run_text(text: str) -> None:
    sys.path.insert(0, "")
    exec(compile(text, "<string>", "exec", dont_inherit=True), _main_module())


def _run_module(name: str) -> None:
    if name == "torch.distributed.run":
        sys.executable = str(FOLDER / "python")  # its workers are started by it
    sys.path.insert(0, os.getcwd())
    _main_module()
    runpy._run_module_as_main(name)


def _run_file(path: str) -> None:
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    path = os.path.abspath(path)
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    exec(code, _main_module(__file__=path, __cached__=None))


def _status_of(program: Callable[[], Any]) -> int:
    """Return the exit status of a program, or the negative number of the signal that ends it."""
    try:
        program()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 0xFF
        print(ended.code, file=sys.stderr)
        return 1
    except BaseException as error:
        trace = _of_the_program(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _of_the_program(trace: TracebackType | None) -> TracebackType | None:
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def end_with(status: int) -> NoReturn:
    """End as an interpreter does, but for taking its modules apart, which takes longer than most programs."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except ValueError:
            pass  # the program has closed it
        except OSError:
            status = 120
    _end_mpi(status)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _end_mpi(status: int) -> None:
    """Do what mpi4py does in the last moment of an interpreter."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not mpi.Is_initialized() or mpi.Is_finalized():
        return
    if status and "mpi4py.run" in sys.modules:  # an exception of a program under ``-m mpi4py``
        mpi.COMM_WORLD.Abort(status if status > 0 else 128 - status)
    if sys.modules["mpi4py"].rc.finalize is not False:
        mpi.Finalize()


def main() -> None:
    for name in sys.argv[2:]:
        with contextlib.suppress(ImportError):
            __import__(name)
    gc.collect()
    gc.freeze()  # a child's collections do not copy the parent's pages
    os.chdir(FOLDER)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")  # the whole path may be too long for one
        listening.listen(128)
        print("ready", flush=True)
        program = Parent(listening).serve()
    if program is not None:
        program()
    shutil.rmtree(FOLDER, ignore_errors=True)


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    main()
