# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True, binding=True
# cython: freethreading_compatible=True
"""The classes of the Python core, in C: see timing_logger/recording/cores/python/calls.py for what each means.

A record is packed into a slot of a ring (ring.h in timing_logger/csrc), and its line is written from there without the
interpreter's lock. What no slot can hold as it is (a number of NumPy, an interval of a device, metadata) is
kept as a tuple, and its slot says so: one order, and one path for what is odd.

Where Python runs without its global lock, ``Section`` and ``cython.critical_section`` hold the lock of one object where
several threads may be at it, and are nothing elsewhere: see csrc/sections.h. What attributes marked ``public`` are set to
and read as from Python, Cython holds the lock for.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.contextvars cimport PyContextVar_Get
from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

import os
import sysconfig
from functools import update_wrapper
from threading import get_ident
from types import MethodType

from timing_logger.schema.record import (
    HOST_CLOCK, LAYOUT, MAX_TEXT_CHARS, NOT_ENTERED, OK, UNRESOLVED, WAIT, escape_text, name_cell, operation_cell,
    stated_interval,
)
from timing_logger.recording.cores.channel import ChannelCounts
from timing_logger.recording.cores.issued_calls import two_given
from timing_logger.recording.cores.protocols import NO_SPAN as _NO_SPAN
from timing_logger.recording.cores.protocols import has_ended
from timing_logger.recording.spellings import one_value

cdef extern from "ring.h" nogil:
    enum: N_NAMES, N_NUMBERS, NAME_WORDS, HAS_END, ELSEWHERE, RING_MOST_NAMES, RING_PATH_BYTES, RING_MAGIC
    enum: RING_MOST_STANDING, RING_KEPT_OPEN, RING_BATCH, IS_GROUP, ON_DEVICE, NOT_MARKED, IN_BACKGROUND
    const uint64_t RING_FULL
    const uint32_t RECORD_LAYOUT, AMOUNTS
    uint32_t HAS(int which)
    uint32_t IS_REAL(int which)

    ctypedef struct Slot:
        uint64_t ticket
        int64_t start_ns
        int64_t end_ns
        int64_t numbers[N_NUMBERS]
        uint16_t names[N_NAMES]
        uint32_t has
        uint32_t zero

    ctypedef struct Header:
        uint64_t magic
        int64_t started_unix_ns
        int64_t wall_offset_ns
        char path[3072]

    ctypedef struct Ring:
        Header *header
        uint64_t capacity
        uint64_t head
        uint64_t taken
        uint64_t n_overflows
        uint64_t n_unreadable
        int descriptor

    int ring_open(Ring *ring, const char *path, uint64_t capacity)
    int ring_is_at(const Ring *ring, const char *path)
    void ring_remove(const Ring *ring, const char *path)
    int ring_renew(Ring *ring, const char *path)
    void ring_shut(Ring *ring)
    int ring_settle(Ring *ring)
    uint64_t ring_head(const Ring *ring)
    void ring_release(Ring *ring)
    void ring_touch_ahead(Ring *ring)
    int ring_abandon(Ring *ring)
    void ring_move(Ring *to, const Ring *source)
    void ring_close(Ring *ring)
    void ring_note_standing(Ring *ring, const Slot *entries, uint64_t n_entries, int64_t now_ns, int64_t progressed_ns)
    uint64_t ring_claim(Ring *ring)
    void ring_fill(Ring *ring, uint64_t position, const Slot *record)
    void ring_put(Ring *ring, const Slot *record)
    void ring_count_overflow(Ring *ring)
    uint64_t ring_n_ready(Ring *ring)
    void ring_take(Ring *ring, uint64_t n_records)
    Slot *ring_slot(const Ring *ring, uint64_t position)
    bint ring_is_elsewhere(const Ring *ring, uint64_t position)
    Slot *ring_enter(Ring *ring, const Slot *call, int n_kept)
    void ring_leave(Ring *ring, Slot *entry)

cdef extern from "forks.h" nogil:
    int leave_rings_in_children()
    void follow_ring(Ring *ring)
    void forget_ring(Ring *ring)

cdef extern from "names.h" nogil:
    ctypedef struct Cell:
        const char *text
        uint32_t n_bytes

    ctypedef struct NameTable "Names":
        pass

    int names_open(NameTable *names)
    void names_close(NameTable *names)
    int names_add(NameTable *names, const Ring *ring, const char *stored, size_t n_bytes, Cell plain, Cell upper)
    void names_note_seen(NameTable *names, const void *text, int number)
    int names_seen(const NameTable *names, const void *text)
    bint names_read(const NameTable *names, const Ring *ring, uint64_t position)

cdef extern from "csv_lines.h" nogil:
    size_t csv_most_bytes(const NameTable *names, size_t n_records)
    size_t csv_lines(const Ring *ring, const NameTable *names, uint64_t first, size_t n_records,
                     int64_t wall_offset_ns, char *out)

cdef extern from "writing.h" nogil:
    ctypedef struct OpenFile:
        int descriptor
        uint64_t device
        uint64_t inode
        uint64_t n_bytes
        bint is_torn

    uint64_t write_oldest(Ring *ring, const NameTable *names, OpenFile *file, int64_t wall_offset_ns,
                          int64_t longest_ns, uint64_t n_batch, char *buffer, size_t n_buffer)

cdef extern from "under_way.h" nogil:
    enum: UNDER_WAY_MOST

    ctypedef struct UnderWay:
        uint64_t turn
        Slot call
        Slot *listed
        UnderWay *of
        uint64_t has_no_row

    ctypedef struct UnderWayList:
        UnderWay each[UNDER_WAY_MOST]

    void under_way_start(UnderWayList *list)
    bint under_way_take(UnderWay *entry, uint64_t turn)
    void under_way_free(UnderWayList *list, UnderWay *entry)
    bint under_way_copy(const UnderWay *entry, UnderWay *copy)

cdef extern from "recording.h" nogil:
    const uint64_t RECORDING_VERSION
    const char *RECORDING_CAPSULE

    ctypedef struct Recording:
        uint64_t version
        Ring *ring
        UnderWayList *under_way
        uint32_t is_on
        uint32_t has_labels
        uint32_t is_plain
        uint32_t has
        int64_t numbers[N_NUMBERS]
        uint64_t number
        void *recorder
        void *channel
        int (*name)(void *channel, void *text) noexcept
        int (*thread)(void *recorder, int *stays) noexcept
        int (*label)(void *recorder, uint16_t *layer_name, uint16_t *phase) noexcept

    void recording_note(Recording *of, const Slot *state, int is_plain, int is_on, int has_labels)

cdef extern from "built_from.h":
    const uint32_t BUILT_FROM_ "BUILT_FROM"

cdef extern from "counting.h" nogil:
    int64_t count_next(int64_t *count)
    void count_back(int64_t *count)

cdef extern from "clock.h" nogil:
    int64_t perf_counter_ns()

cdef extern from "csrc/sections.h":
    const bint HAS_GLOBAL_LOCK

    ctypedef struct Section:
        pass

    void section_begin(Section *section, PyObject *of) noexcept
    void section_end(Section *section) noexcept
    bint is_held_once(PyObject *kept) noexcept
    int64_t instant_at(const int64_t *place) noexcept
    void set_instant(int64_t *place, int64_t ns) noexcept
    bint flag_now(const int *flag) noexcept
    void set_flag(int *flag, bint value) noexcept
    uint64_t word_now(const uint64_t *word) noexcept
    void set_word(uint64_t *word, uint64_t value) noexcept
    void count_change(uint64_t *word) noexcept

cdef extern from "csrc/this_thread.h":
    PyObject *caller_of_this_thread(uint64_t recorder)
    void remember_caller(uint64_t recorder, PyObject *caller)

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(PyObject *number, int *overflow) except? -1
    PyObject *PyTuple_GET_ITEM(object tuple, Py_ssize_t position)
    Py_ssize_t PyTuple_GET_SIZE(object tuple)
    PyObject *PyBytes_FromStringAndSize(const char *text, Py_ssize_t size)
    ctypedef PyObject *(*vectorcallfunc)(PyObject *, PyObject *const *, size_t, PyObject *) except NULL
    size_t PyVectorcall_NARGS(size_t n_args)
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    unsigned long Py_TPFLAGS_METHOD_DESCRIPTOR
    PyObject *PyObject_Vectorcall(PyObject *call, PyObject *const *args, size_t n_args, PyObject *names) except NULL
    ctypedef struct PyTypeObject
    ctypedef object (*newfunc)(PyTypeObject *kind, object args, PyObject *kwargs)
    ctypedef int (*initproc)(object made, object args, PyObject *kwargs) except -1
    ctypedef void (*finalizer)(PyObject *) noexcept
    ctypedef struct PyTypeObject:
        newfunc tp_new
        initproc tp_init
        finalizer tp_finalize
        Py_ssize_t tp_vectorcall_offset
        unsigned long tp_flags
    PyTypeObject *Py_TYPE(object of)
    PyTypeObject PyMemberDescr_Type
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef *d_member
    void PyErr_Fetch(PyObject **kind, PyObject **error, PyObject **traceback)
    void PyErr_Restore(PyObject *kind, PyObject *error, PyObject *traceback)
    int _PyBytes_Resize(PyObject **bytes, Py_ssize_t size) except -1

ctypedef struct Fields: # of a record, while others hold the objects
    PyObject *names[N_NAMES]
    PyObject *numbers[N_NUMBERS]
    int64_t start_ns, end_ns # an end of -1 is none

cdef enum:
    MOST_BYTES = 1 << 24 # of the lines of a batch
    MOST_STATUSES = 64 # that a thread keeps
    DEEPEST = 1000 # the most open calls of one thread that are followed, in case blocks are entered and never left

# Without the interpreter's lock, another thread may read a slot while it is set.
cdef bint SLOTS_ARE_PLAIN = not sysconfig.get_config_var("Py_GIL_DISABLED")
cdef int64_t LAST_INSTANT_NS = 2 ** 62
cdef double NS_PER_MS = 1e6
cdef object NOT_A_NUMBER = float("nan")
cdef double INFINITE = float("inf")
cdef long long LARGEST = 2 ** 63 - 1
cdef object HOST = HOST_CLOCK
cdef object OK_ = OK
cdef object WAIT_ = WAIT
cdef object NO_SPAN_ = _NO_SPAN
cdef object NOTHING = ""
cdef tuple NO_ARGUMENTS = ()
cdef int64_t NS_PER_S = 1000000000

globals()["BUILT_FROM"] = BUILT_FROM_ # see timing_logger/process/which_core.py

if RECORD_LAYOUT != LAYOUT:
    raise ImportError("it was built for other columns than timing_logger/schema/record.py has")

include "names.pxi"
include "channel.pxi"
include "open_calls.pxi"
include "columns.pxi"
include "calls.pxi"
include "recorder.pxi"
include "background.pxi"
include "handles.pxi"
include "issued.pxi"
include "completing.pxi"
include "in_c.pxi"
include "small_files.pxi"
