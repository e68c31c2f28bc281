"""Operations in the background, and the waits for them."""

cdef class Wait(OpenCall):
    """A call that blocks its thread until operations that were left running have ended."""

    cdef public object of, thread

    def __init__(self, of, Caller caller):
        """Begin a wait of ``caller`` for these operations."""
        self.of = of
        self.begin(caller)

    cdef inline int begin(self, Caller caller) except -1:
        self.caller = caller
        self.thread = _thread_of(caller)
        self.link()
        self.start = perf_counter_ns()
        return 0

    def open_records(self, status):
        """Return a record for each operation that is still waited for."""
        return [
            span._record(WAIT_, self.start, None, status, self.thread)
            for span in self.of if span in span.caller.running
        ]


cdef class BackgroundSpan(Span):
    """An operation that goes on when its call returns: whoever sees its end first writes its row."""

    cdef int64_t ended, blocked_from # 0 where not set
    cdef BackgroundSpan behind
    cdef RecordingCalls recorder
    cdef public object learn
    cdef public bint goes_on
    cdef bint waited
    cdef Channel channel # of the entry ...
    cdef Slot *entry # ... in the list of open calls; NULL if it is in none

    @property
    def ended_ns(self):
        """When it was seen to end, on the axis of ``perf_counter_ns``; None before."""
        return self.ended or None

    def begin(self, bint goes_on, RecordingCalls recorder):
        """Begin the operation now; ``recorder`` knows the threads that will wait for it."""
        self.begin_now(goes_on, recorder)

    cdef int begin_now(self, bint goes_on, RecordingCalls recorder) except -1:
        self.recorder = recorder
        self.goes_on = goes_on
        cdef Fields fields
        cdef Slot slot
        self.start = perf_counter_ns()
        self.caller.running.add(self)
        if type(self.caller.channel) is Channel:
            self.channel = <Channel> self.caller.channel
            self.put_into(&fields, self.operation, self.start, -1, OK_, self.thread)
            if self.channel.pack(&slot, &fields):
                self.entry = ring_enter(&self.channel.ring, &slot)
        return 0

    cdef bint claimed(self) except -1:
        if not OpenCall.claimed(self):
            return False
        if self.entry != NULL:
            ring_leave(&self.channel.ring, self.entry)
            self.entry = NULL
        return True

    # -- the end --------------------------------------------------------------------------------------

    def end(self, failure):
        """Note that the operation ended now; the first call writes the row, on any thread."""
        self.note_end(perf_counter_ns(), _status(failure))

    def end_by(self, future):
        """Have the operation end when ``future`` completes; does not wait."""
        if future.done(): # torch would call back at once, and swallow what a signal handler raises there
            self.end_now(future)
        else:
            self.call_when_done(future, self.end_of)

    def end_of(self, future):
        """Note that the operation ended now, as ``future`` tells: to be called back by it."""
        self.end_now(future)

    cdef int end_now(self, future) except -1:
        cdef int64_t end_ns = perf_counter_ns() # first, as what follows takes time
        status = OK_
        try:
            self.value_of(future)
        except Exception as error:
            status = _status(type(error))
        return self.note_end(end_ns, status)

    def lose(self):
        """Write the row as unresolved, unless it is written already: the end cannot be seen any more."""
        if not self.ended and self.claimed():
            self.put(self.operation, self.start, -1, UNRESOLVED, self.thread)

    cdef int note_end(self, int64_t end_ns, object status) except -1:
        if not self.ended and self.claimed():
            self.put(self.operation, self.start, end_ns, status, self.thread)
            self.ended = end_ns
            self.write_wait()
        return 0

    # -- waits for it ---------------------------------------------------------------------------------

    def wait(self, work, *args, **kwargs):
        """Call ``work.wait``, and record for how long the caller was blocked on the operation."""
        cdef Wait blocked = Wait.__new__(Wait)
        blocked.of = (self,)
        blocked.begin(self.recorder.caller())
        try:
            result = work.wait(*args, **kwargs) if args or kwargs else work.wait()
        except BaseException as error:
            if has_ended(work): # else only this wait failed
                self.end(type(error))
            self.end_wait(blocked, type(error))
            raise
        if self.learn is not None:
            self.learn()
        if not self.ended:
            self.note_end(perf_counter_ns(), OK_)
        self.end_wait(blocked, None)
        return result

    cdef int end_wait(self, Wait blocked, object failure) except -1:
        blocked.end = perf_counter_ns()
        blocked.out()
        if self.goes_on and not self.waited:
            self.waited = failure is None
            self.put(WAIT_, blocked.start, blocked.end, _status(failure), blocked.thread)
        return 0

    def block_from(self, int64_t instant_ns, BackgroundSpan behind):
        """Have a ``WAIT`` row written when the operation has ended: its thread is blocked until then."""
        self.behind = behind
        self.blocked_from = instant_ns
        self.write_wait()

    cdef int write_wait(self) except -1:
        cdef int64_t start_ns = self.blocked_from
        cdef BackgroundSpan behind = self.behind
        if not start_ns or not self.ended:
            return 0
        self.blocked_from = 0
        while behind is not None:
            start_ns = max(start_ns, min(behind.ended or self.ended, self.ended))
            behind = behind.behind
        return self.put(WAIT_, start_ns, max(start_ns, self.ended), OK_, self.thread)


cdef inline object _status(object failure):
    return OK_ if failure is None else "error:" + failure.__name__
