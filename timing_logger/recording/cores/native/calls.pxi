"""Spans."""

cdef class Entry:
    """``__enter__`` of spans. A method would be bound to its span first, an object made for one call.

    So a span is what its ``__enter__`` and ``__exit__`` are bound to, and is called itself: without arguments
    to enter it, with three to leave it.
    """

    def __get__(self, span, owner):
        return self if span is None else span

    def __call__(self, Span span):
        return span.entered()


cdef class Exit:
    """``__exit__`` of spans: see :class:`Entry`."""

    def __get__(self, span, owner):
        return self if span is None else span

    def __call__(self, Span span, kind, error, traceback):
        span.left(kind, error, traceback)


cdef PyObject *call_span(PyObject *called, PyObject *const *args, size_t n_args, PyObject *names) except NULL:
    cdef Span span = <Span> called
    n_args = PyVectorcall_NARGS(n_args)
    if n_args == 3:
        span.left(<object> args[0], <object> args[1], <object> args[2])
        Py_INCREF(None)
        return <PyObject *> None
    if n_args:
        raise TypeError(f"a span takes the three arguments of __exit__, or none, not {n_args}")
    Py_INCREF(span)
    span.entered()
    return called


cdef class Span(Columns):
    """A block that will be recorded."""

    cdef vectorcallfunc called

    @property
    def elapsed_ms(self):
        """Duration of the block, in ms; NaN while it is open."""
        return (self.end - self.start) / NS_PER_MS if self.start and self.end else NOT_A_NUMBER

    __enter__ = Entry()
    __exit__ = Exit()

    def __call__(self, *args):
        """Enter the span, or leave it with the three arguments of ``__exit__``: see :class:`Entry`."""
        if not args:
            return self.entered()
        kind, error, traceback = args
        self.left(kind, error, traceback)

    cdef inline Span entered(self):
        self.begin_call()
        return self

    cdef inline int left(self, object kind, object error, object traceback) except -1:
        if not self.is_open_now():
            self.write_not_entered(kind)
            return 0
        set_instant(&self.end, perf_counter_ns())
        self.out()
        return self.put(
            self.operation, self.start, self.end, OK_ if kind is None else "error:" + kind.__name__, self.thread
        )

    cdef inline void put_into(
        self, Fields *fields, object operation, int64_t start_ns, int64_t end_ns, object status, object thread
    ) noexcept:
        """Put the columns of a record into ``fields``; an end of -1 is none."""
        self.put_columns(fields)
        fields.names[OPERATION] = <PyObject *> operation
        fields.names[CLOCK] = <PyObject *> HOST
        fields.names[THREAD] = <PyObject *> thread
        fields.names[STATUS] = <PyObject *> status
        fields.names[STREAM] = <PyObject *> NOTHING
        fields.start_ns, fields.end_ns = start_ns, end_ns

    cdef int put(self, object operation, int64_t start_ns, int64_t end_ns, object status, object thread) except -1:
        """Put a record; an end of -1 is none."""
        if HAS_GLOBAL_LOCK:
            return self.put_now(operation, start_ns, end_ns, status, thread)
        with cython.critical_section(self): # another thread may set columns, as it learns of the end
            return self.put_now(operation, start_ns, end_ns, status, thread)

    cdef inline int put_now(
        self, object operation, int64_t start_ns, int64_t end_ns, object status, object thread
    ) except -1:
        cdef object channel = self.caller.channel
        cdef Fields fields
        self.put_into(&fields, operation, start_ns, end_ns, status, thread)
        if type(channel) is not Channel or not (<Channel> channel).put_fields(&fields):
            channel.put(self._record(operation, start_ns, None if end_ns < 0 else end_ns, status, thread))
        return 0

    def finish(self, status):
        """End a span that was entered without ``with``, and write its record."""
        if not self.is_open_now():
            self.write_not_entered(None)
            return
        set_instant(&self.end, perf_counter_ns())
        self.out()
        self.write(self.operation, self.start, self.end, status)

    def write_not_entered(self, kind):
        """Write that the block is left now and was not open: never entered, or left before."""
        self.write(
            self.operation, perf_counter_ns(), None, NOT_ENTERED if kind is None else "error:" + kind.__name__
        )

    def write(self, operation, start_ns, end_ns, status, thread=None):
        """Write a record with this span's columns, for a block that no ``with`` encloses."""
        cdef Fields interval
        if _interval(start_ns, end_ns, &interval):
            self.put(operation, interval.start_ns, interval.end_ns, status, self.thread if thread is None else thread)
        else:
            self.caller.channel.put(self._record(operation, start_ns, end_ns, status, thread))

    def fail(self, error, begun, counts):
        """The call raised, perhaps while ``begun`` was waited for; ``counts``: its number is taken."""
        end_ns = self.leave()
        if not counts:
            self.take_number_off()
        if begun is None or has_ended(begun):
            self.write(self.operation, self.start, end_ns, f"error:{type(error).__name__}")
        else:
            self.write(self.operation, self.start, None, UNRESOLVED)

    cdef inline void take_number_off(self):
        cdef Section section
        section_begin(&section, <PyObject *> self)
        self.seq = None
        section_end(&section)

    def open_records(self, status):
        """Return the record of the operation as it is now, without an end."""
        return [self._record(self.operation, self.start_ns, None, status)]

    def _record(self, operation, start_ns, end_ns, status, thread=None, clock=HOST_CLOCK):
        cdef Fields fields
        cdef object of = self.thread if thread is None else thread
        with cython.critical_section(self):
            self.put_into(&fields, operation, -1, -1, status, of)
            fields.names[CLOCK] = <PyObject *> clock
            return raw_record(&fields, start_ns, end_ns, None)


cdef inline Span new_span(Caller caller):
    """Return a span of the thread, without making one if its last one is over."""
    cdef Span span
    # Who looks at open calls can come to hold only what is linked, and that is held twice.
    if caller.spare is not None and is_held_once(<PyObject *> caller.spare):
        span = <Span> caller.spare
        span.start = span.end = 0
        span.outer = None
        span.is_in_ring = False
    else:
        caller.spare = span = Span.__new__(Span)
        span.called = call_span
    span.caller = caller
    return span


cdef class Unrecorded(Span):
    """A call in an iteration that sampling leaves out: it has a row only if the process hangs in it."""

    def write(self, operation=None, start_ns=None, end_ns=None, status=None, thread=None):
        """Write nothing: the iteration is not recorded."""

    def last_records(self, status):
        """Return none: only a process that hangs in it has its row, by ``open_records``."""
        return []


cdef class CollectiveCount:
    """Counts the collectives that this rank has begun in one group of ranks."""

    cdef int64_t count

    @property
    def collectives(self):
        """How many were begun."""
        return instant_at(&self.count)

    @collectives.setter
    def collectives(self, int64_t value):
        set_instant(&self.count, value)

    @property
    def address(self):
        """Where the count is, for code in C."""
        return <uintptr_t> &self.count

    def next_collective(self):
        """Return the sequence number of the collective that begins now, from 0."""
        return count_next(&self.count)

    def take_back(self, error):
        """Take back the number of the latest collective, whose call raised ``error``. Always True."""
        count_back(&self.count)
        return True


cdef class TimedGroup:
    """What the rows of one group of ranks share: where they go, its name and size, and its counts."""

    cdef public object logger, identity, name, size, next_collective, sent, received


cdef allow_vectorcalls():
    cdef Span span = Span.__new__(Span)
    cdef PyTypeObject *kind = <PyTypeObject *> Span
    kind.tp_vectorcall_offset = <char *> &span.called - <char *> <PyObject *> span
    kind.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL


allow_vectorcalls()
