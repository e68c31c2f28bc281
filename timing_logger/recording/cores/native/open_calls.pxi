"""Threads, and the calls that they have entered and not left."""

cdef class Caller:
    """What a record takes from its thread: the thread's name, and the calls that it is in."""

    cdef public object thread, channel
    cdef public set running
    cdef public OpenCall innermost
    cdef object spare # a span, used again as soon as nobody else holds it
    cdef list statuses # for the next call of the thread that has to fill in some; None while one does
    cdef uint64_t changes # with which the recorder's state was copied: see RecordingCalls.state_now
    cdef object iteration, epoch, work

    def __init__(self, thread, channel, set running):
        self.channel = channel
        self.running = running
        setattr(self, "thread", thread)  # a subclass may look it up each time

    def calls(self):
        """Return the open calls of the thread, the innermost first."""
        cdef OpenCall call
        found = []
        with cython.critical_section(self):
            call = self.innermost
            for _ in range(DEEPEST):
                if call is None:
                    return found
                if call.is_open_now():
                    found.append(call)
                call = call.outer
            if call is not None:
                call.outer = None
        return found


cdef class OpenCall:
    """A call that some thread has entered and, as long as it has no end, not left.

    The links from a caller's innermost call outwards are the caller's: whoever follows or changes them holds its lock.
    """

    cdef public Caller caller
    cdef public OpenCall outer
    cdef public bint is_in_ring # whether the ring has listed the call since it began
    cdef int64_t start, end # 0 where not set

    @property
    def start_ns(self):
        cdef int64_t start_ns = instant_at(&self.start)
        if not start_ns:
            raise AttributeError("start_ns")
        return start_ns

    @start_ns.setter
    def start_ns(self, int64_t value):
        self.start = value

    @property
    def end_ns(self):
        if not self.end:
            raise AttributeError("end_ns")
        return self.end

    @end_ns.setter
    def end_ns(self, int64_t value):
        self.end = value

    def enter(self):
        """Begin the call now, as the innermost one of its thread; begin it anew if it is open."""
        self.begin_call()

    def leave(self):
        """End the call now and return that instant in ns."""
        set_instant(&self.end, perf_counter_ns())
        self.out()
        return self.end

    cdef inline void begin_call(self):
        if not self.is_open_now(): # else its thread would be in it twice, and the links go in a circle
            self.link()
        set_instant(&self.start, perf_counter_ns())
        set_instant(&self.end, 0) # last: open with the start of an earlier time, it would seem to hang

    cdef inline bint is_open_now(self):
        return instant_at(&self.start) and not instant_at(&self.end)

    cdef inline void link(self):
        cdef Section section
        cdef PyObject *caller = <PyObject *> self.caller
        section_begin(&section, caller)
        self.outer = (<Caller> caller).innermost
        (<Caller> caller).innermost = self
        section_end(&section)

    cdef inline void out(self):
        cdef Section section
        cdef PyObject *caller = <PyObject *> self.caller
        cdef bint is_innermost
        section_begin(&section, caller)
        is_innermost = (<Caller> caller).innermost is self
        if is_innermost:
            (<Caller> caller).innermost = self.outer
        section_end(&section)
        if not is_innermost:
            self.unlink()

    cpdef unlink(self):
        """Leave while a call that was entered later is still open, as generators and tasks do."""
        cdef Caller caller = self.caller
        cdef OpenCall inner
        with cython.critical_section(caller):
            inner = caller.innermost
            while inner is not None:
                if inner.outer is self:
                    inner.outer = self.outer
                    return
                inner = inner.outer

    @property
    def is_open(self):
        """Whether the call has a start time and no end time yet."""
        return self.is_open_now()

    def open_records(self, status):
        """Return the records of the call as far as they are known before it has ended."""
        raise NotImplementedError

    def last_records(self, status):
        """Return the records to write, with ``status``, if the end of the call will not be seen."""
        return list(self.open_records(status)) # now: they may be made one by one

    def pass_to(self, Caller nobody not None):
        """Have the thread of a call that is open write nothing when it ends; return whether it was open."""
        cdef Section section
        cdef bint is_open
        former = self.caller # else it might go within the section
        section_begin(&section, <PyObject *> self)
        is_open = self.is_open_now()
        if is_open:
            self.caller = nobody
        section_end(&section)
        return is_open

    cdef inline bint is_of(self, Caller caller):
        """Whether a call that has ended is still its thread's to write: else the logger was closed meanwhile."""
        cdef Section section
        cdef bint is_own
        section_begin(&section, <PyObject *> self)
        is_own = self.caller is caller
        section_end(&section)
        return is_own

    def leave_running(self):
        """Mark the operation as one that goes on when its call returns, until :meth:`claim` takes it."""
        self.caller.running.add(self)

    def claim(self):
        """Tell whether the calling thread is the one to write this operation: at most one thread gets True."""
        return self.claimed()

    cdef bint claimed(self) except -1:
        try:
            self.caller.running.remove(self)
        except KeyError:
            return False
        return True
