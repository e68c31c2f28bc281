"""The native core's ring: what goes in comes out, as a record and as a line, in its order."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limits import PROCESS_S
from processes import run_python
from slow import examples

from timing_logger import TimingLogger
from timing_logger.recording.cores import chosen as core
from timing_logger.recording.cores.channel import Channel as PythonChannel
from timing_logger.schema.record import FIELDS, HOST_CLOCK, OK, Record, format_records
from timing_logger.schema.ring_file import read_ring
from timing_logger.sinks.memory import MemorySink

needs_native = pytest.mark.skipif(core.NAME != "native", reason="the native core was not built, or is off")

texts = st.text(st.characters(), max_size=8) | st.sampled_from(
    ["", "a,b", '"', "=x", "ALLREDUCE", "é" * 2000]
)
integers = st.none() | st.integers(-(2**63) - 1, 2**63)
amounts = st.none() | st.integers(-1, 2**64) | st.floats()
instants = st.integers(0, 2**62)
anything = st.one_of(st.none(), st.booleans(), st.floats(), st.binary(), st.just(10**400), st.integers())


@st.composite
def plain_records(draw: st.DrawFn) -> tuple[Any, ...]:
    start_ns = draw(instants)
    end_ns = draw(st.none() | st.integers(start_ns, 2**62))
    of_kind = {"text": texts, "integer": integers, "amount": amounts}
    values = {field.name: draw(of_kind[field.kind]) for field in FIELDS if field.kind in of_kind}
    return tuple(Record(start_ns=start_ns, end_ns=end_ns, metadata=None, **values))


records = plain_records() | st.tuples(*[anything] * len(Record._fields))


def taken(channel: Any) -> tuple[list[tuple[Any, ...]], bytes]:
    """All records that wait, and their lines, as the flush thread takes and writes them."""
    found, lines = [], b""
    while len(channel):
        batch = channel.take_packed(len(channel))
        found += list(batch)
        in_place = getattr(batch, "csv_lines", None)
        lines += in_place(10**18) if in_place else format_records(batch, 10**18).encode()
        channel.release()
    return found, lines


@needs_native
@given(st.lists(records, max_size=40))
@settings(max_examples=examples(100, few=8))
def test_records_and_lines_are_those_of_the_python_core(given_records: list[tuple[Any, ...]]) -> None:
    native, python = core.new_channel(1000), PythonChannel(1000)
    for record in given_records:
        native.put(record)
        python.put(record)
    found, lines = taken(native)
    expected, expected_lines = taken(python)
    assert [tuple(map(repr, record)) for record in found] == [tuple(map(repr, record)) for record in expected]
    assert lines == expected_lines


@needs_native
def test_names_beyond_what_the_ring_holds_are_written_all_the_same() -> None:
    channel = core.new_channel(100_000)
    given_records: list[tuple[Any, ...]] = [
        tuple(Record(None, None, f"layer{i}", "A", "", None, 1, 2, HOST_CLOCK, "", None, None, None, "T", OK))
        for i in range(17_000)  # of which 16,384 have a number in it
    ]
    for record in given_records:
        channel.put(record)
    assert taken(channel)[0] == given_records


@needs_native
def test_threads_that_bring_new_names_at_one_moment_do_not_mix_them_up() -> None:
    channel = core.new_channel(50_000)
    start = threading.Barrier(4)

    def put(thread: int) -> None:
        start.wait()
        for i in range(800):
            name = f"{thread if i % 2 else 'all'} {i}"
            channel.put((i, 0, name, name, "", 8, 1, 2, HOST_CLOCK, "", 1, 1, 1, name, OK, "", None))

    threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval_s)
    found, _ = taken(channel)
    assert len(found) == 3200
    for record in found:
        assert record[2] == record[3] == record[13]
        assert record[2].endswith(f" {record[0]}")


@needs_native
def test_lines_are_whole_that_are_written_while_other_threads_bring_new_names() -> None:
    channel = core.new_channel(50_000)
    done = threading.Event()

    def put(thread: int) -> None:
        for i in range(800):
            name = f"layer {thread} {i}"
            channel.put((i, 0, name, "A", "", 8, 1, 2, HOST_CLOCK, "", 1, 1, 1, name, OK, "", None))

    def write() -> None:
        nonlocal lines
        while not done.is_set() or len(channel):
            found, new = taken(channel)
            records.extend(found)
            lines += new

    records: list[tuple[Any, ...]] = []
    lines = b""
    writer = threading.Thread(target=write)
    threads = [threading.Thread(target=put, args=(number,)) for number in range(3)]
    for thread in (writer, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    writer.join()
    assert len(records) == 2400
    assert lines == format_records(records, 10**18).encode()


@needs_native
def test_a_ring_that_went_round_many_times_has_lost_nothing() -> None:
    channel = core.new_channel(10)
    for i in range(20_000):
        channel.put((i, None, "", "A", "", None, i, i, HOST_CLOCK, "", None, i, None, "T", OK, "", None))
        if i % 7 == 6:
            found, _ = taken(channel)
            assert [record[0] for record in found] == list(range(i - 6, i + 1))


@needs_native
def test_a_part_of_a_batch_has_the_lines_of_that_part() -> None:
    channel = core.new_channel(10)
    for i in range(5):
        channel.put((i, None, "", "A", "", None, i, i, HOST_CLOCK, "", None, i, None, "T", OK, "", None))
    batch: Any = channel.take_packed(5)
    assert batch[2:].csv_lines(10**18) == format_records(list(batch)[2:], 10**18).encode()
    assert [record[0] for record in batch[1:3]] == [1, 2]
    with pytest.raises(IndexError):
        batch[5]


@needs_native
def test_what_a_ring_holds_of_numbers_is_read_from_its_file(tmp_path: Path) -> None:
    plain = Record(3, None, "", "A", "", 2**62, 1, 2, HOST_CLOCK, "", None, 5, -1, "T", OK)
    given_records = [
        tuple(plain._replace(work=work)) for work in (None, 0, 4096, 2**60 + 1, 0.5, 1e300, 4096.0)
    ]
    channel = core.new_channel(10)
    channel.back_by(tmp_path / "a.ring", tmp_path / "timing-rank0.csv", 1, 10**18)  # type: ignore[attr-defined]
    for record in given_records:
        channel.put(record)
    with (tmp_path / "a.ring").open("rb") as file:
        found = read_ring(file.fileno()).records
    assert [tuple(map(repr, record)) for record in found] == [tuple(map(repr, one)) for one in given_records]
    assert taken(channel)[1] == format_records(given_records, 10**18).encode()


@pytest.mark.slow("a program in another language")
@needs_native
@pytest.mark.skipif(shutil.which("localedef") is None, reason="no localedef")
def test_another_decimal_point_of_the_program_changes_no_file(tmp_path: Path) -> None:
    """The functions of C that write numbers take the one of the locale."""
    stated, place = tmp_path / "commas", tmp_path / "commas.UTF-8"
    stated.write_text(COMMAS)
    command = ["localedef", "-c", "-i", stated, "-f", "UTF-8", place]
    subprocess.run(command, timeout=PROCESS_S, stderr=subprocess.DEVNULL)  # it warns of what is not stated
    if not (place / "LC_NUMERIC").exists():
        pytest.skip("the system has no sources of locales")
    done = run_python(LOCALE, environment={"LOCPATH": str(tmp_path)})
    assert done.stdout.split() == ["0,5", "0.5", "0.3333333333333333", "1e+21"], done.stderr


COMMAS = """LC_NUMERIC
decimal_point ","
thousands_sep ""
grouping -1
END LC_NUMERIC
"""

LOCALE = """
import ctypes, locale
from timing_logger.schema.record import COLUMNS, HOST_CLOCK, OK, Record
from timing_logger.recording.cores.chosen import new_channel

locale.setlocale(locale.LC_NUMERIC, "commas.UTF-8")
text = ctypes.create_string_buffer(40)
ctypes.CDLL(None).snprintf(text, 40, b"%g", ctypes.c_double(0.5))
print(text.value.decode())
channel = new_channel(10)
for work in (0.5, 1 / 3, 1e21):
    channel.put(tuple(Record(3, None, "", "A", "", 1, 1, 2, HOST_CLOCK, "", None, 5, -1, "T", OK, work=work)))
for line in channel.take_packed(3).csv_lines(10**18).decode().splitlines():
    print(line.split(",")[COLUMNS.index("work")])
"""


FAULTS = """
import resource
from timing_logger.schema.record import HOST_CLOCK, OK
from timing_logger.recording.cores.chosen import new_channel

def faults_of(action):
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
    action()
    return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - before

def put(n):
    for i in range(n):
        channel.put((i, None, "", "A", "", None, 0, 1, HOST_CLOCK, "", None, i, None, "T", OK, "", None))

def write():
    while len(channel):
        channel.take_packed(8192)
        channel.release()

channel = new_channel(400_000)
put(2000)
print(faults_of(write))
put(20_000)
write()
print(faults_of(lambda: put(20_000)))
"""

SLOTS_OF_A_PAGE = 32


@cache
def faults() -> tuple[int, int]:
    """Return those of who writes 2000 records, and of who then puts 20,000 more after as many."""
    run = run_python(FAULTS)
    of_writing, of_putting = map(int, run.stdout.split())
    return of_writing, of_putting


counts_page_faults = pytest.mark.slow("what it costs in a process of its own; what comes out is quick")


@needs_native
@counts_page_faults
@pytest.mark.skipif(sys.platform != "linux", reason="counts the page faults of a thread")
def test_whoever_writes_records_makes_the_memory_of_the_next_ones_ready() -> None:
    assert faults()[1] < 20_000 / SLOTS_OF_A_PAGE / 4


@needs_native
@counts_page_faults
@pytest.mark.skipif(sys.platform != "linux", reason="counts the page faults of a thread")
def test_a_run_that_records_little_has_little_memory_made_ready() -> None:
    assert faults()[0] < 2 * 2000 / SLOTS_OF_A_PAGE


def test_a_queue_of_a_billion_records_is_native_too_and_needs_memory_for_those_that_wait() -> None:
    sink = MemorySink()
    with TimingLogger(0, None, sinks=[sink], maxsize=10**9) as logger:
        assert type(logger._channel) is core.Channel
        for _ in range(3):
            logger.record_timing("A", 1.0)
        assert logger.flush()
    assert [record.operation for record in sink.records] == ["A"] * 3


@needs_native
def test_a_queue_whose_memory_the_system_refuses_is_an_error_that_names_the_option() -> None:
    run = run_python(
        """
        import resource
        from timing_logger import TimingLogger
        resource.setrlimit(resource.RLIMIT_AS, (2**32, 2**32))
        TimingLogger(0, None, maxsize=10**9, sinks=[object()])
        """
    )
    assert "ConfigurationError: maxsize=1000000000: no memory" in run.stderr


def test_a_recording_call_of_the_native_core_has_the_documentation_of_the_other() -> None:
    from timing_logger.recording.recorder import Recorder

    assert TimingLogger.record_mpi_operation.__doc__ == Recorder.record_mpi_operation.__doc__
