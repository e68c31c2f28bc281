"""The warm parent: it has imported what takes long, and forks a child for each program that a client asks for.

Usage: ``server.py SOCKET CLIENT``. It ends when its standard input does, and ends its children before.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

HEAVY = (
    "numpy", "pandas", "narwhals", "msgspec", "jinja2", "rich.console", "rich.table", "rich.progress",
    "pyarrow", "pyarrow.parquet", "scipy.stats", "torch", "torch._dynamo", "torch.distributed",
    "torch.distributed.elastic.agent.server.local_elastic_agent", "torch.distributed.launcher.api",
    "torch.nn.parallel", "torch.distributed.fsdp", "torch.profiler", "torch.utils.data", "email",
    "http.server", "multiprocessing.connection", "statistics", "concurrent.futures.thread",
)  # fmt: skip
"""Of others alone: what is tested is imported by the program itself."""

SITE = "TIMING_LOGGER_TESTS_WARM_SITE"
"""As in ``__init__.py``."""


class Request(NamedTuple):
    """What a client wants to be run, as Python would."""

    folder: str
    arguments: list[str]
    environment: dict[str, str]
    streams: list[int]


def received(connection: socket.socket) -> Request:
    header, ancillary, *_ = connection.recvmsg(8, socket.CMSG_SPACE(3 * 4))
    streams = array.array("i")
    for _, _, data in ancillary:
        streams.frombytes(data)
    (left,) = struct.unpack("N", header)
    parts = []
    while left:
        parts.append(connection.recv(left))
        left -= len(parts[-1])
    folder, number, *texts = os.fsdecode(b"".join(parts)).split("\0")[:-1]
    environment = dict(text.split("=", 1) for text in texts[int(number) :] if "=" in text)
    return Request(folder, texts[: int(number)], environment, list(streams))


class Parent:
    """Forks, and tells each client how its program ended."""

    def __init__(self, listening: socket.socket, client: str) -> None:
        self.client = client
        self.listening = listening
        self.connections: dict[int, socket.socket] = {}
        self.selector = selectors.DefaultSelector()

    def serve(self) -> Callable[[], None] | None:
        """Serve until standard input ends; in a child, return at once what runs its program."""
        woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for source, what in ((self.listening, "client"), (sys.stdin, "end"), (woken, "child")):
            self.selector.register(source, selectors.EVENT_READ, what)
        while True:
            for key, _ in self.selector.select():
                if key.data == "end":
                    self.end_all()
                    return None
                if key.data == "child":
                    os.read(woken, 4096)
                    self.reap()
                elif key.data == "client":
                    program = self.fork()
                    if program is not None:
                        return program
                else:
                    self.pass_on(key.data)

    def fork(self) -> Callable[[], None] | None:
        connection, _ = self.listening.accept()
        try:
            request = received(connection)
        except (OSError, struct.error, ValueError):  # it was killed meanwhile
            connection.close()
            return None
        pid = os.fork()
        if pid == 0:
            self.forget()
            connection.close()
            return lambda: run(request, self.client)
        for stream in request.streams:
            os.close(stream)
        self.connections[pid] = connection
        self.selector.register(connection, selectors.EVENT_READ, pid)
        return None

    def forget(self) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.selector.close()
        self.listening.close()
        for connection in self.connections.values():
            connection.close()

    def pass_on(self, pid: int) -> None:
        """Pass a client's signal on to its program; a client that has ended ends it."""
        number = self.connections[pid].recv(1) if pid in self.connections else b""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number[0] if number else signal.SIGKILL)
        if not number and pid in self.connections:
            self.selector.unregister(self.connections[pid])

    def reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self.tell(*found)

    def tell(self, pid: int, status: int) -> None:
        connection = self.connections.pop(pid)
        with contextlib.suppress(KeyError):
            self.selector.unregister(connection)
        with contextlib.suppress(OSError):
            connection.sendall(struct.pack("i", status))
        connection.close()

    def end_all(self) -> None:
        for pid in self.connections:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def run(request: Request, client: str) -> NoReturn:
    """Run the program as Python would, and end; what only a new interpreter can do is left to one."""
    os.chdir(request.folder)
    for wanted, stream in enumerate(request.streams):
        os.dup2(stream, wanted)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request.environment)
    program = chosen(request.arguments)
    paths = [path for path in request.environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    customizes = any(Path(path, "sitecustomize.py").exists() for path in paths)
    if program is None or (customizes and SITE not in request.environment):
        os.execve(sys.executable, [sys.executable, *request.arguments], request.environment)
    os.setsid()
    sys.path[0:1] = paths
    if customizes:
        importlib.import_module("sitecustomize")
    if sys.argv[0] == "torch.distributed.run":
        sys.executable = client  # its workers are started by it
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)
    end(_status(program))


def chosen(arguments: list[str]) -> Callable[[], Any] | None:
    """Return what runs ``-c TEXT``, ``-m MODULE`` or a file, with ``sys.argv`` set; None for anything else."""
    match [each for each in arguments if each != "-u"]:
        case ["-c", text, *rest]:
            sys.argv = ["-c", *rest]
            return lambda: _run_text(text)
        case ["-m", "mpi4py", path, *rest] if path.endswith(".py"):
            sys.argv = ["mpi4py", path, *rest]
            return lambda: _run_module("mpi4py")
        case ["-m", module, *rest] if not module.startswith("-"):
            sys.argv = [module, *rest]
            return lambda: _run_module(module)
        case [path, *rest] if path.endswith(".py"):
            sys.argv = [path, *rest]
            return lambda: _run_file(path)
    return None


def _run_text(text: str) -> None:
    sys.path.insert(0, "")
    module = sys.modules["__main__"] = type(sys)("__main__")
    exec(compile(text, "<string>", "exec"), module.__dict__)


def _run_module(name: str) -> None:
    sys.path.insert(0, os.getcwd())
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_file(path: str) -> None:
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    module = sys.modules["__main__"] = type(sys)("__main__")
    module.__dict__.update(__file__=path, __builtins__=__builtins__)
    exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)


def _status(program: Callable[[], Any]) -> int:
    try:
        program()
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        traceback.print_exc()
        return -signal.SIGINT
    except BaseException as error:
        sys.excepthook(type(error), error, _of_the_program(error.__traceback__))
        return 1
    return 0


def _of_the_program(trace: Any) -> Any:
    while trace.tb_next and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return trace


def end(status: int) -> NoReturn:
    """End as an interpreter does, but for taking its modules apart, which takes longer than most programs."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    _end_mpi(status)
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status & 0xFF)


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
    path, client = sys.argv[1:]
    for name in HEAVY:
        with contextlib.suppress(ImportError):
            __import__(name)
    gc.collect()
    gc.freeze()  # a child's collections do not copy the parent's pages
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(128)
        print("ready", flush=True)
        program = Parent(listening, client).serve()
    if program is not None:
        program()


if __name__ == "__main__":
    main()
