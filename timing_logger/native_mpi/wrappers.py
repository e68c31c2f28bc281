"""Writes the C of the wrappers: one for each function of ``table.py``, in each binding that the MPI has.

A wrapper hands its arguments on as they came. What it reads of them, it reads by what its binding defines:
``COUNT(count)`` is a number in C, and the address of one in Fortran.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from timing_logger.native_mpi import table
from timing_logger.native_mpi.table import CompletionFunction, Function

_Wrapped: TypeAlias = "Function | CompletionFunction"


class Binding(NamedTuple):
    """A language's way to call MPI.

    Attributes:
        title: a comment.
        symbol: the linker's name of a function without ``MPI_``.
        field: the name of the real one in ``struct real``.
        definitions: how the wrappers read arguments.
        is_fortran: whether the error code is a further argument.
    """

    title: str
    symbol: Callable[[str], str]
    field: Callable[[str], str]
    definitions: dict[str, str]
    is_fortran: bool = False

    def parameters(self, function: _Wrapped) -> tuple[str, ...]:
        """Return the names of the parameters in this language."""
        if not self.is_fortran:
            return function.parameters
        strings = function.strings if isinstance(function, Function) else 0
        return (*function.parameters, "ierror", *(f"length_{i}" for i in range(strings)))


_IN_C = {
    "INT(w)": "((int) (w))",
    "INT_AT(w)": "(*(int *) (w))",
    "FLAG(w)": "(*(int *) (w) != 0)",
    "RANK(w)": "((int) (w))",
    "COMM(w)": "((MPI_Comm) (w))",
    "NEW_COMM(w)": "(*(MPI_Comm *) (w))",
    "WIN(w)": "((word) (MPI_Win) (w))",
    "WIN_AT(w)": "((word) *(MPI_Win *) (w))",
    "FILE_(w)": "((word) (MPI_File) (w))",
    "FILE_AT(w)": "((word) *(MPI_File *) (w))",
    "TYPE(w)": "((MPI_Datatype) (w))",
    "TYPE_AT(w, i)": "(((MPI_Datatype *) (w))[i])",
    "REQUEST_AT(w)": "(*(MPI_Request *) (w))",
    "MESSAGE_AT(w)": "((word) *(MPI_Message *) (w))",
    "IN_PLACE(w)": "((void *) (w) == MPI_IN_PLACE)",
    "STATUS(w)": "(*(MPI_Status *) (w))",
    "IGNORED(w)": "((MPI_Status *) (w) == MPI_STATUS_IGNORE)",
    "BINDING": "&in_c",
    "RETURN(code)": "return (code)",
}
_IN_FORTRAN = {
    "INT(w)": "((int) *(MPI_Fint *) (w))",
    "INT_AT(w)": "((int) *(MPI_Fint *) (w))",
    "FLAG(w)": "(*(MPI_Fint *) (w) != 0)",
    "RANK(w)": "((int) *(MPI_Fint *) (w))",
    "COMM(w)": "comm_f2c(w)",
    "NEW_COMM(w)": "comm_f2c(w)",
    "WIN(w)": "((word) win_f2c(w))",
    "WIN_AT(w)": "((word) win_f2c(w))",
    "FILE_(w)": "((word) file_f2c(w))",
    "FILE_AT(w)": "((word) file_f2c(w))",
    "TYPE(w)": "type_f2c(w)",
    "TYPE_AT(w, i)": "type_f2c((word) ((MPI_Fint *) (w) + (i)))",
    "REQUEST_AT(w)": "request_f2c(w)",
    "MESSAGE_AT(w)": "((word) *(MPI_Fint *) (w))",
    "IN_PLACE(w)": "is_fortran_in_place(w)",
    "STATUS(w)": "status_f2c(w)",
    "IGNORED(w)": "is_fortran_ignored(w)",
    "BINDING": "&in_fortran",
    "RETURN(code)": "{ (void) (code); return; }",
}


def _numbers(kind: str, count: str, large_count: str = "((MPI_Count) (w))") -> dict[str, str]:
    return {"COUNT(w)": count, "LARGE_COUNT(w)": large_count, "COUNT_BYTES": f"((int) sizeof({kind}))"}


C = Binding("C", "MPI_{}".format, str, _IN_C | _numbers("int", "((int64_t) (int) (w))"))
LARGE = Binding(
    "C, with large counts", "MPI_{}_c".format, "{}_c".format, _IN_C | _numbers("MPI_Count", "((int64_t) (w))")
)


def _fortran(title: str, suffix: str) -> Binding:
    return Binding(
        title,
        lambda name: f"mpi_{name.lower()}{suffix}",
        f"{{}}{suffix.rstrip('_') or '_f'}".format,
        _IN_FORTRAN | _numbers("MPI_Fint", "((int64_t) *(MPI_Fint *) (w))", "(*(MPI_Count *) (w))"),
        is_fortran=True,
    )


FORTRAN = _fortran("Fortran", "_")
FORTRAN_2008 = _fortran("Fortran's module mpi_f08", "_f08_")
FORTRAN_2008_TS = _fortran("the same, for buffers with descriptors, which begin with the address", "_f08ts_")
FORTRAN_2008_TS.definitions["IN_PLACE(w)"] = "is_fortran_in_place(*(word *) (w))"
BINDINGS = (C, LARGE, FORTRAN, FORTRAN_2008, FORTRAN_2008_TS)


def real_header(exists: Callable[[str], bool]) -> str:
    """Return ``real.h``: a structure with MPI's own functions, and a macro that lists them.

    Args:
        exists: whether the MPI declares a function of C of this name.
    """
    declared = [
        (
            "void " if binding.is_fortran else "int ",
            binding.field(function.name),
            _words(len(binding.parameters(function))),
            binding.symbol(function.name).replace("MPI_", "PMPI_").replace("mpi_", "pmpi_"),
        )
        for binding in BINDINGS
        for function, _ in _wrapped_in(binding, exists)
    ]
    declared += [("int ", name, _words(n), f"PMPI_{name}") for name, n in table.ASKED.items()]
    declared += [("void *", name, "MPI_Fint", f"PMPI_{name}") for name in table.CONVERSIONS]
    found = [f'FIND({field}, "{entry}")' for _, field, _, entry in declared]
    return "\n".join(
        (
            "/* MPI's own functions. Written by wrappers.py. */",
            "extern struct real {",
            "    bool found, unfit;",
            *(f"    {kind}(*{field})({parameters});" for kind, field, parameters, _ in declared),
            "} real;",
            "",
            "#define REAL_FUNCTIONS(FIND) " + " \\\n    ".join(found),
            "",
        )
    )


def _wrapped_in(binding: Binding, exists: Callable[[str], bool]) -> Iterator[tuple[_Wrapped, list[str]]]:
    """Yield all that is wrapped in a binding, each with the body of its wrapper."""
    for way in _WAYS:
        if binding in way.bindings:
            for function in way.functions:
                if _has(binding, function, exists):
                    yield function, [*way.begins, *way.body(function)]


def _has(binding: Binding, function: _Wrapped, exists: Callable[[str], bool]) -> bool:
    if binding is LARGE:
        return isinstance(function, Function) and function.large and exists(function.name + "_c")
    return exists(function.name)


def _words(n: int) -> str:
    return ", ".join(["word"] * n) or "void"


# -- wrappers ----------------------------------------------------------------------------------------------


def wrappers(exists: Callable[[str], bool]) -> str:
    """Return ``wrappers.c``.

    Args:
        exists: whether the MPI declares a function of C of this name.
    """
    parts = ['/* Written by wrappers.py. */\n#include "waits.h"\n']
    for binding in BINDINGS:
        parts.append(f"\n/* -- {binding.title} */\n")
        for name, text in binding.definitions.items():
            parts.append(f"#undef {name.split('(')[0]}\n#define {name} {text}")
        parts.extend(_wrapper(binding, one, body) for one, body in _wrapped_in(binding, exists))
    return "\n".join(parts) + "\n"


def _wrapper(binding: Binding, function: _Wrapped, body: list[str]) -> str:
    names = binding.parameters(function)
    kind = "void" if binding.is_fortran else "int"
    head = f"{kind} wrapped_{binding.field(function.name)}({', '.join(f'word {name}' for name in names)})"
    call = f"real.{binding.field(function.name)}({', '.join(names)})"
    unasked = ["MPI_Fint unasked;", "ierror = ierror == 0 ? (word) &unasked : ierror;"]
    lines = [
        f'EXPORTED {head} __asm__("{binding.symbol(function.name)}");', head, "{",
        *(f"    {line}" for line in (*(unasked if binding.is_fortran else ()), *body)),
        "}",
    ]  # fmt: skip
    real = f"({call}, INT(ierror))" if binding.is_fortran else call
    return "\n" + re.sub(r"\bREAL\b", real, "\n".join(lines))


# -- bodies; REAL is the call of MPI's own function with the wrapper's arguments, and its error code ---------

_HAND_ON = "RETURN(REAL);"
_WITH_STATUS = (
    "MPI_Status own;",
    "status = IGNORED(status) ? (word) &own : status;",
    "enter(begun);",
    "int code = REAL;",
    "MPI_Status seen = STATUS(status);",
)
"""Calls a function that tells by its status what the row needs, also where the program wants none."""
_REQUEST = "code == MPI_SUCCESS ? REQUEST_AT(request) : NO_REQUEST"


def _begun_as(call: str) -> list[str]:
    """Return how a row begins; a call that has none is handed on."""
    return [f"struct call *begun = {call};", "if (begun == NULL)", f"    {_HAND_ON}"]


def _then(statement: str, *, call: str = "REAL", condition: str = "code == MPI_SUCCESS") -> list[str]:
    """Return a call, and what follows if it succeeded."""
    return [f"int code = {call};", f"if ({condition})", f"    {statement}", "RETURN(code);"]


def _begun_collective(function: Function) -> list[str]:
    lines = _begun_as(f'collective("{function.operation}", COMM(comm))')
    if function.sent_bytes:
        lines += ["#define call (*begun)", f"call.bytes = {function.sent_bytes};", "#undef call"]
    if "root" in function.parameters:
        lines.append(f"set_root(begun, RANK(root), {'true' if function.root_sends else 'false'});")
    return lines


def _begun_message(function: Function) -> list[str]:
    source = "RANK(source)" if "source" in function.parameters else "MPI_PROC_NULL"
    if "dest" in function.parameters:
        lines = _begun_as(f'message("{function.operation}", COMM(comm), RANK(dest), {source})')
    else:
        lines = _begun_as(f'receive("{function.operation}", COMM(comm), {source})')
    return [*lines, f"begun->bytes = {function.sent_bytes};"] if function.sent_bytes else lines


def _begun(function: Function) -> list[str]:
    is_collective = not {"dest", "source"} & set(function.parameters)
    return (_begun_collective if is_collective else _begun_message)(function)


def _blocking_collective(function: Function) -> list[str]:
    return [*_begun_collective(function), "enter(begun);", "RETURN(leave(begun, REAL));"]


def _blocking_message(function: Function) -> list[str]:
    lines = _begun_message(function)
    if "status" not in function.parameters:
        return [*lines, "enter(begun);", "RETURN(leave_message(begun, REAL, NULL));"]
    return [
        *lines,
        "MPI_Status own, seen;",
        "bool learns = learns_from_status(begun);",
        "status = learns && IGNORED(status) ? (word) &own : status;",
        "enter(begun);",
        "int code = REAL;",
        "if (learns)",
        "    seen = STATUS(status);",
        "RETURN(leave_message(begun, code, learns ? &seen : NULL));",
    ]


def _issues(function: Function) -> list[str]:
    return [
        *_begun(function), "enter(begun);", "int code = REAL;", f"RETURN(issued(begun, code, {_REQUEST}));",
    ]  # fmt: skip


def _prepares(function: Function) -> list[str]:
    return [*_begun(function), "int code = REAL;", f"RETURN(prepared(begun, code, {_REQUEST}));"]


def _probes(function: Function) -> list[str]:
    found = "FLAG(flag)" if "flag" in function.parameters else "true"
    ended = f"leave_probe(begun, code, {found}, &seen)"
    if "message" in function.parameters:
        ended = f"matched(begun, code, {found}, MESSAGE_AT(message), &seen)"
    return [*_begun_message(function), *_WITH_STATUS, f"RETURN({ended});"]


def _receives_matched(function: Function) -> list[str]:
    operation = "RECV" if function.name == "Mrecv" else "IRECV"
    ends = "request" in function.parameters
    ended = f"issued(begun, code, {_REQUEST})" if ends else "leave_message(begun, code, NULL)"
    lines = _begun_as(f'receive_matched("{operation}", MESSAGE_AT(message))')
    return [*lines, "enter(begun);", "int code = REAL;", f"RETURN({ended});"]


_MADE = {
    "newcomm": "group_of(NEW_COMM(newcomm));",
    "new_win": "group_of_handle(A_WINDOW, WIN_AT(new_win));",
    "new_file": "group_of_handle(A_FILE, FILE_AT(new_file));",
}
"""Names the group of what a function made, by the parameter that it is in."""


def _makes(function: Function) -> list[str]:
    made = next(text for name, text in _MADE.items() if name in function.parameters)
    return [*_begun_collective(function), "enter(begun);", *_then(made, call="leave(begun, REAL)")]


def _makes_communicator_of_others(function: Function) -> list[str]:
    return [
        *_begun_as(f'unnumbered("{function.operation}", group_of(COMM(comm)), MPI_PROC_NULL)'),
        "enter(begun);",
        "int code = REAL;",
        "RETURN(leave_as_first(begun, code, code == MPI_SUCCESS ? NEW_COMM(newcomm) : NO_COMM));",
    ]


def _ends_communicator(function: Function) -> list[str]:
    return [
        *_begun_as(f'collective("{function.operation}", NEW_COMM(old_comm))'),
        "keep_group(begun->group);",
        "enter(begun);",
        "int code = leave(begun, REAL);",
        "drop_group(begun->group);",
        "RETURN(code);",
    ]


# -- windows and files ---------------------------------------------------------------------------------------


def _group_of_handle(function: Function) -> str:
    is_window = "win" in function.parameters
    return "group_of_handle(A_WINDOW, WIN(win))" if is_window else "group_of_handle(A_FILE, FILE_(file))"


def _begun_on_all(function: Function) -> list[str]:
    operation = f'"{function.operation}"'
    if function.name == "Win_fence":  # one that ends no epoch need not wait for anybody
        operation = f'INT(assertion) & MPI_MODE_NOPRECEDE ? "WIN_FENCE_NOPRECEDE" : {operation}'
    return _begun_as(f"collective_of({operation}, {_group_of_handle(function)})")


def _on_all(function: Function) -> list[str]:
    sent = [f"begun->bytes = {function.sent_bytes};"] if function.sent_bytes else []
    return [*_begun_on_all(function), *sent, "enter(begun);", "RETURN(leave(begun, REAL));"]


def _reads(function: Function) -> list[str]:
    return [*_begun_on_all(function), *_WITH_STATUS, "RETURN(leave_read(begun, code, &seen));"]


def _on_some(function: Function) -> list[str]:
    rank = "RANK(rank)" if "rank" in function.parameters else "MPI_PROC_NULL"
    lines = _begun_as(f'unnumbered("{function.operation}", {_group_of_handle(function)}, {rank})')
    return [*lines, "enter(begun);", "RETURN(leave(begun, REAL));"]


def _ends_handle(function: Function) -> list[str]:
    is_window = "old_win" in function.parameters
    kind, handle = ("A_WINDOW", "WIN_AT(old_win)") if is_window else ("A_FILE", "FILE_AT(old_file)")
    return [
        f"word handle = {handle};",
        f"struct group *group = group_of_handle({kind}, handle);",
        *_begun_as(f'collective_of("{function.operation}", group)'),
        f"handle_ends({kind}, handle); /* MPI may give it to another */",
        "enter(begun);",
        "int code = leave(begun, REAL);",
        "leave_idle(group);",
        "RETURN(code);",
    ]


# -- MPI as a whole ------------------------------------------------------------------------------------------


def _begins_mpi(function: Function) -> list[str]:
    return ["prepare_timing();", *_then("begin_timing();")]


def _ends_mpi(function: Function) -> list[str]:
    return ["abort_timing(COMM(comm));" if "comm" in function.parameters else "end_timing(true);", _HAND_ON]


# -- what has no row of its own ------------------------------------------------------------------------------


def _counts(function: Function) -> list[str]:
    counts = f'count_untimed("{function.name}");'
    if function.name == "Win_test":
        return _then(counts, condition="code == MPI_SUCCESS && FLAG(flag)")
    return [counts, _HAND_ON]


def _completes(function: CompletionFunction) -> list[str]:
    requests = "requests" if "requests" in function.parameters else "request"
    statuses = "statuses" if "statuses" in function.parameters else "status"
    return [
        f"struct waited waited = begin_wait(BINDING, {requests}, {function.n_requests}, {statuses});",
        f"{statuses} = waited.told;",
        "int code = REAL;",
        f"int n_completed = code == MPI_SUCCESS ? {function.n_completed} : 0;",
        f"RETURN(end_wait(&waited, code, n_completed, {function.indices or '0'}));",
    ]


def _of_request(function: Function) -> list[str]:
    if function.name in ("Request_free", "Cancel"):
        gives_up = "forget" if function.name == "Request_free" else "cancelled"
        return [f"{gives_up}(REQUEST_AT(request));", _HAND_ON]
    given = "requests, INT(count)" if function.name == "Startall" else "request, 1"
    return ["int64_t start_ns = now_ns();", *_then(f"all_started(BINDING, {given}, start_ns);")]


class _Way(NamedTuple):
    """How some functions are wrapped: what writes the bodies, in which bindings, and how each body begins."""

    functions: Sequence[_Wrapped]
    body: Callable[..., list[str]]
    bindings: Sequence[Binding] = BINDINGS
    begins: Sequence[str] = ("if (passes(CALLER))", f"    {_HAND_ON}")


_FIND = ("if (!real.found)", "    find_real(CALLER);")
_WAYS = (
    _Way(table.BLOCKING_COLLECTIVES, _blocking_collective),
    _Way(table.BLOCKING_MESSAGES, _blocking_message),
    _Way(table.ISSUED, _issues),
    _Way(table.PREPARED, _prepares),
    _Way(table.PROBES, _probes),
    _Way(table.MATCHED_RECEIVES, _receives_matched),
    _Way((*table.MAKE_COMMUNICATORS, *table.MAKE_WINDOWS, *table.MAKE_FILES), _makes),
    _Way(table.MAKE_COMMUNICATORS_IN_C, _makes, [C]),
    _Way(table.MAKE_COMMUNICATORS_OF_OTHERS, _makes_communicator_of_others),
    _Way(table.END_COMMUNICATORS, _ends_communicator),
    _Way(table.NAME_COMMUNICATORS_IN_C, lambda _: _then("rename_group(COMM(comm));"), [C]),
    _Way((*table.ON_ALL_OF_A_WINDOW, *table.ON_ALL_OF_A_FILE), _on_all),
    _Way(table.ON_SOME_OF_A_WINDOW, _on_some),
    _Way(table.READS_OF_FILES, _reads),
    _Way(table.END_HANDLES, _ends_handle),
    _Way(table.COUNTED, _counts),
    _Way(table.COMPLETIONS, _completes),
    _Way(table.OF_REQUESTS, _of_request),
    _Way(table.BEGIN_MPI, _begins_mpi, [C], _FIND),
    _Way(table.BEGIN_MPI_IN_FORTRAN, _begins_mpi, [FORTRAN, FORTRAN_2008], _FIND),
    _Way(table.END_MPI, _ends_mpi, [C, FORTRAN, FORTRAN_2008], _FIND),
)
