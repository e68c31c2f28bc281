"""What code in C records, in another library, without the interpreter's lock: see recording.h in timing_logger/csrc."""

cdef class CallInC:
    """A call that code in C has begun, or the wait for one, as it was when it was looked at."""

    cdef Channel channel
    cdef UnderWay seen

    @property
    def start_ns(self):
        """When it began."""
        return self.seen.call.start_ns

    @property
    def is_in_ring(self):
        """Whether the ring has listed the call since it began."""
        return self.seen.listed != NULL

    def open_records(self, status):
        """Return the record of the call, without an end."""
        return [self.record(status)]

    cdef object record(self, object status):
        cdef Fields fields
        cdef int which
        cdef list numbers = [_number_in(&self.seen.call, which) for which in range(N_NUMBERS)]
        for which in range(N_NAMES):
            fields.names[which] = self.channel.names.text(self.seen.call.names[which])
        for which in range(N_NUMBERS):
            fields.numbers[which] = <PyObject *> numbers[which]
        fields.names[STATUS] = <PyObject *> status
        return raw_record(&fields, self.seen.call.start_ns, None, None)

    cdef tuple identity(self):
        return self.seen.turn, self.seen.call.start_ns, self.seen.call.numbers[SEQ], self.seen.of != NULL

    def __eq__(self, other): # each look at the calls makes new ones
        return isinstance(other, CallInC) and self.identity() == (<CallInC> other).identity()

    def __hash__(self):
        return hash(self.identity())


cdef list calls_under_way(Channel channel):
    cdef UnderWay copy
    cdef int i
    cdef list found = []
    for i in range(UNDER_WAY_MOST):
        if under_way_copy(&channel.under_way.each[i], &copy):
            found.append(_seen(channel, &copy))
    return found


cdef CallInC _seen(Channel channel, const UnderWay *copy):
    cdef CallInC call = CallInC.__new__(CallInC)
    call.channel, call.seen = channel, copy[0]
    return call


cdef int write_under_way(Channel channel, object status) except -1:
    """Write what is under way with a status, or forget it if that is None.

    The waits first: what nobody waits for any more has no wait.
    """
    cdef UnderWay *entry
    cdef UnderWay copy
    cdef int i
    for waits in (True, False):
        for i in range(UNDER_WAY_MOST):
            entry = &channel.under_way.each[i]
            if under_way_copy(entry, &copy) and (copy.of != NULL) == waits and under_way_take(entry, copy.turn):
                if entry.listed != NULL:
                    ring_leave(&channel.ring, entry.listed)
                under_way_free(channel.under_way, entry)
                if status is not None and not copy.has_no_row:
                    channel.put(_seen(channel, &copy).record(status))
    return 0


# -- for code in C ----------------------------------------------------------------------------------------


cdef int name_for_c(void *channel, void *text) noexcept:
    cdef Channel of = <Channel> channel
    try:
        return of.names.number(&of.ring, <object> text)
    except BaseException: # of a text that cannot be encoded, or a signal handler
        return -1


cdef int thread_for_c(void *recorder, int *stays) noexcept:
    cdef RecordingCalls of = <RecordingCalls> recorder
    cdef Caller caller
    try:
        caller = of.caller()
        stays[0] = type(caller) is Caller
        thread = _thread_of(caller)
        return name_for_c(<void *> of._channel, <void *> thread)
    except BaseException:
        return -1


cdef int label_for_c(void *recorder, uint16_t *layer_name, uint16_t *phase) noexcept:
    cdef RecordingCalls of = <RecordingCalls> recorder
    cdef int of_layer, of_phase
    try:
        layer, phase_, names_layer = of.label_in_force()
        of_layer = name_for_c(<void *> of._channel, <void *> layer)
        of_phase = name_for_c(<void *> of._channel, <void *> phase_)
        if of_layer < 0 or of_phase < 0:
            return -1
        layer_name[0], phase[0] = <uint16_t> of_layer, <uint16_t> of_phase
        return 1 if names_layer else 0
    except BaseException:
        return -1


cdef object capsule_for_c(RecordingCalls recorder):
    """Return the capsule of a recorder's ``Recording``, which is there as long as the recorder; None if it has none."""
    cdef Recording *in_c = &recorder.in_c
    cdef Channel channel
    if type(recorder._channel) is not Channel:
        return None
    channel = <Channel> recorder._channel
    with cython.critical_section(channel):
        if channel.under_way == NULL:
            channel.under_way = <UnderWayList *> calloc(1, sizeof(UnderWayList))
            if channel.under_way == NULL:
                raise MemoryError
            under_way_start(channel.under_way)
    with cython.critical_section(recorder):
        in_c.ring, in_c.under_way, in_c.number = &channel.ring, channel.under_way, recorder.number
        in_c.recorder, in_c.channel = <void *> recorder, <void *> channel
        in_c.name, in_c.thread, in_c.label = name_for_c, thread_for_c, label_for_c
        in_c.version = RECORDING_VERSION
        note_state_in_c(recorder)
    return PyCapsule_New(in_c, RECORDING_CAPSULE, NULL)


cdef int note_state(RecordingCalls recorder) except -1:
    """Have threads, and code in C, see that the iteration, the epoch, the work or the labels are others now."""
    count_change(&recorder.changes)
    if recorder.in_c.version:
        with cython.critical_section(recorder): # of two threads that set some, the later one has seen what both did
            note_state_in_c(recorder)
    return 0


cdef int note_state_in_c(RecordingCalls recorder) except -1:
    cdef Slot slot
    cdef Recording *in_c = &recorder.in_c
    cdef bint is_plain
    cdef int which
    slot.has = 0
    for which in range(N_NUMBERS):
        slot.numbers[which] = 0
    is_plain = (
        _number(&slot, ITERATION, <PyObject *> recorder._iteration)
        and _number(&slot, EPOCH, <PyObject *> recorder._epoch)
        and (_number(&slot, WORK, <PyObject *> recorder._work) or _real(&slot, WORK, <PyObject *> recorder._work))
    )
    recording_note(in_c, &slot, is_plain, recorder.recording, recorder._has_labels)
    return 0
