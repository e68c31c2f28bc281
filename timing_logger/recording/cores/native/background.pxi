"""Operations in the background, and the waits for them."""

cdef class Wait(OpenCall):
    """A call that blocks its thread until operations that were left running have ended."""

    cdef public object thread
    cdef object waited_for

    def __init__(self, of, Caller caller):
        """Begin a wait of ``caller`` for these operations."""
        self.waited_for = of
        self.begin(caller)

    @property
    def of(self):
        """The operations that are waited for."""
        return self.waited_for

    cdef inline int begin(self, Caller caller) except -1:
        self.caller = caller
        self.thread = _thread_of(caller)
        self.link()
        set_instant(&self.start, perf_counter_ns())
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
    cdef RecordingCalls recorder # None before it has begun
    cdef public object learn
    cdef public bint goes_on
    cdef bint waited
    cdef Channel channel # of what follows
    cdef Slot *entry # in the list of open calls; NULL if it is in none
    cdef Slot slot # the row as it was when the operation began, without an end ...
    cdef bint is_packed # ... if it could hold that

    @property
    def ended_ns(self):
        """When it was seen to end, on the axis of ``perf_counter_ns``; None before."""
        return self.ended or None

    def begin(self, bint goes_on, RecordingCalls recorder not None, start_ns=None, bint has_rows=True):
        """Begin the operation, at ``start_ns`` or now; ``recorder`` knows the threads that will wait for it."""
        self.begin_at(goes_on, recorder, 0 if start_ns is None else start_ns, has_rows)

    cdef int begin_at(self, bint goes_on, RecordingCalls recorder, int64_t start_ns, bint has_rows) except -1:
        """Begin the operation at an instant; 0 for now."""
        self.recorder = recorder
        self.goes_on = goes_on
        cdef Fields fields
        self.start = start_ns or perf_counter_ns()
        if not has_rows:
            return 0
        if type(self.caller.channel) is Channel:
            self.channel = <Channel> self.caller.channel
            self.put_into(&fields, self.operation, self.start, -1, OK_, self.thread)
            self.is_packed = self.channel.pack(&self.slot, &fields)
            if self.is_packed:
                self.entry = ring_enter(&self.channel.ring, &self.slot, RING_KEPT_OPEN)
        self.caller.running.add(self) # last: who takes it from there has the entry to leave
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

    def end_with(self, status):
        """Note that the operation ended now, with this status in its row."""
        self.note_end(perf_counter_ns(), status)

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
        self.lose_it()

    cdef int lose_it(self) except -1:
        if not instant_at(&self.ended) and self.claimed():
            self.put(self.operation, self.start, -1, UNRESOLVED, self.thread)
        return 0

    cdef int note_end(self, int64_t end_ns, object status) except -1:
        if not instant_at(&self.ended) and self.claimed():
            self.put(self.operation, self.start, end_ns, status, self.thread)
            set_instant(&self.ended, end_ns)
            self.write_wait()
        return 0

    cdef int end_in(self, Completion call, object told, object status) except -1:
        """Note that ``call``, which has returned, saw the end: it is a wait for this operation."""
        learn = self.learnt()
        cdef bint learned = learn is not None and told is not None
        if learned and type(learn) is LearnSize:
            (<LearnSize> learn).fill_in(self, told)
        elif learned:
            status = learn(self, told)
        if self.claimed():
            set_instant(&self.ended, call.end)
            if not self.put_both(call, status, learned):
                self.put(self.operation, self.start, call.end, status, self.thread)
                self.put(WAIT_, call.start, call.end, status, call.thread)
        return 0

    cdef bint put_both(self, Completion call, object status, bint learned) except -1:
        """Put the row and that of the wait, made from what was packed; return False, and put none, if that cannot be."""
        cdef Channel channel = self.channel
        cdef Slot *slot = &self.slot
        cdef Slot wait
        if not self.is_packed or self.caller.channel is not channel or call.end < slot.start_ns:
            return False
        if learned and not self.packed_what_was_learned():
            return False
        slot.end_ns = call.end
        slot.has |= HAS_END
        wait = slot[0]
        wait.start_ns = call.start
        if not (
            channel.named(slot, STATUS, <PyObject *> status)
            and channel.named(&wait, OPERATION, <PyObject *> WAIT_)
            and (call.thread is self.thread or channel.named(&wait, THREAD, <PyObject *> call.thread))
        ):
            return False
        wait.names[STATUS] = slot.names[STATUS]
        ring_put(&channel.ring, slot)
        ring_put(&channel.ring, &wait)
        return True

    cdef inline bint packed_what_was_learned(self) except -1:
        """Fill in the columns of which only the end of an operation tells."""
        cdef Section section
        cdef bint are_numbers
        self.slot.has &= ~(HAS(MESSAGE_SIZE_BYTES) | HAS(PEER) | HAS(SEQ))
        section_begin(&section, <PyObject *> self)
        try:
            are_numbers = (
                _number(&self.slot, MESSAGE_SIZE_BYTES, <PyObject *> self.message_size_bytes)
                and _number(&self.slot, PEER, <PyObject *> self.peer)
                and _number(&self.slot, SEQ, <PyObject *> self.seq)
            )
        finally:
            section_end(&section)
        return are_numbers

    # -- waits for it ---------------------------------------------------------------------------------

    def wait(self, work, *args, **kwargs):
        """Call ``work.wait``, and record for how long the caller was blocked on the operation."""
        cdef Wait blocked = Wait.__new__(Wait)
        cdef Caller caller = self.recorder.caller()
        blocked.waited_for = (self,)
        blocked.begin(caller)
        try:
            result = work.wait(*args, **kwargs) if args or kwargs else work.wait()
        except BaseException as error:
            if has_ended(work): # else only this wait failed
                self.end(type(error))
            self.end_wait(blocked, caller, type(error))
            raise
        learn = self.learnt()
        if learn is not None:
            learn(self, work)
        if not instant_at(&self.ended):
            self.note_end(perf_counter_ns(), OK_)
        self.end_wait(blocked, caller, None)
        return result

    cdef int end_wait(self, Wait blocked, Caller caller, object failure) except -1:
        set_instant(&blocked.end, perf_counter_ns())
        blocked.out()
        if self.waits_first(failure is None) and blocked.is_of(caller):
            self.put(WAIT_, blocked.start, blocked.end, _status(failure), blocked.thread)
        return 0

    cdef bint waits_first(self, bint went_well) noexcept:
        """Whether a wait has a row: of several that saw the operation end, the first."""
        cdef Section section
        cdef bint is_first
        section_begin(&section, <PyObject *> self)
        is_first = self.goes_on and not self.waited
        if is_first:
            self.waited = went_well
        section_end(&section)
        return is_first

    cdef object learnt(self):
        with cython.critical_section(self):
            return self.learn

    def block_from(self, int64_t instant_ns, BackgroundSpan behind):
        """Have a ``WAIT`` row written when the operation has ended: its thread is blocked until then."""
        cdef Section section
        section_begin(&section, <PyObject *> self)
        self.behind = behind
        self.blocked_from = instant_ns
        section_end(&section)
        self.write_wait()

    cdef int write_wait(self) except -1:
        """Write the row, if the operation has ended and its thread was blocked: whoever notes the second of these."""
        cdef Section section
        cdef int64_t start_ns
        cdef BackgroundSpan behind
        section_begin(&section, <PyObject *> self)
        start_ns = self.blocked_from if instant_at(&self.ended) else 0
        if start_ns:
            self.blocked_from = 0
        behind = self.behind
        section_end(&section)
        if not start_ns:
            return 0
        while behind is not None:
            start_ns = max(start_ns, min(instant_at(&behind.ended) or self.ended, self.ended))
            behind = behind.behind
        return self.put(WAIT_, start_ns, max(start_ns, self.ended), OK_, self.thread)


cdef class Completion(Wait):
    """A call that is given handles, and may see the operations end that these hold."""

    cdef tuple handles
    cdef bint blocks
    cdef public bint learns

    @staticmethod
    def of_handles(handles, bint blocks):
        """Begin such a call now; return None if no handle holds an operation. Never raises."""
        return completion_of(handles, blocks)

    @property
    def of(self):
        """The operations that are waited for."""
        found = [operation_of(handle) for handle in self.handles]
        return [operation for operation in found if operation is not None]

    def saw(self, places, told):
        """The call has returned, and saw some of the operations end."""
        self.ended()
        self.settle_seen(places, told)

    def failed(self, error):
        """The call has raised. Of a handle that is false now, the operation is over; others may go on."""
        self.ended()
        status = _status(type(error))
        for handle in self.handles:
            if operation_of(handle) is not None and not handle:
                self.settle(handle, None, status)

    cdef void ended(self):
        set_instant(&self.end, perf_counter_ns())
        if self.blocks:
            self.out()

    cdef int settle_seen(self, object places, object told) except -1:
        cdef Py_ssize_t order = 0
        for handle in self.handles if places is None else [self.handles[place] for place in places]:
            self.settle(handle, told[order] if told is not None and order < len(told) else None, OK_)
            order += 1
        return 0

    cdef int settle(self, handle, told, status) except -1:
        cdef BackgroundSpan operation = operation_of(handle)
        if operation is not None:
            hold(handle, None)
            operation.end_in(self, told, status)
        return 0


cdef Completion completion_of(object handles, bint blocks):
    """Begin a call that is given these handles; return None if none of them holds an operation. Never raises."""
    cdef Completion call = None
    cdef BackgroundSpan operation
    cdef BackgroundSpan first = None
    cdef tuple given
    cdef bint learns = False
    try:
        len(handles) # what has no length is refused by the call, which is to find it as it is
        given = tuple(handles)
        for handle in given:
            operation = operation_of(handle)
            if operation is not None:
                learns = learns or operation.learn is not None
                if first is None:
                    first = operation
    except Exception:
        return None
    if first is None:
        return None
    call = Completion.__new__(Completion)
    call.handles, call.blocks, call.learns = given, blocks, learns
    call.caller = first.recorder.caller()
    call.thread = _thread_of(call.caller)
    if blocks:
        call.link()
    set_instant(&call.start, perf_counter_ns())
    return call


cdef class LearnSize:
    """Fills in the bytes of a received message, as what tells of its end has them."""

    cdef object count, unit, undefined

    def __init__(self, count, unit, undefined):
        self.count, self.unit, self.undefined = count, unit, undefined

    def __call__(self, operation, told):
        operation.message_size_bytes = self.bytes_of(told)
        return OK_

    cdef inline object bytes_of(self, object told):
        n_bytes = call_with_two(self.count, told, self.unit)
        return None if n_bytes == self.undefined else n_bytes

    cdef inline int fill_in(self, BackgroundSpan operation, object told) except -1:
        operation.message_size_bytes = self.bytes_of(told)
        return 0


cdef inline object _status(object failure):
    return OK_ if failure is None else "error:" + failure.__name__
