"""Writes the C of the wrappers: one for each function of ``table.py``, in each binding that the MPI has.

A wrapper hands its arguments on as they came. What it reads of them, it reads by what its binding defines:
``COUNT(count)`` is a number in C, and the address of one in Fortran.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from timing_logger.autologging.native_mpi import table
from timing_logger.autologging.native_mpi.table import Completion, Function


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

    def parameters(self, function: Function | Completion) -> tuple[str, ...]:
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
}
_COUNT_OF = {
    "int": {
        "COUNT(w)": "((int64_t) (int) (w))",
        "LARGE_COUNT(w)": "((MPI_Count) (w))",
        "COUNT_BYTES": "((int) sizeof(int))",
    },
    "MPI_Count": {
        "COUNT(w)": "((int64_t) (w))",
        "LARGE_COUNT(w)": "((MPI_Count) (w))",
        "COUNT_BYTES": "((int) sizeof(MPI_Count))",
    },
    "Fortran": {
        "COUNT(w)": "((int64_t) *(MPI_Fint *) (w))",
        "LARGE_COUNT(w)": "(*(MPI_Count *) (w))",
        "COUNT_BYTES": "((int) sizeof(MPI_Fint))",
    },
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
}

C = Binding("C", "MPI_{}".format, str, _IN_C | _COUNT_OF["int"])
LARGE = Binding("C, with large counts", "MPI_{}_c".format, "{}_c".format, _IN_C | _COUNT_OF["MPI_Count"])


def _fortran(title: str, suffix: str) -> Binding:
    return Binding(
        title,
        lambda name: f"mpi_{name.lower()}{suffix}",
        f"{{}}{suffix.rstrip('_') or '_f'}".format,
        _IN_FORTRAN | _COUNT_OF["Fortran"],
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
    members, found = [], []
    for binding, function in _functions(exists):
        n = len(binding.parameters(function))
        kind = "void" if binding.is_fortran else "int"
        members.append(f"    {kind} (*{binding.field(function.name)})({_words(n)});")
        found.append(f'FIND({binding.field(function.name)}, "{_own_entry(binding, function.name)}")')
    for name, n in table.ASKED.items():
        members.append(f"    int (*{name})({_words(n)});")
        found.append(f'FIND({name}, "PMPI_{name}")')
    for name in table.CONVERSIONS:
        members.append(f"    void *(*{name})(MPI_Fint);")
        found.append(f'FIND({name}, "PMPI_{name}")')
    return "\n".join(
        (
            "/* MPI's own functions. Written by wrappers.py. */",
            "extern struct real {",
            "    bool found, unfit;",
            *members,
            "} real;",
            "",
            "#define REAL_FUNCTIONS(FIND) " + " \\\n    ".join(found),
            "",
        )
    )


def _own_entry(binding: Binding, name: str) -> str:
    return binding.symbol(name).replace("MPI_", "PMPI_").replace("mpi_", "pmpi_")


def _functions(exists: Callable[[str], bool]) -> Iterator[tuple[Binding, Function | Completion]]:
    """Yield all that is wrapped, in each binding."""
    for binding in BINDINGS:
        for functions, _ in _WAYS:
            for function in functions:
                if _has(binding, function, exists):
                    yield binding, function
    for function in table.MAKE_COMMUNICATORS_IN_C:
        if exists(function.name):
            yield C, function
    for function in table.OF_THE_PROCESS:
        yield C, function
    for function in table.OF_THE_PROCESS_IN_FORTRAN:
        yield FORTRAN, function
        yield FORTRAN_2008, function


def _has(binding: Binding, function: Function | Completion, exists: Callable[[str], bool]) -> bool:
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
        parts.extend(_defined(name, text) for name, text in binding.definitions.items())
        for functions, body in _WAYS:
            chosen = (f for f in functions if _has(binding, f, exists))
            parts.extend(_wrapper(binding, function, body(binding, function)) for function in chosen)
        if binding is C:
            makers = (one for one in table.MAKE_COMMUNICATORS_IN_C if exists(one.name))
            parts.extend(_wrapper(C, one, _makes_communicator(C, one)) for one in makers)
    return "\n".join(parts) + "\n"


def _defined(name: str, text: str) -> str:
    return f"#undef {name.split('(')[0]}\n#define {name} {text}"


def _wrapper(binding: Binding, function: Function | Completion, body: Iterable[str]) -> str:
    names = binding.parameters(function)
    kind = "void" if binding.is_fortran else "int"
    given = ", ".join(f"word {name}" for name in names)
    head = f"{kind} wrapped_{binding.field(function.name)}({given})"
    return "\n".join(
        (
            "",
            f'EXPORTED {head} __asm__("{binding.symbol(function.name)}");',
            head,
            "{",
            *(
                ("    MPI_Fint unasked;", "    ierror = ierror == 0 ? (word) &unasked : ierror;")
                if binding.is_fortran
                else ()
            ),
            "    if (passes(CALLER))",
            f"        {_untimed(binding, function)}",
            *(f"    {line}" for line in body),
            "}",
        )
    )


def _call(binding: Binding, function: Function | Completion, **replaced: str) -> str:
    """Return the expression that calls MPI's own function, and is its error code."""
    names = [replaced.get(name, name) for name in binding.parameters(function)]
    called = f"real.{binding.field(function.name)}({', '.join(names)})"
    return f"({called}, INT(ierror))" if binding.is_fortran else called


def _ended(binding: Binding, expression: str) -> str:
    return f"{expression};" if binding.is_fortran else f"return {expression};"


def _untimed(binding: Binding, function: Function | Completion) -> str:
    """Return the statement that hands the call on as it came."""
    names = binding.parameters(function)
    called = f"real.{binding.field(function.name)}({', '.join(names)});"
    return f"{{ {called} return; }}" if binding.is_fortran else f"return {called}"


def _untimed_without(binding: Binding, function: Function, pointer: str) -> list[str]:
    return [f"if ({pointer} == NULL)", f"    {_untimed(binding, function)}"]


def _begun_collective(binding: Binding, function: Function) -> list[str]:
    begun = f'struct call *begun = collective("{function.operation}", COMM(comm));'
    lines = [begun, *_untimed_without(binding, function, "begun")]
    if function.sent_bytes:
        lines += ["#define call (*begun)", f"call.bytes = {function.sent_bytes};", "#undef call"]
    if "root" in function.parameters:
        lines.append(f"set_root(begun, RANK(root), {'true' if function.root_sends else 'false'});")
    return lines


def _begun_message(binding: Binding, function: Function) -> list[str]:
    source = "RANK(source)" if "source" in function.parameters else "MPI_PROC_NULL"
    if "dest" in function.parameters:
        begun = f'message("{function.operation}", COMM(comm), RANK(dest), {source})'
    else:
        begun = f'receive("{function.operation}", COMM(comm), {source})'
    lines = [f"struct call *begun = {begun};", *_untimed_without(binding, function, "begun")]
    return [*lines, f"begun->bytes = {function.sent_bytes};"] if function.sent_bytes else lines


def _begun(binding: Binding, function: Function) -> list[str]:
    is_collective = not {"dest", "source"} & set(function.parameters)
    return (_begun_collective if is_collective else _begun_message)(binding, function)


def _blocking_collective(binding: Binding, function: Function) -> list[str]:
    return [
        *_begun_collective(binding, function),
        "enter(begun);",
        _ended(binding, f"leave(begun, {_call(binding, function)})"),
    ]


def _blocking_message(binding: Binding, function: Function) -> list[str]:
    lines = _begun_message(binding, function)
    if "status" not in function.parameters:
        ended = f"leave_message(begun, {_call(binding, function)}, NULL)"
        return [*lines, "enter(begun);", _ended(binding, ended)]
    return [
        *lines,
        "MPI_Status own;",
        "bool learns = learns_from_status(begun);",
        "word told = learns && IGNORED(status) ? (word) &own : status;",
        "enter(begun);",
        f"int code = {_call(binding, function, status='told')};",
        "MPI_Status seen;",
        "if (learns)",
        "    seen = STATUS(told);",
        _ended(binding, "leave_message(begun, code, learns ? &seen : NULL)"),
    ]


def _issues(binding: Binding, function: Function) -> list[str]:
    return [
        *_begun(binding, function),
        "enter(begun);",
        f"int code = {_call(binding, function)};",
        _ended(binding, "issued(begun, code, code == MPI_SUCCESS ? REQUEST_AT(request) : NO_REQUEST)"),
    ]


def _prepares(binding: Binding, function: Function) -> list[str]:
    return [
        *_begun(binding, function),
        f"int code = {_call(binding, function)};",
        _ended(binding, "prepared(begun, code, code == MPI_SUCCESS ? REQUEST_AT(request) : NO_REQUEST)"),
    ]


def _probes(binding: Binding, function: Function) -> list[str]:
    found = "FLAG(flag)" if "flag" in function.parameters else "true"
    ended = f"leave_probe(begun, code, {found}, &seen)"
    if "message" in function.parameters:
        ended = f"matched(begun, code, {found}, MESSAGE_AT(message), &seen)"
    return [
        *_begun_message(binding, function),
        "MPI_Status own;",
        "word told = IGNORED(status) ? (word) &own : status;",
        "enter(begun);",
        f"int code = {_call(binding, function, status='told')};",
        "MPI_Status seen = STATUS(told);",
        _ended(binding, ended),
    ]


def _receives_matched(binding: Binding, function: Function) -> list[str]:
    operation = "RECV" if function.name == "Mrecv" else "IRECV"
    lines = [
        f'struct call *begun = receive_matched("{operation}", MESSAGE_AT(message));',
        *_untimed_without(binding, function, "begun"),
        "enter(begun);",
        f"int code = {_call(binding, function)};",
    ]
    if "request" in function.parameters:
        ended = "issued(begun, code, code == MPI_SUCCESS ? REQUEST_AT(request) : NO_REQUEST)"
    else:
        ended = "leave_message(begun, code, NULL)"
    return [*lines, _ended(binding, ended)]


def _returned(binding: Binding) -> str:
    return "return;" if binding.is_fortran else "return code;"


def _makes_communicator(binding: Binding, function: Function) -> list[str]:
    return [
        *_begun_collective(binding, function),
        "enter(begun);",
        f"int code = leave(begun, {_call(binding, function)});",
        "if (code == MPI_SUCCESS)",
        "    group_of(NEW_COMM(newcomm));",
        _returned(binding),
    ]


def _makes_communicator_of_others(binding: Binding, function: Function) -> list[str]:
    return [
        f'struct call *begun = unnumbered("{function.operation}", group_of(COMM(comm)), MPI_PROC_NULL);',
        *_untimed_without(binding, function, "begun"),
        "enter(begun);",
        f"int code = {_call(binding, function)};",
        _ended(binding, "leave_as_first(begun, code, code == MPI_SUCCESS ? NEW_COMM(newcomm) : NO_COMM)"),
    ]


def _ends_communicator(binding: Binding, function: Function) -> list[str]:
    return [
        f'struct call *begun = collective("{function.operation}", NEW_COMM(old_comm));',
        *_untimed_without(binding, function, "begun"),
        "keep_group(begun->group);",
        "enter(begun);",
        f"int code = leave(begun, {_call(binding, function)});",
        "drop_group(begun->group);",
        _returned(binding),
    ]


# -- windows and files ---------------------------------------------------------------------------------------


def _kind(function: Function) -> str:
    return "A_WINDOW" if function.name.startswith("Win_") else "A_FILE"


def _group_of_handle(function: Function) -> str:
    handle = "WIN(win)" if _kind(function) == "A_WINDOW" else "FILE_(file)"
    return f"group_of_handle({_kind(function)}, {handle})"


def _makes_handle(binding: Binding, function: Function) -> list[str]:
    made = "WIN_AT(new_win)" if _kind(function) == "A_WINDOW" else "FILE_AT(new_file)"
    return [
        *_begun_collective(binding, function),
        "enter(begun);",
        f"int code = leave(begun, {_call(binding, function)});",
        "if (code == MPI_SUCCESS)",
        f"    group_of_handle({_kind(function)}, {made});",
        _returned(binding),
    ]


def _on_all(binding: Binding, function: Function) -> list[str]:
    operation = f'"{function.operation}"'
    if function.name == "Win_fence":  # one that ends no epoch need not wait for anybody
        operation = f'INT(assertion) & MPI_MODE_NOPRECEDE ? "WIN_FENCE_NOPRECEDE" : {operation}'
    lines = [
        f"struct call *begun = collective_of({operation}, {_group_of_handle(function)});",
        *_untimed_without(binding, function, "begun"),
    ]
    if function.sent_bytes:
        lines.append(f"begun->bytes = {function.sent_bytes};")
    return [*lines, "enter(begun);", _ended(binding, f"leave(begun, {_call(binding, function)})")]


def _reads(binding: Binding, function: Function) -> list[str]:
    return [
        f'struct call *begun = collective_of("{function.operation}", {_group_of_handle(function)});',
        *_untimed_without(binding, function, "begun"),
        "MPI_Status own;",
        "word told = IGNORED(status) ? (word) &own : status;",
        "enter(begun);",
        f"int code = {_call(binding, function, status='told')};",
        "MPI_Status seen = STATUS(told);",
        _ended(binding, "leave_read(begun, code, &seen)"),
    ]


def _on_some(binding: Binding, function: Function) -> list[str]:
    rank = "RANK(rank)" if "rank" in function.parameters else "MPI_PROC_NULL"
    return [
        f'struct call *begun = unnumbered("{function.operation}", {_group_of_handle(function)}, {rank});',
        *_untimed_without(binding, function, "begun"),
        "enter(begun);",
        _ended(binding, f"leave(begun, {_call(binding, function)})"),
    ]


def _ends_handle(binding: Binding, function: Function) -> list[str]:
    handle = "WIN_AT(old_win)" if _kind(function) == "A_WINDOW" else "FILE_AT(old_file)"
    return [
        f"word handle = {handle};",
        f"struct group *group = group_of_handle({_kind(function)}, handle);",
        f'struct call *begun = collective_of("{function.operation}", group);',
        *_untimed_without(binding, function, "begun"),
        f"handle_ends({_kind(function)}, handle); /* MPI may give it to another */",
        "enter(begun);",
        f"int code = leave(begun, {_call(binding, function)});",
        "leave_idle(group);",
        _returned(binding),
    ]


def _counts(binding: Binding, function: Function) -> list[str]:
    counts = f'count_untimed("{function.name}");'
    if function.name != "Win_test":
        return [counts, _untimed(binding, function)]
    return [
        f"int code = {_call(binding, function)};",
        "if (code == MPI_SUCCESS && FLAG(flag))",
        f"    {counts}",
        _returned(binding),
    ]


def _completes(binding: Binding, function: Completion) -> list[str]:
    requests = "requests" if "requests" in function.parameters else "request"
    statuses = "statuses" if "statuses" in function.parameters else "status"
    return [
        f"struct waited waited = begin_wait(BINDING, {requests}, {function.n_requests}, {statuses});",
        f"int code = {_call(binding, function, **{statuses: 'waited.told'})};",
        f"int n_completed = code == MPI_SUCCESS ? {function.n_completed} : 0;",
        _ended(binding, f"end_wait(&waited, code, n_completed, {function.indices or '0'})"),
    ]


def _of_request(binding: Binding, function: Function) -> list[str]:
    if function.name == "Request_free":
        return ["forget(REQUEST_AT(request));", _untimed(binding, function)]
    if function.name == "Cancel":
        return ["cancelled(REQUEST_AT(request));", _untimed(binding, function)]
    n = "INT(count)" if function.name == "Startall" else "1"
    requests = "requests" if function.name == "Startall" else "request"
    return [
        "int64_t start_ns = now_ns();",
        f"int code = {_call(binding, function)};",
        "if (code == MPI_SUCCESS)",
        f"    all_started(BINDING, {requests}, {n}, start_ns);",
        _returned(binding),
    ]


_WAYS: tuple[tuple[tuple[Function | Completion, ...], Callable[..., list[str]]], ...] = (
    (table.BLOCKING_COLLECTIVES, _blocking_collective),
    (table.BLOCKING_MESSAGES, _blocking_message),
    (table.ISSUED, _issues),
    (table.PREPARED, _prepares),
    (table.PROBES, _probes),
    (table.MATCHED_RECEIVES, _receives_matched),
    (table.MAKE_COMMUNICATORS, _makes_communicator),
    (table.MAKE_COMMUNICATORS_OF_OTHERS, _makes_communicator_of_others),
    (table.END_COMMUNICATORS, _ends_communicator),
    (table.MAKE_WINDOWS, _makes_handle),
    (table.MAKE_FILES, _makes_handle),
    (table.ON_ALL_OF_A_WINDOW, _on_all),
    (table.ON_ALL_OF_A_FILE, _on_all),
    (table.ON_SOME_OF_A_WINDOW, _on_some),
    (table.READS_OF_FILES, _reads),
    (table.END_HANDLES, _ends_handle),
    (table.COUNTED, _counts),
    (table.COMPLETIONS, _completes),
    (table.OF_REQUESTS, _of_request),
)
