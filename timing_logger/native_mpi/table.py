"""Lists the functions of MPI that are timed: their parameters as the standard names them, and their bytes.

Everything else follows from a parameter's name: ``comm`` is the communicator of the row, ``dest``, ``source``
and ``root`` are its peer, ``request`` is what the program will wait for. So one line serves a function's C
binding, its ``_c`` variant and its Fortran binding.

The bytes are those of ``allreduce_instrumentation.mpi``: an expression of C over the parameters, in terms of
what ``_binding`` in ``wrappers.py`` defines. A receive has none: its status tells what came, and its buffer
may have room for more.
"""

from __future__ import annotations

from typing import NamedTuple


class Function(NamedTuple):
    """One function of the standard.

    Attributes:
        name: without ``MPI_``.
        parameters: the names of its parameters.
        sent_bytes: the bytes that this rank sends, as an expression of C; "" for none.
        root_sends: whether the root of an intercommunicator sends anything.
        large: whether it has a ``_c`` variant.
        row: the name in the rows, where it does not follow from the name.
        strings: how many of the parameters are strings, whose lengths Fortran passes behind all others.
    """

    name: str
    parameters: tuple[str, ...]
    sent_bytes: str = ""
    root_sends: bool = False
    large: bool = True
    row: str = ""
    strings: int = 0

    @property
    def operation(self) -> str:
        """The name in the rows; persistent operations are named like nonblocking ones."""
        name = self.row or self.name.upper()
        return "I" + name.removesuffix("_INIT") if name.endswith("_INIT") else name


def _function(
    name: str, parameters: str, sent_bytes: str = "", *,
    root_sends: bool = False, large: bool | None = None, row: str = "", strings: int = 0,
) -> Function:  # fmt: skip
    """Return a function, which has a ``_c`` variant if it sends, unless ``large`` says otherwise."""
    is_large = bool(sent_bytes) if large is None else large
    return Function(name, tuple(parameters.split()), sent_bytes, root_sends, is_large, row, strings)


def _total(counts: str, n_counts: str, datatype: str) -> str:
    return f"bytes(total({counts}, {n_counts}, COUNT_BYTES), TYPE({datatype}))"


_FROM_EACH = "sendbuf sendcount sendtype recvbuf recvcounts displs recvtype"
_EQUAL = "sendbuf sendcount sendtype recvbuf recvcount recvtype"
_MANY = "sendbuf sendcounts sdispls sendtype recvbuf recvcounts rdispls recvtype comm"
_MANY_TYPES = "sendbuf sendcounts sdispls sendtypes recvbuf recvcounts rdispls recvtypes comm"
_REDUCED = "sendbuf recvbuf count datatype op"

_SENT = "bytes(COUNT(sendcount), TYPE(sendtype))"
_RECEIVED = "bytes(COUNT(recvcount), TYPE(recvtype))"
_BLOCK = f"(IN_PLACE(sendbuf) ? {_RECEIVED} : {_SENT})"
_BLOCKS, _NEIGHBORS = "call.group->blocks", "neighbors(call.group, COMM(comm))"
_OWN_OF_MANY = f"IN_PLACE(sendbuf) ? bytes(COUNT_AT(recvcounts, call.group->rank), TYPE(recvtype)) : {_SENT}"
_SENT_TO_EACH = _total("sendcounts", _BLOCKS, "sendtype")
_TO_EACH = f"IN_PLACE(sendbuf) ? {_total('recvcounts', _BLOCKS, 'recvtype')} : {_SENT_TO_EACH}"
_OF_TYPES = (
    "IN_PLACE(sendbuf) ? BYTES_OF_TYPES(recvcounts, recvtypes, call.group->blocks)"
    " : BYTES_OF_TYPES(sendcounts, sendtypes, call.group->blocks)"
)
_BUFFER = "bytes(COUNT(count), TYPE(datatype))"
_IS_ROOT = "is_root(call.group, RANK(root))"

BLOCKING_COLLECTIVES = (
    _function("Allgather", f"{_EQUAL} comm", _BLOCK),
    _function("Allgatherv", f"{_FROM_EACH} comm", _OWN_OF_MANY),
    _function("Allreduce", f"{_REDUCED} comm", _BUFFER),
    _function("Alltoall", f"{_EQUAL} comm", f"{_BLOCKS} * {_BLOCK}"),
    _function("Alltoallv", _MANY, _TO_EACH),
    _function("Alltoallw", _MANY_TYPES, _OF_TYPES),
    _function("Barrier", "comm"),
    _function("Bcast", "buffer count datatype root comm", _BUFFER, root_sends=True),
    _function("Exscan", f"{_REDUCED} comm", _BUFFER),
    _function("Gather", f"{_EQUAL} root comm", _BLOCK),
    _function("Gatherv", f"{_FROM_EACH} root comm", _OWN_OF_MANY),
    _function("Neighbor_allgather", f"{_EQUAL} comm", _SENT),
    _function("Neighbor_allgatherv", f"{_FROM_EACH} comm", _SENT),
    _function("Neighbor_alltoall", f"{_EQUAL} comm", f"{_NEIGHBORS} * {_SENT}"),
    _function("Neighbor_alltoallv", _MANY, _total("sendcounts", _NEIGHBORS, "sendtype")),
    _function("Neighbor_alltoallw", _MANY_TYPES, f"BYTES_OF_TYPES(sendcounts, sendtypes, {_NEIGHBORS})"),
    _function("Reduce", f"{_REDUCED} root comm", _BUFFER),
    _function(
        "Reduce_scatter", "sendbuf recvbuf recvcounts datatype op comm",
        _total("recvcounts", "call.group->own_size", "datatype"),
    ),
    _function(
        "Reduce_scatter_block", "sendbuf recvbuf recvcount datatype op comm",
        "call.group->own_size * bytes(COUNT(recvcount), TYPE(datatype))",
    ),
    _function("Scan", f"{_REDUCED} comm", _BUFFER),
    _function(
        "Scatter", f"{_EQUAL} root comm",
        f"{_IS_ROOT} ? {_BLOCKS} * {_SENT} : call.group->own_size * {_RECEIVED}", root_sends=True,
    ),
    _function(
        "Scatterv", "sendbuf sendcounts displs sendtype recvbuf recvcount recvtype root comm",
        f"{_IS_ROOT} ? {_SENT_TO_EACH} : BLANK", root_sends=True,
    ),
)  # fmt: skip

_SEND = "buf count datatype dest tag comm"
BLOCKING_MESSAGES = (
    *(_function(name, _SEND, _BUFFER) for name in ("Send", "Bsend", "Rsend", "Ssend")),
    _function("Recv", "buf count datatype source tag comm status", large=True),
    _function(
        "Sendrecv",
        "sendbuf sendcount sendtype dest sendtag recvbuf recvcount recvtype source recvtag comm status",
        _SENT,
    ),
    _function("Sendrecv_replace", "buf count datatype dest sendtag source recvtag comm status", _BUFFER),
)


BEGIN_COMMUNICATORS = (
    _function("Comm_idup", "comm newcomm request", row="ICOMM_DUP"),
    _function("Comm_idup_with_info", "comm info newcomm request", row="ICOMM_DUP_WITH_INFO"),
)


def _nonblocking(function: Function) -> Function:
    parameters = tuple(name for name in function.parameters if name != "status")
    return function._replace(name="I" + function.name.lower(), parameters=(*parameters, "request"))


def _persistent(function: Function) -> Function:
    """Collectives take an info before the request, messages do not."""
    parameters = tuple(name for name in function.parameters if name != "status")
    info = () if function in BLOCKING_MESSAGES else ("info",)
    return function._replace(name=function.name + "_init", parameters=(*parameters, *info, "request"))


_PARTS = "bytes(COUNT(partitions) * (int64_t) LARGE_COUNT(count), TYPE(datatype))"

ISSUED = (*map(_nonblocking, (*BLOCKING_COLLECTIVES, *BLOCKING_MESSAGES)), *BEGIN_COMMUNICATORS)
"""The nonblocking functions."""

PREPARED = (
    *map(_persistent, (*BLOCKING_COLLECTIVES, *BLOCKING_MESSAGES[:5])),
    *(
        _function(name, f"buf partitions count datatype {peer} tag comm info request", _PARTS, large=False)
        for name, peer in (("Psend_init", "dest"), ("Precv_init", "source"))
    ),
)
"""The persistent functions, whose requests are started."""

PROBES = (
    _function("Probe", "source tag comm status"),
    _function("Iprobe", "source tag comm flag status"),
    _function("Mprobe", "source tag comm message status"),
    _function("Improbe", "source tag comm flag message status"),
)

MATCHED_RECEIVES = (
    _function("Mrecv", "buf count datatype message status", large=True),
    _function("Imrecv", "buf count datatype message request", large=True),
)
"""What receives the message that a matched probe found."""

MAKE_COMMUNICATORS = (
    _function("Comm_dup", "comm newcomm"),
    _function("Comm_dup_with_info", "comm info newcomm"),
    _function("Comm_split", "comm color key newcomm"),
    _function("Comm_split_type", "comm split_type key info newcomm"),
    _function("Comm_create", "comm members newcomm"),
    _function("Cart_create", "comm ndims dims periods reorder newcomm"),
    _function("Cart_sub", "comm remain_dims newcomm"),
    _function("Graph_create", "comm nnodes index edges reorder newcomm"),
    _function("Dist_graph_create", "comm n sources degrees destinations weights info reorder newcomm"),
    _function(
        "Dist_graph_create_adjacent",
        "comm indegree sources sourceweights outdegree destinations destweights info reorder newcomm",
    ),
    _function("Intercomm_merge", "comm high newcomm"),
)
"""What makes communicators, which are named at once: all members make them in the same order."""

MAKE_COMMUNICATORS_OF_OTHERS = (
    _function("Comm_create_group", "comm members tag newcomm"),
    _function("Intercomm_create", "comm local_leader peer_comm remote_leader tag newcomm"),
)
"""The same, which only the ranks of the new one call, or others, too: their row is the first of that."""

END_COMMUNICATORS = (_function("Comm_disconnect", "old_comm"),)

MAKE_COMMUNICATORS_IN_C = (
    _function("Comm_spawn", "command argv maxprocs info root comm newcomm errcodes"),
    _function("Comm_spawn_multiple", "count commands argvs maxprocs infos root comm newcomm errcodes"),
    _function("Comm_accept", "port_name info root comm newcomm"),
    _function("Comm_connect", "port_name info root comm newcomm"),
)
"""The same, whose Fortran bindings take strings and are left alone: their communicators are named later."""


MAKE_WINDOWS = (
    _function("Win_create", "base size disp_unit info comm new_win", large=True),
    _function("Win_allocate", "size disp_unit info comm baseptr new_win", large=True),
    _function("Win_allocate_shared", "size disp_unit info comm baseptr new_win", large=True),
    _function("Win_create_dynamic", "info comm new_win"),
)

ON_ALL_OF_A_WINDOW = (_function("Win_fence", "assertion win"),)

ON_SOME_OF_A_WINDOW = (
    _function("Win_lock", "lock_type rank assertion win"),
    _function("Win_unlock", "rank win"),
    _function("Win_lock_all", "assertion win"),
    _function("Win_unlock_all", "win"),
    _function("Win_flush", "rank win"),
    _function("Win_flush_all", "win"),
    _function("Win_flush_local", "rank win"),
    _function("Win_flush_local_all", "win"),
    _function("Win_post", "members assertion win"),
    _function("Win_start", "members assertion win"),
    _function("Win_complete", "win"),
    _function("Win_wait", "win"),
)
"""Calls on a window in which a rank may wait for others, but not all take part: they have no number."""

MAKE_FILES = (_function("File_open", "comm filename amode info new_file", strings=1),)

_WRITES = ("File_write_all", "File_write_at_all", "File_write_ordered")
_READS = ("File_read_all", "File_read_at_all", "File_read_ordered")


def _of_buffer(name: str, suffix: str = "", status: str = "", sent_bytes: str = "") -> Function:
    offset = "offset" if "_at_" in name else ""
    return _function(name + suffix, f"file {offset} buf count datatype {status}", sent_bytes, large=True)


ON_ALL_OF_A_FILE = (
    _function("File_set_size", "file size"),
    _function("File_preallocate", "file size"),
    _function("File_set_view", "file disp etype filetype datarep info", strings=1),
    _function("File_seek_shared", "file offset whence"),
    _function("File_set_atomicity", "file flag"),
    _function("File_sync", "file"),
    *(_of_buffer(name, status="status", sent_bytes=_BUFFER) for name in _WRITES),
    *(_of_buffer(name, "_begin", sent_bytes=_BUFFER) for name in _WRITES),
    *(_function(f"{name}_end", "file buf status") for name in _WRITES),
    *(_of_buffer(name, "_begin") for name in _READS),
)
"""Calls on a file in which all ranks take part that opened it."""

READS_OF_FILES = (
    *(_of_buffer(name, status="status") for name in _READS),
    *(_function(f"{name}_end", "file buf status") for name in _READS),
)
"""The same, which read: the status tells how much there was."""

END_HANDLES = (_function("Win_free", "old_win"), _function("File_close", "old_file"))

_TARGET = "target_rank target_disp target_count target_datatype"
COUNTED = (
    *(
        _function(name, f"origin_addr origin_count origin_datatype {_TARGET} {rest}", large=True)
        for name, rest in (
            ("Rput", "win request"),
            ("Rget", "win request"),
            ("Raccumulate", "op win request"),
        )
    ),
    _function(
        "Rget_accumulate",
        "origin_addr origin_count origin_datatype result_addr result_count result_datatype "
        f"{_TARGET} op win request",
        large=True,
    ),
    _function("Win_test", "win flag"),
    *(
        _of_buffer(name, status="request")
        for name in ("File_iread_all", "File_iread_at_all", "File_iwrite_all", "File_iwrite_at_all")
    ),
)
"""What may wait for other ranks and makes no row; the sidecar states how often it is called."""


class CompletionFunction(NamedTuple):
    """A function that sees requests complete.

    Attributes:
        name, parameters: as of a :class:`Function`.
        n_requests: how many requests it is given, as an expression of C.
        n_completed: how many of them it saw complete.
        indices: the parameter that tells which; "" for the first ones.
    """

    name: str
    parameters: tuple[str, ...]
    n_requests: str
    n_completed: str
    indices: str = ""


def _completion(name: str, parameters: str, *further: str) -> CompletionFunction:
    return CompletionFunction(name, tuple(parameters.split()), *further)


COMPLETIONS = (
    _completion("Wait", "request status", "1", "1"),
    _completion("Test", "request flag status", "1", "FLAG(flag)"),
    _completion("Waitall", "count requests statuses", "INT(count)", "INT(count)"),
    _completion("Testall", "count requests flag statuses", "INT(count)", "FLAG(flag) ? INT(count) : 0"),
    _completion(
        "Waitany", "count requests index status", "INT(count)", "INT_AT(index) != MPI_UNDEFINED", "index"
    ),
    _completion(
        "Testany", "count requests index flag status",
        "INT(count)", "FLAG(flag) && INT_AT(index) != MPI_UNDEFINED", "index",
    ),
    *(
        _completion(
            name, "count requests outcount indices statuses",
            "INT(count)", "INT_AT(outcount) == MPI_UNDEFINED ? 0 : INT_AT(outcount)", "indices",
        )
        for name in ("Waitsome", "Testsome")
    ),
)  # fmt: skip

OF_REQUESTS = (
    _function("Start", "request"),
    _function("Startall", "count requests"),
    _function("Request_free", "request"),
    _function("Cancel", "request"),
)
"""What begins and gives up the operations of requests."""

NAME_COMMUNICATORS_IN_C = (_function("Comm_set_name", "comm name"),)

BEGIN_MPI = (_function("Init", "argc argv"), _function("Init_thread", "argc argv required provided"))
BEGIN_MPI_IN_FORTRAN = (_function("Init", ""), _function("Init_thread", "required provided"))
END_MPI = (_function("Finalize", ""), _function("Abort", "comm code"))
"""What the timing begins and ends with. Where MPI's Fortran calls the C binding, the first of them counts."""

ASKED = {
    "Cartdim_get": 2, "Comm_create_keyval": 4, "Comm_get_attr": 4, "Comm_get_name": 3,
    "Comm_get_parent": 1, "Comm_group": 2,
    "Comm_rank": 2, "Comm_remote_group": 2, "Comm_remote_size": 2, "Comm_set_attr": 3, "Comm_size": 2,
    "Comm_test_inter": 2, "Dist_graph_neighbors_count": 4, "Error_class": 2, "File_get_group": 2,
    "Get_elements_x": 3, "Get_library_version": 2, "Graph_neighbors_count": 3, "Group_free": 1,
    "Group_size": 2,
    "Group_translate_ranks": 5, "Initialized": 1, "Status_f2c": 2, "Test_cancelled": 2, "Topo_test": 2,
    "Type_size": 2, "Win_get_group": 2,
}  # fmt: skip
"""The functions that the library itself calls, and how many parameters they have."""

CONVERSIONS = ("Comm_f2c", "File_f2c", "Request_f2c", "Type_f2c", "Win_f2c")
"""Functions from handles of Fortran to those of C, where they are functions and no macros."""
