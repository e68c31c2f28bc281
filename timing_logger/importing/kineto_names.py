"""What names mean in traces of torch.profiler: of collectives, annotations, types, threads and copies."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from timing_logger.analysis.rows.operations import is_own_work
from timing_logger.importing.imported import integer
from timing_logger.importing.trace_events import Args
from timing_logger.schema.timing_files import MAX_RANK

_UNKNOWN = ("", "undefined", "None")


class Group(NamedTuple):
    """A process group.

    Attributes:
        name: its name in rows: the description and number, as those of groups that time themselves.
        size: the number of its ranks; None if it is not known.
        ranks: its ranks in order; empty if they are not known, or not all of them.
    """

    name: str
    size: int | None
    ranks: tuple[int, ...] = ()

    def place_of(self, rank: Any) -> int | None:
        """Return the place of a rank in the group; the rank itself where its ranks are not known."""
        number = integer(rank)
        return self.ranks.index(number) if number in self.ranks else number


def group_of(args: Args) -> Group | None:
    """Return the group that the arguments of a collective name; None if they name none."""
    if not isinstance(args.group, str):
        return None
    ranks = _ranks(args.group_ranks)
    size = integer(args.group_size) or (len(ranks) or None)
    return Group(_name(args.group_kind, args.group), size, ranks if len(ranks) == size else ())


def only_group(distributed: dict[str, Any]) -> Group | None:
    """Return the group of a run that has only one, by ``distributedInfo`` of its trace; else None."""
    groups = distributed.get("pg_config")
    if not isinstance(groups, list) or len(groups) != 1 or not isinstance(groups[0], dict):
        return None
    only = groups[0]
    size = integer(only.get("pg_size")) or integer(distributed.get("world_size"))
    return Group(_name(only.get("pg_desc"), only.get("pg_name")), size, _ranks(only.get("ranks")))


def rank_of(value: Any) -> int | None:
    """Return a rank, or None for what is none."""
    number = integer(value)
    return number if number is not None and number <= MAX_RANK else None


def _name(kind: Any, name: Any) -> str:
    described = kind if isinstance(kind, str) and kind not in _UNKNOWN else "process group"
    return f"{described} {name}".rstrip()


def _ranks(stated: Any) -> tuple[int, ...]:
    """Return the ranks of a list, which older traces have as text; none if it is shortened by an ellipsis."""
    if isinstance(stated, str):
        try:
            stated = json.loads(stated)
        except (ValueError, RecursionError):
            return ()
    if not isinstance(stated, list) or not all(type(rank) is int for rank in stated):
        return ()
    return tuple(stated)


_COLLECTIVES = {
    "ALLREDUCE": ("all_reduce", "allreduce", "allreduce_coalesced", "allreduce_sparse"),
    "ALLGATHER": (
        "all_gather", "allgather", "allgather_base", "allgather_coalesced", "allgather_into_tensor_coalesced",
        "all_gather_into_tensor",
    ),
    "REDUCE_SCATTER": (
        "reduce_scatter", "reduce_scatter_base", "reduce_scatter_tensor_coalesced", "reduce_scatter_tensor",
    ),
    "ALLTOALL": ("all_to_all", "alltoall", "alltoall_base", "all_to_all_single"),
    "ALLTOALLV": ("all_to_allv", "alltoallv"),
    "BARRIER": ("barrier", "monitored_barrier"),
    "BCAST": ("broadcast", "broadcast_oop"),
    "REDUCE": ("reduce", "reduce_oop"),
    "GATHER": ("gather",),
    "SCATTER": ("scatter",),
    "SEND": ("send",),
    "RECV": ("recv", "recv_any_source", "recvanysource"),
}  # fmt: skip
_OPERATIONS = {name: operation for operation, names in _COLLECTIVES.items() for name in names}

ROOTED = frozenset({"BCAST", "REDUCE", "GATHER", "SCATTER"})
MESSAGES = frozenset({"SEND", "RECV"})

_KERNELS = {
    "AllReduce": "ALLREDUCE", "AllGather": "ALLGATHER", "ReduceScatter": "REDUCE_SCATTER",
    "Broadcast": "BCAST", "Reduce": "REDUCE", "AllToAll": "ALLTOALL",
}  # fmt: skip
_KERNEL = re.compile(rf"(?:nccl|rccl)\w*?Kernel_?({'|'.join(_KERNELS)})")

_BYTES = {
    "bool": 1, "byte": 1, "char": 1, "unsignedchar": 1, "signedchar": 1, "uint8": 1, "int8": 1,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "short": 2, "shortint": 2, "int16": 2, "half": 2, "bfloat16": 2,
    "float16": 2, "int": 4, "int32": 4, "float": 4, "float32": 4, "long": 8, "longint": 8, "int64": 8,
    "double": 8, "float64": 8, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip

_COPIES = (("HtoD", "H2D"), ("DtoH", "D2H"), ("DtoD", "D2D"), ("PtoP", "D2D"))

BACKWARD = "autograd::engine::evaluate_function: "
"""How events of the backward pass begin, on the thread that makes it."""

_KNOWN = (
    (re.compile(r"enumerate\(DataLoader\)#(.*)"), "DATA"),
    (re.compile(r"Optimizer\.step#(.*)"), "OPTIMIZER"),
    (re.compile(r"Optimizer\.zero_grad#(.*)"), "ZERO_GRAD"),
    (re.compile(r"((?:Distributed|FullySharded)DataParallel)\.forward"), "FORWARD"),
)
_DETAIL = re.compile(r"(.+?)(?:#| \()(.*?)\)?$")
_OF_BACKENDS = ("nccl:", "gloo:", "mpi:", "ucc:", "xccl:", "c10d::")
_THREAD = re.compile(r"thread \d+ \((.*)\)")


def collective(name: object) -> str | None:
    """Return the operation of a collective or message, by torch's name for it; None for what is none.

    The names are those of ``gloo:all_reduce``, ``c10d::allreduce_`` and ``Collective name``.
    """
    if not isinstance(name, str):
        return None
    plain = name.rpartition(":")[2].strip("_").lower()
    return _OPERATIONS.get(plain)


def kernel_operation(name: str) -> str | None:
    """Return the operation of a kernel of NCCL, by its name; None if it does not tell."""
    found = _KERNEL.search(name)
    return _KERNELS[found[1]] if found else None


def is_communication_kernel(name: str) -> bool:
    """Tell whether a kernel is one of NCCL or RCCL."""
    return name.startswith(("nccl", "rccl")) or "ncclDevKernel" in name or "rcclGenericKernel" in name


def bytes_of_type(name: object) -> int | None:
    """Return the bytes of an element of a type, such as ``BFloat16`` or ``c10::Half``; None if unknown."""
    plain = str(name).rpartition(":")[2].replace(" ", "").lower()
    return _BYTES.get(plain)


def copy_operation(name: str) -> str | None:
    """Return the operation of ``Memcpy HtoD (Pinned -> Device)``; None for a copy of another kind."""
    return next((operation for part, operation in _COPIES if part in name), None)


def annotated(name: str) -> tuple[str, str] | None:
    """Return the operation and the layer of an annotation; None for one that is no work of its own."""
    if name.startswith(("ProfilerStep#", *_OF_BACKENDS)):
        return None
    for pattern, operation in _KNOWN:
        if found := pattern.fullmatch(name):
            return operation, found[1]
    detail = _DETAIL.fullmatch(name)
    operation, layer = (detail[1], detail[2]) if detail else (name, "")
    operation = operation.strip("# ").upper()
    return (operation if is_own_work(operation) else f"ANNOTATED {operation}"), layer


def thread_name(name: str) -> str:
    """Return the name of a thread as the operating system has it: of ``thread 17 (python)``."""
    found = _THREAD.fullmatch(name)
    return found[1] if found else name
