"""What this process is: its host, boot and number, its run, the versions it runs, and its commit."""

from __future__ import annotations

import functools
import os
import re
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from timing_logger.process.launchers import Environment, launcher_of_run

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_MOST_FOLDERS_UP = 32
_MOST_BYTES = 2**20  # of packed-refs, which has a line for each branch and tag


def of_this_process() -> dict[str, Any]:
    """Return the fields of a sidecar that tell which process this is, of which run, and what it runs."""
    return {
        **identity()._asdict(),
        "host": host_name(),
        "boot_id": boot_id(),
        "pid": os.getpid(),
        "pid_namespace": pid_namespace(),
        "versions": _versions(),
        "commit": program_commit(),
    }


def host_name() -> str:
    """Return the name of this host."""
    return os.uname().nodename


def pid_namespace() -> int:
    """Return the number of this process's PID namespace; 0 on systems that have none."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def boot_id() -> str:
    """Return an identifier of the origin of ``perf_counter``, which the processes of one host and boot share.

    A time namespace moves the origin; its offset is then part of the identifier. "" on systems other than
    Linux, which do not report it.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    return boot + _time_namespace()


def _time_namespace() -> str:
    try:
        offsets = Path("/proc/self/timens_offsets").read_text().splitlines()
    except OSError:  # a kernel without time namespaces
        return ""
    seconds, nanoseconds = next(line.split()[1:] for line in offsets if line.startswith("monotonic"))
    return "" if seconds == nanoseconds == "0" else f"+{seconds}s{nanoseconds}ns"


def _versions() -> dict[str, str]:
    """Return the versions of Python, of this package, and of the relevant packages imported so far."""
    found = {"python": sys.version.split()[0], "timing_logger": _own_version()}
    for name in ("torch", "mpi4py", "numpy"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    return found


@functools.cache
def _own_version() -> str:
    from importlib import metadata

    try:
        return metadata.version("timing_logger")
    except metadata.PackageNotFoundError:  # run from a source tree without installing
        return "unknown"


# -- the commit of the program, read from the files of git, once ---------------------------------------


def program_commit() -> str:
    """Return the commit that is checked out where the program is; "" if it is in no repository, or unknown.

    Whether files were changed since is not known: that would take git itself, and long. No process is
    started.
    """
    try:
        git = _git_folder(_folder_of_program())
        return _commit_in(git) if git else ""
    except (OSError, ValueError):
        return ""


def _folder_of_program() -> Path:
    """Return the folder of the program's file; the current one where it has none, as in a notebook."""
    named = Path(sys.argv[0]) if getattr(sys, "argv", None) and sys.argv[0] else None
    return named.resolve().parent if named and named.is_file() else Path.cwd()


def _git_folder(folder: Path) -> Path | None:
    """Return the folder ``.git`` of the repository that a folder is in; None if it is in none."""
    for above in [folder, *folder.parents][:_MOST_FOLDERS_UP]:
        git = above / ".git"
        if git.is_dir():
            return git
        if git.is_file():  # of a work tree or a submodule, and names the folder
            return (above / _read(git).removeprefix("gitdir:").strip()).resolve()
    return None


def _commit_in(git: Path) -> str:
    head = _read(git / "HEAD")
    if not head.startswith("ref:"):
        return _checked(head)
    name = head.removeprefix("ref:").strip()
    if not name.startswith("refs/") or ".." in name.split("/"):
        return ""
    common = git / "commondir"
    folders = [git, (git / _read(common)).resolve()] if common.is_file() else [git]
    for folder in folders:
        if (folder / name).is_file():
            return _checked(_read(folder / name))
    return next((found for folder in folders if (found := _packed(folder / "packed-refs", name))), "")


def _packed(path: Path, name: str) -> str:
    lines = _read(path).splitlines() if path.is_file() else []
    return next((_checked(line.split(" ")[0]) for line in lines if line.endswith(f" {name}")), "")


def _read(path: Path) -> str:
    """Read a small file; a FIFO, which would wait, is none."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        return file.read(_MOST_BYTES).decode("utf-8", "replace").strip()


def _checked(text: str) -> str:
    return text if _COMMIT.fullmatch(text) else ""


# -- which run this process is of, and which world of that run -----------------------------------------
# A run is one start of a job. If its launcher restarts it, that is the same run in a later incarnation.
# Ranks that ``MPI_Comm_spawn`` started are a world of their own in the run, and count from 0 like the
# others. If the environment does not tell of that, MPI does, where it runs.


VARIABLE = "TIMING_LOGGER_RUN_ID"
"""What ``timing-logger run`` hands on to every process of the job that it starts."""

_PROCESS = os.getpid()


class Identity(NamedTuple):
    """What a sidecar says of the run that its process is of.

    Attributes:
        run_id: the run; "" if nothing that all ranks share is known of it.
        world: "" for the ranks that were started first, else the name of a world that they spawned.
        launch_id: what the ``timing-logger run`` that started this process calls the run; "" without one.
    """

    run_id: str
    world: str
    launch_id: str


def identity(environment: Environment = os.environ) -> Identity:
    """Return which run the process with this environment is of.

    One ``timing-logger run`` may start several launchers, each of which starts a run; and each host may have
    its own ``timing-logger run`` around its part of one launcher.
    """
    launch_id = environment.get(VARIABLE, "")
    launcher = launcher_of_run(environment)
    stated = launcher.id_of_run(environment) if launcher else ""
    if launch_id and _number(environment, "GROUP_WORLD_SIZE") <= 1:  # torchrun's number of hosts
        stated = f"{launch_id}/{stated}" if launcher and stated and launcher.starts_all else launch_id
    return Identity(stated or launch_id, _world(environment), launch_id)


def id_of_new_run(environment: Environment = os.environ) -> str:
    """Return the identity of the run that ``timing-logger run`` is about to start, fit for file names.

    If a launcher started ``timing-logger run`` itself on several ranks, all of them are of one run.
    """
    if (
        VARIABLE not in environment
    ):  # else this is a job within a job, whose launcher is that of the outer one
        launcher = launcher_of_run(environment)
        if launcher and _number(environment, launcher.run_size or launcher.size) > 1:
            return re.sub("[^a-zA-Z0-9.-]", "-", launcher.id_of_run(environment))
    return f"{time.strftime('%Y%m%dT%H%M%S')}-{os.urandom(3).hex()}"


# -- worlds -------------------------------------------------------------------------------------------


def _world(environment: Environment) -> str:
    """Return the name of the world of a process that MPI spawned; of Open MPI its number in the namespace."""
    # As Open MPI, or else MPICH or Intel MPI, says in the environment.
    is_spawned = "OMPI_PARENT_PORT" in environment or environment.get("PMI_SPAWNED", "0") != "0"
    if not (is_spawned or _has_parents()):
        return ""
    namespace = environment.get("PMIX_NAMESPACE", "")
    if namespace.isdecimal():
        return str(int(namespace) & 0xFFFF)
    _, at, number = namespace.rpartition("@")
    return number if at else "spawned"


def _has_parents() -> bool:
    """Ask MPI whether it spawned this process, if the program has it running and this thread may call it."""
    mpi: Any = sys.modules.get("mpi4py.MPI")
    try:
        return _may_call(mpi) and bool(mpi.Comm.Get_parent() != mpi.COMM_NULL)
    except Exception:  # it is None, or half imported
        return False


def _may_call(mpi: Any) -> bool:
    """Tell whether a call of MPI is allowed now: not in a forked child, nor beside another thread's call."""
    if os.getpid() != _PROCESS or not mpi.Is_initialized() or mpi.Is_finalized():
        return False
    level = mpi.Query_thread()
    is_the_only_one = level < mpi.THREAD_SERIALIZED and mpi.Is_thread_main()
    return bool(level == mpi.THREAD_MULTIPLE or is_the_only_one)


def _number(environment: Environment, name: str) -> int:
    text = environment.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else 0
