# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, binding=True
"""The classes of the Python core, in C: see timing_logger/recording/python_core.py for what each means.

A record is packed into a slot of a ring (csrc/ring.h), and its line is written from there without the
interpreter's lock. What no slot can hold as it is (a number of NumPy, an interval of a device, metadata) is
kept as a tuple, and its slot says so: one order, and one path for what is odd.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.contextvars cimport PyContextVar_Get
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

import os
from threading import get_ident

from timing_logger.record import (
    HOST_CLOCK, MAX_TEXT_CHARS, OK, UNRESOLVED, escape_text, name_cell, operation_cell,
    stated_interval,
)
from timing_logger.recording.channel import ChannelCounts
from timing_logger.recording.no_span import NO_SPAN as _NO_SPAN
from timing_logger.recording.protocols import has_ended

cdef extern from "csrc/ring.h" nogil:
    enum: N_NAMES, N_NUMBERS, HAS_END, ELSEWHERE, RING_MOST_NAMES, RING_PATH_BYTES, RING_MAGIC, RING_MOST_OPEN
    enum: LAYER_NAME, OPERATION, PHASE, CLOCK, GROUP, THREAD, STATUS, STREAM
    enum: ITERATION, EPOCH, SIZE, GROUP_SIZE, SEQ, PEER

    ctypedef struct Slot:
        uint64_t ticket
        int64_t start_ns
        int64_t end_ns
        int64_t numbers[6]
        uint16_t names[8]
        uint32_t has

    ctypedef struct Header:
        uint64_t magic
        int64_t started_unix_ns
        int64_t wall_offset_ns
        uint64_t head
        uint64_t taken
        uint64_t released
        uint64_t open
        char path[3072]

    ctypedef struct Ring:
        Header *header
        Slot *slots
        uint64_t n_slots
        int descriptor

    int ring_open(Ring *ring, const char *path, uint64_t n_slots)
    int ring_abandon(Ring *ring)
    void ring_close(Ring *ring)
    int ring_add_name(Ring *ring, const char *utf8, size_t n_bytes)
    void ring_keep_open(Ring *ring, const Slot *calls, uint64_t n_calls)
    void ring_put(Ring *ring, const Slot *record)

cdef extern from "csrc/csv_lines.h" nogil:
    ctypedef struct Cell:
        const char *text
        uint32_t n_bytes

    ctypedef struct Cells:
        Cell *plain
        Cell *upper
        uint32_t longest

    size_t csv_most_bytes(const Cells *cells, size_t n_records)
    size_t csv_lines(const Ring *ring, const Cells *cells, uint64_t first, size_t n_records,
                     int64_t wall_offset_ns, char *out)

cdef extern from "csrc/clock.h" nogil:
    int64_t perf_counter_ns()

cdef extern from "csrc/this_thread.h":
    PyObject *caller_of_this_thread(uint64_t recorder)
    void remember_caller(uint64_t recorder, PyObject *caller)

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    PyObject *PyTuple_GET_ITEM(object tuple, Py_ssize_t position)
    PyObject *PyBytes_FromStringAndSize(const char *text, Py_ssize_t size)
    int _PyBytes_Resize(PyObject **bytes, Py_ssize_t size) except -1

cdef enum:
    CHUNK = 8192 # the most records of a batch ...
    MOST_BYTES = 1 << 24 # ... and bytes of its lines
    SEEN_BITS = 15
    SEEN = 1 << SEEN_BITS # twice the most names
    DEEPEST = 1000 # the most open calls of one thread that are followed, in case blocks are entered and never left

cdef int64_t LAST_INSTANT_NS = 2 ** 62
cdef double NS_PER_MS = 1e6
cdef object NOT_A_NUMBER = float("nan")
cdef long long LARGEST = 2 ** 63 - 1


cdef class Names:
    """The names of a ring, by number: found by identity, else by value."""

    cdef Cells cells
    cdef PyObject **seen       # an open hash table of the texts' addresses ...
    cdef uint16_t *seen_number # ... and the number of each
    cdef dict by_value
    cdef list kept             # what the cells and addresses point to
    cdef PyObject **address    # of each text, by number

    def __cinit__(self):
        self.cells.plain = <Cell *> calloc(RING_MOST_NAMES, sizeof(Cell))
        self.cells.upper = <Cell *> calloc(RING_MOST_NAMES, sizeof(Cell))
        self.seen = <PyObject **> calloc(SEEN, sizeof(PyObject *))
        self.seen_number = <uint16_t *> calloc(SEEN, sizeof(uint16_t))
        self.address = <PyObject **> calloc(RING_MOST_NAMES, sizeof(PyObject *))
        if not (self.address and self.cells.plain and self.cells.upper and self.seen and self.seen_number):
            raise MemoryError
        self.by_value = {}
        self.kept = []

    def __dealloc__(self):
        free(self.cells.plain)
        free(self.cells.upper)
        free(self.seen)
        free(self.address)
        free(self.seen_number)

    cdef inline int number(self, Ring *ring, object text) except -2:
        """Return the number of a text; -1 if it is no text, or there is no room for another."""
        cdef uintptr_t at = _place(<PyObject *> text)
        while self.seen[at] != NULL:
            if self.seen[at] == <PyObject *> text:
                return self.seen_number[at]
            at = (at + 1) & (SEEN - 1)
        return self.number_by_value(ring, text)

    cdef int number_by_value(self, Ring *ring, object text) except -2:
        if type(text) is not str:
            return -1
        found = self.by_value.get(text)
        if found is not None:
            return found
        stored = escape_text(text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS - 1] + "…").encode()
        plain, upper = name_cell(text).encode(), operation_cell(text).encode()
        kept = (text, plain, upper)
        found = self.by_value.get(text) # another thread may have been here meanwhile
        return self.new_number(ring, stored, kept) if found is None else found

    cdef int new_number(self, Ring *ring, bytes stored, tuple kept) except -2:
        """Add a name, in one step: nothing here can run Python code."""
        cdef PyObject *text = PyTuple_GET_ITEM(kept, 0)
        cdef uintptr_t at = _place(text)
        cdef int number = len(self.kept)
        if ring_add_name(ring, PyBytes_AS_STRING(stored), len(stored)):
            return -1
        self.kept.append(kept)
        self.by_value[<object> text] = number
        self.cells.plain[number] = _cell(PyTuple_GET_ITEM(kept, 1))
        self.cells.upper[number] = _cell(PyTuple_GET_ITEM(kept, 2))
        self.cells.longest = max(
            self.cells.longest, self.cells.plain[number].n_bytes, self.cells.upper[number].n_bytes
        )
        self.address[number] = text
        while self.seen[at] != NULL:
            at = (at + 1) & (SEEN - 1)
        self.seen[at] = text
        self.seen_number[at] = number
        return number


cdef inline uintptr_t _place(PyObject *text):
    return ((<uintptr_t> text >> 4) * <uintptr_t> 0x9e3779b97f4a7c15) >> (64 - SEEN_BITS)


cdef inline Cell _cell(PyObject *encoded):
    cdef Cell cell
    cell.text = PyBytes_AS_STRING(<object> encoded)
    cell.n_bytes = PyBytes_GET_SIZE(<object> encoded)
    return cell


cdef class Channel:
    """The queue between recording threads and the flush thread: a ring, which a file may back.

    When it is full, the newest record is counted and discarded.
    """

    cdef Ring ring
    cdef Names names
    cdef public uint64_t capacity
    cdef uint64_t n_overflows
    cdef dict elsewhere # what no slot can hold, by position
    cdef object path
    cdef PyObject *last[N_NAMES] # of each column
    cdef uint16_t last_number[N_NAMES]

    def __cinit__(self, capacity):
        self.ring.descriptor = -1
        self.capacity = capacity
        self.names = Names()
        self.elsewhere = {}
        failed = ring_open(&self.ring, NULL, self.capacity + CHUNK)
        if failed:
            raise MemoryError(f"no memory for {capacity} records")

    def __dealloc__(self):
        ring_close(&self.ring)

    def back_by(self, path, timing_file, int64_t started_unix_ns, int64_t wall_offset_ns):
        """Keep the records in a new file, so that they outlive the process. Called before any is put.

        Raises:
            OSError: the file cannot be made, or there is no room for it.
        """
        cdef Ring ring
        cdef bytes name = os.fsencode(path), of = os.fsencode(timing_file)
        memset(&ring, 0, sizeof(ring))
        if len(of) >= RING_PATH_BYTES:
            raise OSError(36, "the path of the timing file is too long", timing_file)
        failed = ring_open(&ring, name, self.capacity + CHUNK)
        if failed:
            raise OSError(failed, os.strerror(failed), path)
        ring.header.started_unix_ns = started_unix_ns
        ring.header.wall_offset_ns = wall_offset_ns
        memcpy(ring.header.path, PyBytes_AS_STRING(of), len(of) + 1)
        ring.header.magic = RING_MAGIC
        ring_close(&self.ring)
        self.ring, self.path = ring, path

    # -- putting --------------------------------------------------------------------------------------

    def put(self, record):
        """Queue ``record``, or count it as overflowed. Never blocks or raises."""
        cdef Slot slot
        if self.is_full():
            self.n_overflows += 1
        elif self.packed(&slot, record):
            ring_put(&self.ring, &slot)
        else:
            self.put_elsewhere(record)

    def keep_open(self, records):
        """Have the file say which calls are open now, by the records that they would leave."""
        cdef Slot slots[RING_MOST_OPEN]
        cdef uint64_t count = 0
        for record in records:
            if count < RING_MOST_OPEN and self.packed(&slots[count], record):
                count += 1
        if count or self.ring.header.open >= 2:
            ring_keep_open(&self.ring, slots, count)

    def count_overflow(self):
        """Count a record that is not put."""
        self.n_overflows += 1

    cdef inline bint is_full(self):
        return self.ring.header.head - self.ring.header.taken >= self.capacity

    cdef int put_elsewhere(self, record) except -1:
        cdef Slot slot
        memset(&slot, 0, sizeof(slot))
        slot.has = ELSEWHERE
        self.elsewhere[self.ring.header.head] = record
        ring_put(&self.ring, &slot)
        return 0

    cdef bint packed(self, Slot *slot, record) except -1:
        """Fill a slot with a record, and return whether it can hold it."""
        cdef int64_t start = -1, end = -1
        (iteration, epoch, layer_name, operation, phase, size, start_ns, end_ns, clock, group, group_size, seq,
         peer, thread, status, stream, metadata) = record
        return (
            metadata is None and _instant(start_ns, &start) and (end_ns is None or _instant(end_ns, &end))
            and self.pack(slot, iteration, epoch, layer_name, operation, phase, size, start, end, clock, group,
                          group_size, seq, peer, thread, status, stream)
        )

    cdef inline bint pack(
        self, Slot *slot, object iteration, object epoch, object layer_name, object operation, object phase,
        object size, int64_t start_ns, int64_t end_ns, object clock, object group, object group_size, object seq,
        object peer, object thread, object status, object stream,
    ) except -1:
        """Fill a slot, and return whether it can hold the record. An end of -1 is none."""
        memset(slot, 0, sizeof(Slot))
        slot.has = HAS_END if end_ns >= 0 else 0
        if start_ns < 0 or end_ns > LAST_INSTANT_NS or (end_ns >= 0 and end_ns < start_ns):
            return False
        slot.start_ns = start_ns
        slot.end_ns = end_ns
        return (
            self.name(slot, LAYER_NAME, layer_name) and self.name(slot, OPERATION, operation)
            and self.name(slot, PHASE, phase) and self.name(slot, CLOCK, clock) and self.name(slot, GROUP, group)
            and self.name(slot, THREAD, thread) and self.name(slot, STATUS, status)
            and self.name(slot, STREAM, stream)
            and _number(slot, ITERATION, iteration) and _number(slot, EPOCH, epoch) and _number(slot, SIZE, size)
            and _number(slot, GROUP_SIZE, group_size) and _number(slot, SEQ, seq) and _number(slot, PEER, peer)
        )

    cdef inline bint name(self, Slot *slot, int which, object text) except -1:
        cdef int number
        if <PyObject *> text == self.last[which]: # most columns have the same text in row after row
            slot.names[which] = self.last_number[which]
            return True
        number = self.names.number(&self.ring, text)
        if number < 0:
            return False
        slot.names[which] = self.last_number[which] = <uint16_t> number
        self.last[which] = self.names.address[number] # which lives on, as `text` may not
        return True

    # -- taking ---------------------------------------------------------------------------------------

    def take(self, uint64_t limit):
        """Remove and return the oldest records, at most ``limit``."""
        cdef uint64_t first = self.ring.header.taken
        cdef uint64_t count = min(limit, self.ring.header.head - first)
        records = [self.record_at(first + i) for i in range(count)]
        for i in range(count):
            self.elsewhere.pop(first + i, None)
        self.ring.header.taken = first + count
        return records

    def take_packed(self, uint64_t limit):
        """Remove and return the oldest records as a batch that knows its lines, or as a list if some are odd."""
        cdef uint64_t first = self.ring.header.taken, n_odd = 0, i
        cdef uint64_t most = max(1, MOST_BYTES // csv_most_bytes(&self.names.cells, 1))
        cdef uint64_t count = min(limit, min(CHUNK, most), self.ring.header.head - first)
        cdef uint64_t first_odd = count
        cdef Batch batch
        for i in range(count):
            if self.slot_at(first + i).has & ELSEWHERE:
                n_odd += 1
                first_odd = min(first_odd, i)
        if first_odd == 0 or n_odd * 16 > count:
            return self.take(min(count, 1024))
        batch = Batch.__new__(Batch)
        batch.channel, batch.first, batch.count = self, first, first_odd
        self.ring.header.taken = first + first_odd
        return batch

    def release(self):
        """Give the room of all records that were taken to new ones: they are written."""
        self.ring.header.released = self.ring.header.taken

    cdef inline Slot *slot_at(self, uint64_t position):
        return &self.ring.slots[position % self.ring.n_slots]

    cdef object record_at(self, uint64_t position):
        cdef Slot *slot = self.slot_at(position)
        if slot.has & ELSEWHERE:
            return self.elsewhere[position]
        names = [self.names.kept[slot.names[i]][0] for i in range(N_NAMES)]
        numbers = [slot.numbers[i] if slot.has & (1 << i) else None for i in range(N_NUMBERS)]
        return (
            numbers[ITERATION], numbers[EPOCH], names[LAYER_NAME], names[OPERATION], names[PHASE], numbers[SIZE],
            slot.start_ns, slot.end_ns if slot.has & HAS_END else None, names[CLOCK], names[GROUP],
            numbers[GROUP_SIZE], numbers[SEQ], numbers[PEER], names[THREAD], names[STATUS], names[STREAM], None,
        )

    # -- state ----------------------------------------------------------------------------------------

    @property
    def oldest(self):
        """The oldest record that waits; None if none does."""
        cdef uint64_t first = self.ring.header.taken
        return self.record_at(first) if first < self.ring.header.head else None

    def close(self):
        """Let every record put from now on overflow; records that wait can still be taken."""
        self.capacity = 0

    def remove_file(self):
        """Remove the file that backs the channel, if there is one: all that it held is written."""
        if self.path is not None:
            path, self.path = self.path, None
            ring_abandon(&self.ring)
            try:
                os.unlink(path)
            except OSError:
                pass

    def abandon(self):
        """Close the channel and discard the waiting records: in a forked child they belong to the parent."""
        self.capacity = 0
        self.path = None
        ring_abandon(&self.ring)
        self.ring.header.head = self.ring.header.taken
        self.elsewhere.clear()

    def counts(self):
        """Return counts that are consistent with each other."""
        cdef uint64_t head = self.ring.header.head
        return ChannelCounts(head + self.n_overflows, self.n_overflows, head - self.ring.header.taken)

    def __len__(self):
        return self.ring.header.head - self.ring.header.taken


cdef inline bint _number(Slot *slot, int which, object value) except -1:
    """Put a number, or None; return False if it is neither, or has more than 64 bits."""
    cdef int overflow = 0
    cdef long long number
    if value is None:
        return True
    if type(value) is not int:
        return False
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or number == -LARGEST - 1:
        return False
    slot.numbers[which] = number
    slot.has |= 1 << which
    return True


cdef inline bint _instant(object value, int64_t *instant) except -1:
    cdef int overflow = 0
    if type(value) is not int:
        return False
    instant[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    return not overflow and instant[0] >= 0


cdef class Batch:
    """Records of a channel that are being written: a sequence of records, valid until they are released."""

    cdef Channel channel
    cdef uint64_t first, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        cdef Batch part
        if isinstance(index, slice):
            begin, end, _ = index.indices(self.count)
            part = Batch.__new__(Batch)
            part.channel, part.first, part.count = self.channel, self.first + begin, max(0, end - begin)
            return part
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self.channel.record_at(self.first + index)

    def csv_lines(self, int64_t wall_offset_ns):
        """Return the lines of the records, as ``format_records`` has them, encoded."""
        cdef size_t most = csv_most_bytes(&self.channel.names.cells, self.count)
        cdef PyObject *lines = PyBytes_FromStringAndSize(NULL, most)
        cdef char *out
        cdef size_t n_bytes
        if lines == NULL:
            raise MemoryError
        out = PyBytes_AS_STRING(<object> lines)
        self.channel.ring.header.wall_offset_ns = wall_offset_ns = max(wall_offset_ns, NS_PER_S)
        with nogil:
            n_bytes = csv_lines(&self.channel.ring, &self.channel.names.cells, self.first, self.count,
                                wall_offset_ns, out)
        _PyBytes_Resize(&lines, n_bytes)
        cut = <object> lines
        Py_DECREF(cut)
        return cut


# -- calls that have not ended ---------------------------------------------------------------------------


cdef class Caller:
    """What a record takes from its thread: the thread's name, and the calls that it is in."""

    cdef public object thread, channel
    cdef public set running
    cdef public OpenCall innermost

    def __init__(self, thread, channel, set running):
        self.channel = channel
        self.running = running
        setattr(self, "thread", thread)  # a subclass may look it up each time

    def calls(self):
        """Return the open calls of the thread, the innermost first."""
        cdef OpenCall call = self.innermost
        found = []
        for _ in range(DEEPEST):
            if call is None:
                return found
            if call.is_open:
                found.append(call)
            call = call.outer
        if call is not None:
            call.outer = None
        return found


cdef class OpenCall:
    """A call that some thread has entered and, as long as it has no end, not left."""

    cdef public Caller caller
    cdef public OpenCall outer
    cdef int64_t start, end # -1 where not set

    def __cinit__(self, *_, **__):
        self.start = self.end = -1

    @property
    def start_ns(self):
        if self.start < 0:
            raise AttributeError("start_ns")
        return self.start

    @start_ns.setter
    def start_ns(self, int64_t value):
        self.start = value

    @property
    def end_ns(self):
        if self.end < 0:
            raise AttributeError("end_ns")
        return self.end

    @end_ns.setter
    def end_ns(self, int64_t value):
        self.end = value

    def enter(self):
        """Begin the call now, as the innermost one of its thread."""
        self.link()
        self.start = perf_counter_ns()

    def leave(self):
        """End the call now and return that instant in ns."""
        self.end = perf_counter_ns()
        self.out()
        return self.end

    cdef inline void link(self):
        self.outer = self.caller.innermost
        self.caller.innermost = self

    cdef inline void out(self):
        if self.caller.innermost is self:
            self.caller.innermost = self.outer
        else:
            self.unlink()

    cpdef unlink(self):
        """Leave while a call that was entered later is still open, as generators and tasks do."""
        cdef OpenCall inner = self.caller.innermost
        while inner is not None:
            if inner.outer is self:
                inner.outer = self.outer
                return
            inner = inner.outer

    @property
    def is_open(self):
        """Whether the call has a start time and no end time yet."""
        return self.start >= 0 and self.end < 0

    def open_records(self, status):
        """Return the records of the call as far as they are known before it has ended."""
        raise NotImplementedError

    def write_open(self, status):
        """Write the records of the call as far as they are known, with ``status``."""
        for record in self.open_records(status):
            self.caller.channel.put(record)

    def leave_running(self):
        """Mark the operation as one that goes on when its call returns, until :meth:`claim` takes it."""
        self.caller.running.add(self)

    def claim(self):
        """Return whether the calling thread is the one to write this operation: at most one thread gets True."""
        try:
            self.caller.running.remove(self)
        except KeyError:
            return False
        return True


cdef class Span(OpenCall):
    """A block that will be recorded."""

    cdef public object thread, operation, message_size_bytes, layer_name, phase, iteration, epoch, group
    cdef public object group_size, seq, peer

    @property
    def elapsed_ms(self):
        """Duration of the block, in ms; NaN while it is open."""
        return NOT_A_NUMBER if self.end < 0 or self.start < 0 else (self.end - self.start) / NS_PER_MS

    @cython.binding(False)
    def __enter__(self):
        self.link()
        self.start = perf_counter_ns()
        return self

    @cython.binding(False)
    def __exit__(self, kind, error, traceback):
        self.end = perf_counter_ns()
        self.out()
        self.put(self.operation, self.start, self.end, HOST, OK_ if kind is None else "error:" + kind.__name__,
                 self.thread)

    cdef int put(self, object operation, int64_t start_ns, int64_t end_ns, object clock, object status,
                 object thread) except -1:
        cdef Slot slot
        cdef Channel channel
        if type(self.caller.channel) is Channel:
            channel = <Channel> self.caller.channel
            if channel.is_full():
                channel.n_overflows += 1
                return 0
            if channel.pack(&slot, self.iteration, self.epoch, self.layer_name, operation, self.phase,
                            self.message_size_bytes, start_ns, end_ns, clock, self.group, self.group_size,
                            self.seq, self.peer, thread, status, NOTHING):
                ring_put(&channel.ring, &slot)
                return 0
        self.caller.channel.put(self._record(operation, start_ns, None if end_ns < 0 else end_ns, status, thread,
                                             clock))
        return 0

    def finish(self, status):
        """End a span that was entered without ``with``, and write its record."""
        self.end = perf_counter_ns()
        self.out()
        self.write(self.operation, self.start, self.end, status)

    def write(self, operation, start_ns, end_ns, status, thread=None):
        """Write a record with this span's columns, for a block that no ``with`` encloses."""
        cdef int64_t start = -1, end = -1
        if _instant(start_ns, &start) and (end_ns is None or _instant(end_ns, &end)):
            self.put(operation, start, end, HOST, status, self.thread if thread is None else thread)
        else:
            self.caller.channel.put(self._record(operation, start_ns, end_ns, status, thread))

    def fail(self, error, begun, counts):
        """The call raised, perhaps while ``begun`` was waited for; ``counts``: its number is taken."""
        end_ns = self.leave()
        if not counts:
            self.seq = None
        if begun is None or has_ended(begun):
            self.write(self.operation, self.start, end_ns, f"error:{type(error).__name__}")
        else:
            self.write(self.operation, self.start, None, UNRESOLVED)

    def open_records(self, status):
        """Return the record of the operation as it is now, without an end."""
        return [self._record(self.operation, self.start_ns, None, status)]

    def _record(self, operation, start_ns, end_ns, status, thread=None, clock=HOST_CLOCK):
        return (
            self.iteration, self.epoch, self.layer_name, operation, self.phase, self.message_size_bytes,
            start_ns, end_ns, clock, self.group, self.group_size, self.seq, self.peer,
            self.thread if thread is None else thread, status, NOTHING, None,
        )


cdef class Unrecorded(Span):
    """A call in an iteration that sampling leaves out: it has a row only if the process hangs in it."""

    def write(self, operation=None, start_ns=None, end_ns=None, status=None, thread=None):
        """Write nothing: the iteration is not recorded."""

    def write_open(self, status):
        """Write nothing either: only a process that hangs in it has its row, by ``open_records``."""


cdef object HOST = HOST_CLOCK
cdef object OK_ = OK
cdef object NO_SPAN_ = _NO_SPAN
cdef object NOTHING = ""
cdef int64_t NS_PER_S = 1000000000


# -- the calls of a recorder ------------------------------------------------------------------------------

cdef uint64_t n_recorders = 0


cdef class RecordingCalls:
    """The recording calls of :class:`~timing_logger.recording.recorder.Recorder`, which explains them."""

    cdef public bint recording
    cdef public object _selective, _iteration, _epoch, _channel, _label, _policy, _callers
    cdef uint64_t number
    cdef dict kept # by thread: the caller that the thread itself remembers, for as long as it may

    def __cinit__(self, *_, **__):
        global n_recorders
        n_recorders += 1
        self.number = n_recorders
        self.kept = {}

    cdef inline Caller caller(self):
        cdef PyObject *known = caller_of_this_thread(self.number)
        if known != NULL:
            return <Caller> known
        cdef Caller found = self._callers.current
        self.kept[get_ident()] = found
        remember_caller(self.number, <PyObject *> found)
        return found

    @property
    def _caller(self):
        return self.caller()

    cdef inline tuple label_in_force(self):
        cdef PyObject *value = NULL
        PyContextVar_Get(self._label, NULL, &value)
        label = <tuple> value
        Py_DECREF(label)
        return label

    def record_mpi_operation(
        self, operation=None, message_size=None, layer_name=None, phase=None, iteration=None, epoch=None, *,
        group="", group_size=None, seq=None, peer=None, message_size_bytes=None, mpi_op_name=None,
    ):
        cdef Span span
        cdef Caller caller
        if iteration is None:
            if not self.recording:
                return NO_SPAN_
            iteration = self._iteration
        elif self._selective and not self._policy.records(iteration):
            return NO_SPAN_
        if layer_name is None or phase is None:
            label = self.label_in_force()
            if layer_name is None:
                layer_name = label[0]
            if phase is None:
                phase = label[1]
        span = Span.__new__(Span)
        caller = self.caller()
        span.caller = caller
        span.thread = _thread_of(caller)
        span.operation = operation if operation is not None else mpi_op_name
        span.message_size_bytes = message_size if message_size is not None else message_size_bytes
        span.layer_name = layer_name
        span.phase = phase
        span.iteration = iteration
        span.epoch = self._epoch if epoch is None else epoch
        span.group = group
        span.group_size = group_size
        span.seq = seq
        span.peer = peer
        return span

    def begin_operation(self, kind, operation, message_size, layer_name, group, group_size, peer):
        cdef Span span = kind.__new__(kind)
        cdef Caller caller = self.caller()
        label = self.label_in_force()
        span.caller = caller
        span.thread = _thread_of(caller)
        span.operation = operation
        span.message_size_bytes = message_size
        span.layer_name = label[0] if layer_name is None else layer_name
        span.phase = label[1]
        span.iteration = self._iteration
        span.epoch = self._epoch
        span.group = group
        span.group_size = group_size
        span.peer = peer
        return span

    def time_call(self, operation, message_size, layer_name, peer, group, handle, call, args):
        cdef bint recording = self.recording
        cdef Span span = self.begin_operation(
            Span if recording else Unrecorded, operation, message_size, layer_name, group.name, group.size, peer
        )
        span.seq = group.next_collective()
        begun = None
        span.link()
        span.start = perf_counter_ns()
        try:
            begun = call(*args)
            if isinstance(begun, handle):
                begun.wait()
        except BaseException as error:
            counts = begun is not None or not group.take_back(error)
            span.fail(error, begun if isinstance(begun, handle) else None, counts)
            raise
        span.end = perf_counter_ns()
        span.out()
        if recording:
            span.put(operation, span.start, span.end, HOST, OK_, span.thread)
        return begun

    def record_timing(
        self, operation=None, elapsed_ms=None, layer_name=None, message_size=None, phase=None, iteration=None,
        epoch=None, start_counter=None, end_counter=None, *, group="", group_size=None, seq=None, peer=None,
        message_size_bytes=None, mpi_op_name=None,
    ):
        cdef int64_t now = perf_counter_ns()
        if start_counter is None and end_counter is None and type(elapsed_ms) is float and 0 <= elapsed_ms < 1e12:
            elapsed = <int64_t> (<double> elapsed_ms * NS_PER_MS + 0.5)
            start_ns = max(0, now - elapsed)
            end_ns, status = start_ns + elapsed, OK_
        else:
            start_ns, end_ns, status = stated_interval(elapsed_ms, start_counter, end_counter, now)
        self.record_interval(
            operation if operation is not None else mpi_op_name, start_ns, end_ns,
            message_size if message_size is not None else message_size_bytes, layer_name, phase, iteration, epoch,
            group=group, group_size=group_size, seq=seq, peer=peer, status=status,
        )

    def record_interval(
        self, operation, start_ns, end_ns, message_size=None, layer_name=None, phase=None, iteration=None,
        epoch=None, *, group="", group_size=None, seq=None, peer=None, clock=HOST_CLOCK, status=OK, metadata=None,
    ):
        if iteration is None:
            if not self.recording:
                return
            iteration = self._iteration
        elif self._selective and not self._policy.records(iteration):
            return
        if layer_name is None or phase is None:
            label = self.label_in_force()
            if layer_name is None:
                layer_name = label[0]
            if phase is None:
                phase = label[1]
        self._channel.put((
            iteration, self._epoch if epoch is None else epoch, layer_name, operation, phase, message_size,
            start_ns, end_ns, clock, group, group_size, seq, peer, _thread_of(self.caller()), status, NOTHING,
            metadata,
        ))


cdef inline object _thread_of(Caller caller):
    return caller.thread if type(caller) is Caller else (<object> caller).thread
