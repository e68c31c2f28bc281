"""What is written in C around each function of MPI, read as text: no compiler and no MPI is needed."""

from __future__ import annotations

import re

import pytest

from timing_logger.native_mpi.wrappers import real_header, wrappers


@pytest.fixture(scope="module")
def of_all() -> str:
    """The wrappers where an MPI has all functions."""
    return wrappers(lambda name: True)


def body(text: str, symbol: str) -> list[str]:
    """Return the lines of the wrapper with this name for the linker, behind those that hand a call on."""
    after = text.partition(f'__asm__("{symbol}");\n')[2]
    lines = [line.strip() for line in after[: after.index("\n}")].splitlines()[2:]]
    if symbol.startswith("mpi_"):  # in Fortran, where the error code may be left out
        assert lines[:2] == ["MPI_Fint unasked;", "ierror = ierror == 0 ? (word) &unasked : ierror;"]
        lines = lines[2:]
    assert lines[0] in ("if (passes(CALLER))", "if (!real.found)")
    return lines[2:]


REAL = {
    "MPI_Send": "real.Send(buf, count, datatype, dest, tag, comm)",
    "MPI_Ssend_c": "real.Ssend_c(buf, count, datatype, dest, tag, comm)",
    "mpi_barrier_": "(real.Barrier_f(comm, ierror), INT(ierror))",
    "mpi_barrier_f08_": "(real.Barrier_f08(comm, ierror), INT(ierror))",
    "mpi_barrier_f08ts_": "(real.Barrier_f08ts(comm, ierror), INT(ierror))",
}


def test_a_blocking_send_is_left_with_what_mpi_returns(of_all: str) -> None:
    assert body(of_all, "MPI_Send") == [
        'struct call *begun = message("SEND", COMM(comm), RANK(dest), MPI_PROC_NULL);',
        "if (begun == NULL)",
        f"RETURN({REAL['MPI_Send']});",
        "begun->bytes = bytes(COUNT(count), TYPE(datatype));",
        "enter(begun);",
        f"RETURN(leave_message(begun, {REAL['MPI_Send']}, NULL));",
    ]


@pytest.mark.parametrize("symbol", [symbol for symbol in REAL if symbol.startswith("mpi_")])
def test_fortran_tells_the_error_code_by_its_last_argument(of_all: str, symbol: str) -> None:
    assert body(of_all, symbol)[-2:] == ["enter(begun);", f"RETURN(leave(begun, {REAL[symbol]}));"]


def test_fortran_passes_the_length_of_a_string_behind_the_error_code(of_all: str) -> None:
    head = next(line for line in of_all.splitlines() if "wrapped_File_set_view_f(" in line)
    assert head.endswith('word info, word ierror, word length_0) __asm__("mpi_file_set_view_");')
    assert "ierror, word length_" not in next(
        line for line in of_all.splitlines() if "wrapped_Send_f(" in line
    )


@pytest.mark.parametrize(
    ("symbol", "begins"),
    [
        ("MPI_Recv", 'receive("RECV", COMM(comm), RANK(source))'),
        ("MPI_Sendrecv", 'message("SENDRECV", COMM(comm), RANK(dest), RANK(source))'),
        ("MPI_Irecv", 'receive("IRECV", COMM(comm), RANK(source))'),
        ("MPI_Recv_init", 'receive("IRECV", COMM(comm), RANK(source))'),
        ("MPI_Send_init", 'message("ISEND", COMM(comm), RANK(dest), MPI_PROC_NULL)'),
        ("MPI_Barrier", 'collective("BARRIER", COMM(comm))'),
        ("MPI_Ibcast", 'collective("IBCAST", COMM(comm))'),
        ("MPI_Allreduce_init", 'collective("IALLREDUCE", COMM(comm))'),
        ("MPI_Comm_idup", 'collective("ICOMM_DUP", COMM(comm))'),
        ("MPI_Mrecv", 'receive_matched("RECV", MESSAGE_AT(message))'),
        ("MPI_Imrecv", 'receive_matched("IRECV", MESSAGE_AT(message))'),
        ("MPI_Win_lock", 'unnumbered("WIN_LOCK", group_of_handle(A_WINDOW, WIN(win)), RANK(rank))'),
        ("MPI_Win_wait", 'unnumbered("WIN_WAIT", group_of_handle(A_WINDOW, WIN(win)), MPI_PROC_NULL)'),
        ("MPI_File_sync", 'collective_of("FILE_SYNC", group_of_handle(A_FILE, FILE_(file)))'),
        (
            "MPI_Win_fence",
            'collective_of(INT(assertion) & MPI_MODE_NOPRECEDE ? "WIN_FENCE_NOPRECEDE" : "WIN_FENCE", '
            "group_of_handle(A_WINDOW, WIN(win)))",
        ),
        ("MPI_Comm_disconnect", 'collective("COMM_DISCONNECT", NEW_COMM(old_comm))'),
        (
            "MPI_Comm_create_group",
            'unnumbered("COMM_CREATE_GROUP", group_of(COMM(comm)), MPI_PROC_NULL)',
        ),
    ],
)
def test_a_row_begins_with_its_operation_its_group_and_its_peers(
    of_all: str, symbol: str, begins: str
) -> None:
    assert body(of_all, symbol)[:2] == [f"struct call *begun = {begins};", "if (begun == NULL)"]


@pytest.mark.parametrize(
    ("symbol", "ends"),
    [
        ("MPI_Recv", "leave_message(begun, code, learns ? &seen : NULL)"),
        ("MPI_Mrecv", "leave_message(begun, code, NULL)"),
        ("MPI_Imrecv", "issued(begun, code, code == MPI_SUCCESS ? REQUEST_AT(request) : NO_REQUEST)"),
        ("MPI_Isend", "issued(begun, code, code == MPI_SUCCESS ? REQUEST_AT(request) : NO_REQUEST)"),
        ("MPI_Send_init", "prepared(begun, code, code == MPI_SUCCESS ? REQUEST_AT(request) : NO_REQUEST)"),
        ("MPI_Probe", "leave_probe(begun, code, true, &seen)"),
        ("MPI_Iprobe", "leave_probe(begun, code, FLAG(flag), &seen)"),
        ("MPI_Mprobe", "matched(begun, code, true, MESSAGE_AT(message), &seen)"),
        ("MPI_Improbe", "matched(begun, code, FLAG(flag), MESSAGE_AT(message), &seen)"),
        ("MPI_File_read_all", "leave_read(begun, code, &seen)"),
        (
            "MPI_Comm_create_group",
            "leave_as_first(begun, code, code == MPI_SUCCESS ? NEW_COMM(newcomm) : NO_COMM)",
        ),
        ("MPI_Waitany", "end_wait(&waited, code, n_completed, index)"),
        ("MPI_Waitall", "end_wait(&waited, code, n_completed, 0)"),
        ("MPI_Abort", "real.Abort(comm, code)"),
    ],
)
def test_a_row_ends_with_what_mpi_tells(of_all: str, symbol: str, ends: str) -> None:
    assert body(of_all, symbol)[-1] == f"RETURN({ends});"


@pytest.mark.parametrize(
    ("symbol", "root"),
    [
        ("MPI_Bcast", "set_root(begun, RANK(root), true);"),
        ("MPI_Scatter", "set_root(begun, RANK(root), true);"),
        ("MPI_Gather", "set_root(begun, RANK(root), false);"),
        ("MPI_Reduce", "set_root(begun, RANK(root), false);"),
    ],
)
def test_a_root_is_told_and_whether_it_sends(of_all: str, symbol: str, root: str) -> None:
    assert root in body(of_all, symbol)


@pytest.mark.parametrize("symbol", ["MPI_Barrier", "MPI_Allreduce", "MPI_Alltoall"])
def test_a_collective_without_a_root_has_none(of_all: str, symbol: str) -> None:
    assert not any("set_root" in line for line in body(of_all, symbol))


@pytest.mark.parametrize(
    ("symbol", "made"),
    [
        ("MPI_Comm_split", "group_of(NEW_COMM(newcomm));"),
        ("MPI_Win_create", "group_of_handle(A_WINDOW, WIN_AT(new_win));"),
        ("MPI_File_open", "group_of_handle(A_FILE, FILE_AT(new_file));"),
        ("MPI_Comm_set_name", "rename_group(COMM(comm));"),
        ("MPI_Startall", "all_started(BINDING, requests, INT(count), start_ns);"),
        ("MPI_Start", "all_started(BINDING, request, 1, start_ns);"),
        ("MPI_Init", "begin_timing();"),
    ],
)
def test_what_follows_from_a_call_follows_only_if_it_succeeded(of_all: str, symbol: str, made: str) -> None:
    lines = body(of_all, symbol)
    assert lines[-3:] == ["if (code == MPI_SUCCESS)", made, "RETURN(code);"]


def test_a_test_of_a_window_counts_if_it_found_it_complete(of_all: str) -> None:
    assert body(of_all, "MPI_Win_test") == [
        "int code = real.Win_test(win, flag);",
        "if (code == MPI_SUCCESS && FLAG(flag))",
        'count_untimed("Win_test");',
        "RETURN(code);",
    ]


@pytest.mark.parametrize(
    ("symbol", "first"),
    [
        ("MPI_Request_free", "forget(REQUEST_AT(request));"),
        ("MPI_Cancel", "cancelled(REQUEST_AT(request));"),
        ("MPI_Abort", "abort_timing(COMM(comm));"),
        ("MPI_Finalize", "end_timing(true);"),
        ("MPI_Win_free", "word handle = WIN_AT(old_win);"),
        ("MPI_File_close", "word handle = FILE_AT(old_file);"),
        ("MPI_Rput", 'count_untimed("Rput");'),
        ("MPI_Waitall", "struct waited waited = begin_wait(BINDING, requests, INT(count), statuses);"),
        ("MPI_Wait", "struct waited waited = begin_wait(BINDING, request, 1, status);"),
    ],
)
def test_what_ends_is_noted_before_the_call(of_all: str, symbol: str, first: str) -> None:
    assert body(of_all, symbol)[0] == first


def test_a_handle_that_ends_is_of_its_own_kind(of_all: str) -> None:
    for symbol, kind in (("MPI_Win_free", "A_WINDOW"), ("MPI_File_close", "A_FILE")):
        lines = body(of_all, symbol)
        assert f"struct group *group = group_of_handle({kind}, handle);" in lines
        assert f"handle_ends({kind}, handle); /* MPI may give it to another */" in lines


def symbols(text: str) -> set[str]:
    return set(re.findall(r'^EXPORTED .*__asm__\("(\w+)"\);$', text, re.MULTILINE))


def test_bindings_without_large_counts_or_of_strings_have_no_wrapper(of_all: str) -> None:
    found = symbols(of_all)
    assert {"MPI_Send_c", "MPI_Recv_c", "MPI_Win_create_c", "mpi_init_", "mpi_init_f08_"} <= found
    assert not {"MPI_Barrier_c", "MPI_Comm_split_c", "MPI_Psend_init_c"} & found
    assert not {"mpi_comm_set_name_", "mpi_comm_spawn_", "mpi_init_f08ts_", "mpi_finalize_f08ts_"} & found


def test_what_an_mpi_does_not_have_is_not_wrapped() -> None:
    has = {"Send", "Barrier", "Barrier_c"}.__contains__
    fortran = {f"mpi_{name}_{suffix}" for name in ("send", "barrier") for suffix in ("", "f08_", "f08ts_")}
    assert symbols(wrappers(has)) == {"MPI_Send", "MPI_Barrier", *fortran}
    assert "MPI_Send_c" in symbols(wrappers({"Send", "Send_c"}.__contains__))


def test_the_functions_of_mpi_are_declared_with_as_many_words_as_they_have_arguments() -> None:
    header = real_header({"Barrier", "Finalize", "File_set_view"}.__contains__)
    six = ", ".join(["word"] * 6)
    for member in (
        "int (*Barrier)(word);",
        "void (*Barrier_f)(word, word);",
        "int (*Finalize)(void);",
        "void (*Finalize_f)(word);",
        f"int (*File_set_view)({six});",
        f"void (*File_set_view_f)({six}, word, word);",
        "int (*Group_translate_ranks)(word, word, word, word, word);",
        "int (*Initialized)(word);",
        "void *(*Comm_f2c)(MPI_Fint);",
    ):
        assert f"    {member}\n" in header
    for found in (
        'FIND(Barrier, "PMPI_Barrier")',
        'FIND(Barrier_f, "pmpi_barrier_")',
        'FIND(Barrier_f08, "pmpi_barrier_f08_")',
        'FIND(Barrier_f08ts, "pmpi_barrier_f08ts_")',
        'FIND(Comm_rank, "PMPI_Comm_rank")',
        'FIND(Type_f2c, "PMPI_Type_f2c")',
    ):
        assert found in header


@pytest.mark.parametrize(
    ("symbol", "sent"),
    [
        ("MPI_Bcast", "call.bytes = bytes(COUNT(count), TYPE(datatype));"),
        ("MPI_Ireduce", "call.bytes = bytes(COUNT(count), TYPE(datatype));"),
        ("MPI_Send", "begun->bytes = bytes(COUNT(count), TYPE(datatype));"),
        ("MPI_Sendrecv", "begun->bytes = bytes(COUNT(sendcount), TYPE(sendtype));"),
        ("MPI_File_write_all", "begun->bytes = bytes(COUNT(count), TYPE(datatype));"),
        ("MPI_Barrier", None),
        ("MPI_Recv", None),
        ("MPI_File_sync", None),
        ("MPI_File_read_all_begin", None),
    ],
)
def test_a_row_has_the_bytes_that_the_rank_sends_if_it_sends_any(
    of_all: str, symbol: str, sent: str | None
) -> None:
    assert [line for line in body(of_all, symbol) if "bytes = " in line] == ([sent] if sent else [])


@pytest.mark.parametrize("symbol", ["MPI_Allreduce", "MPI_Isend", "MPI_Recv", "MPI_Win_lock", "MPI_Mrecv"])
def test_a_row_is_entered_right_before_the_call(of_all: str, symbol: str) -> None:
    lines = body(of_all, symbol)
    assert "real." in lines[lines.index("enter(begun);") + 1]


def test_the_definitions_of_a_binding_replace_those_before_it(of_all: str) -> None:
    for text in ("((int64_t) (int) (w))", "((int64_t) (w))", "((int64_t) *(MPI_Fint *) (w))"):
        assert f"#undef COUNT\n#define COUNT(w) {text}\n" in of_all
    ts = of_all.rpartition("#undef IN_PLACE\n")[2]
    assert ts.startswith("#define IN_PLACE(w) is_fortran_in_place(*(word *) (w))\n")
    assert of_all.count("#define IN_PLACE(w) is_fortran_in_place(w)\n") == 2
