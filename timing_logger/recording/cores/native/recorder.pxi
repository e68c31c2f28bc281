"""The recording calls."""

cdef int64_t n_recorders = 0


cdef class RecordingCalls:
    """The recording calls of :class:`~timing_logger.recording.recorder.Recorder`, which explains them."""

    cdef public bint recording
    cdef public object _selective, _iteration, _epoch, _work, _channel, _label, _policy, _callers
    cdef public bint _enabled
    cdef public bint _has_labels # whether a label was ever in force
    cdef uint64_t number
    cdef Recording in_c # what code in C records by; of no version if none does
    cdef dict kept # by thread: the caller that the thread itself remembers, for as long as it may
    cdef uint64_t changes # of iteration, epoch and work; a caller that has copied none has seen 0

    def __cinit__(self, *_, **__):
        self.number = count_next(&n_recorders) + 1
        self.changes = 1
        self.kept = {}

    cdef inline Caller caller(self):
        cdef PyObject *known = caller_of_this_thread(self.number)
        if known != NULL:
            return <Caller> known
        cdef Caller found = self._callers.current
        self.kept[get_ident()] = found
        remember_caller(self.number, <PyObject *> found)
        return found

    cdef Caller state_now(self):
        """Return the calling thread's caller, with copies of the iteration, the epoch and the work in force.

        For where there is no global lock: there, what this recorder holds may be replaced, and gone, between the moment
        at which another thread reads where it is and the one at which that thread takes hold of it.
        """
        cdef Caller caller = self.caller()
        cdef uint64_t changes = word_now(&self.changes)
        if caller.changes != changes:
            with cython.critical_section(self):
                caller.iteration, caller.epoch, caller.work = self._iteration, self._epoch, self._work
            caller.changes = changes
        return caller

    def recording_in_c(self):
        """Return a capsule by which code in C records: see recording.h. None if it cannot over this channel."""
        return capsule_for_c(self)

    def _note_state(self):
        note_state(self)

    def set_current_iteration(self, iteration):
        cdef bint is_first_or_later = type(iteration) is int and iteration >= 0
        with cython.critical_section(self):
            self._iteration = iteration
        set_flag(<int *> &self.recording, self._enabled and (
            (is_first_or_later and not self._selective) or self._policy.records(iteration)
        ))
        note_state(self)

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
        group="", group_size=None, seq=None, peer=None, work=None, message_size_bytes=None, mpi_op_name=None,
    ):
        cdef Span span
        cdef Caller caller
        if iteration is None:
            if not flag_now(<int *> &self.recording):
                return NO_SPAN_
            iteration = self._iteration if HAS_GLOBAL_LOCK else self.state_now().iteration
        elif self._selective and not self._policy.records(iteration):
            return NO_SPAN_
        if mpi_op_name is not None:
            operation = one_value(operation, mpi_op_name)
        if message_size_bytes is not None:
            message_size = one_value(message_size, message_size_bytes)
        if layer_name is None or phase is None:
            label = self.label_in_force()
            if layer_name is None:
                layer_name = label[0]
            if phase is None:
                phase = label[1]
        caller = self.caller()
        span = new_span(caller)
        span.thread = _thread_of(caller)
        span.operation = operation
        span.message_size_bytes = message_size
        span.layer_name = layer_name
        span.phase = phase
        span.iteration = iteration
        span.epoch = epoch if epoch is not None else self._epoch if HAS_GLOBAL_LOCK else self.state_now().epoch
        span.group = group
        # Mostly None, as before: each count of its references that is moved waits for the one before.
        if span.group_size is not group_size:
            span.group_size = group_size
        if span.seq is not seq:
            span.seq = seq
        if span.peer is not peer:
            span.peer = peer
        if work is None:
            work = self._work if HAS_GLOBAL_LOCK else self.state_now().work
        if span.work is not work:
            span.work = work
        return span

    def begin_operation(self, kind, operation, message_size, layer_name, group, group_size, peer):
        cdef PyTypeObject *made = <PyTypeObject *> kind
        cdef Span span = made.tp_new(made, NO_ARGUMENTS, NULL)
        span.caller = self.caller()
        self.fill(span, operation, message_size, layer_name, group, group_size, peer)
        return span

    cdef inline int fill(
        self, Span span, object operation, object message_size, object layer_name, object group, object group_size,
        object peer,
    ) except -1:
        """Fill in the columns of a span, those that its caller does not state by what is in force now."""
        cdef tuple label = self.label_in_force()
        span.thread = _thread_of(span.caller)
        span.operation = operation
        span.message_size_bytes = message_size
        span.layer_name = label[0] if layer_name is None else layer_name
        span.phase = label[1]
        span.group = group
        span.group_size = group_size
        if span.seq is not None:
            span.seq = None
        if span.peer is not peer:
            span.peer = peer
        span.state_no_further()
        return self.fill_in_state(span)

    cdef inline int fill_in_state(self, Span span) except -1:
        cdef Caller state
        if HAS_GLOBAL_LOCK:
            span.iteration = self._iteration
            span.epoch = self._epoch
            if self._work is not None:
                span.work = self._work
            return 0
        state = self.state_now()
        span.iteration, span.epoch = state.iteration, state.epoch
        if state.work is not None:
            span.work = state.work
        return 0

    def time_call(self, operation, message_size, layer_name, peer, group, handle, call, args):
        cdef bint recording = flag_now(<int *> &self.recording)
        cdef Caller caller = self.caller()
        cdef Span span
        cdef Channel channel = None
        cdef Fields fields
        cdef Slot slot
        cdef Slot *entry = NULL # in the list of open calls: what the process is in if it hangs, or is killed
        if recording:
            span = new_span(caller)
        else:
            span = Unrecorded.__new__(Unrecorded)
            span.caller = caller
        self.fill(span, operation, message_size, layer_name, group.name, group.size, peer)
        if type(caller.channel) is Channel:
            span.put_into(&fields, operation, 0, -1, OK_, span.thread)
            if (<Channel> caller.channel).pack(&slot, &fields):
                channel = <Channel> caller.channel
        begun = None
        span.seq = group.next_collective() # last: whatever fails before it takes no number
        if channel is not None and not _number(&slot, SEQ, <PyObject *> span.seq):
            channel = None
        span.link()
        set_instant(&span.start, perf_counter_ns())
        if channel is not None:
            slot.start_ns = span.start
            entry = ring_enter(&channel.ring, &slot, 0)
            span.is_in_ring = entry != NULL
        try:
            begun = call(*args)
            if begun is not None and isinstance(begun, handle):
                begun.wait()
        except BaseException as error:
            if entry != NULL:
                ring_leave(&channel.ring, entry)
            counts = begun is not None or not group.take_back(error)
            span.fail(error, begun if isinstance(begun, handle) else None, counts)
            raise
        set_instant(&span.end, perf_counter_ns())
        span.out()
        if entry != NULL:
            ring_leave(&channel.ring, entry)
        if recording and channel is not None and span.is_of(caller):
            slot.end_ns = span.end
            slot.has |= HAS_END
            ring_put(&channel.ring, &slot)
        elif recording:
            span.put(operation, span.start, span.end, OK_, span.thread)
        return begun

    def issue_call(
        self, kind, operation, message_size, layer_name, peer, group, bint numbered, bint goes_on, call, args,
    ):
        cdef PyTypeObject *made = <PyTypeObject *> kind
        cdef BackgroundSpan span = made.tp_new(made, NO_ARGUMENTS, NULL)
        span.caller = self.caller()
        self.fill(span, operation, message_size, layer_name, group.name, group.size, peer)
        if numbered: # before the call, which may hang: its open row needs the number
            span.seq = group.next_collective()
        try:
            span.begin_at(goes_on, self, 0, True)
            return span, call(*args)
        except BaseException as error:
            if numbered and group.take_back(error):
                span.take_number_off()
            span.end(type(error))
            raise

    def begin_background(self, operation, message_size, peer, group, seq, learn, int64_t start_ns, bint has_rows=True):
        return self.background(operation, message_size, peer, group.name, group.size, seq, learn, start_ns, has_rows)

    cdef BackgroundSpan background(
        self, object operation, object message_size, object peer, object group, object group_size, object seq,
        object learn, int64_t start_ns, bint has_rows,
    ):
        cdef BackgroundSpan span = BackgroundSpan.__new__(BackgroundSpan)
        span.caller = self.caller()
        self.fill(span, operation, message_size, None, group, group_size, peer)
        span.seq = seq
        span.learn = learn
        span.begin_at(True, self, start_ns, has_rows)
        return span

    def record_timing(
        self, operation=None, elapsed_ms=None, layer_name=None, message_size=None, phase=None, iteration=None,
        epoch=None, start_counter=None, end_counter=None, *, group="", group_size=None, seq=None, peer=None,
        work=None, message_size_bytes=None, mpi_op_name=None,
    ):
        cdef int64_t now = perf_counter_ns(), elapsed
        cdef Fields fields
        if mpi_op_name is not None:
            operation = one_value(operation, mpi_op_name)
        if message_size_bytes is not None:
            message_size = one_value(message_size, message_size_bytes)
        if start_counter is None and end_counter is None and type(elapsed_ms) is float and 0 <= elapsed_ms < 1e12:
            elapsed = <int64_t> (<double> elapsed_ms * NS_PER_MS + 0.5)
            fields.start_ns = max(<int64_t> 0, now - elapsed)
            fields.end_ns = fields.start_ns + elapsed
            self.interval(&fields, True, operation, None, None, message_size, layer_name, phase, iteration, epoch,
                          group, group_size, seq, peer, work, HOST, OK_, None)
        else:
            start_ns, end_ns, status = stated_interval(elapsed_ms, start_counter, end_counter, now)
            self.record_interval(
                operation, start_ns, end_ns, message_size, layer_name, phase, iteration, epoch, group=group,
                group_size=group_size, seq=seq, peer=peer, work=work, status=status,
            )

    def record_interval(
        self, operation, start_ns, end_ns, message_size=None, layer_name=None, phase=None, iteration=None,
        epoch=None, *, group="", group_size=None, seq=None, peer=None, work=None, clock=HOST_CLOCK, status=OK,
        metadata=None,
    ):
        cdef Fields fields
        cdef bint fits = _interval(start_ns, end_ns, &fields) and metadata is None
        self.interval(&fields, fits, operation, start_ns, end_ns, message_size, layer_name, phase, iteration, epoch,
                      group, group_size, seq, peer, work, clock, status, metadata)

    cdef int interval(
        self, Fields *fields, bint fits, object operation, object start_ns, object end_ns, object message_size,
        object layer_name, object phase, object iteration, object epoch, object group, object group_size,
        object seq, object peer, object work, object clock, object status, object metadata,
    ) except -1:
        """Put a record. If it ``fits``, ``fields`` has its instants; then a start of None says: only there."""
        cdef object thread
        if iteration is None:
            if not flag_now(<int *> &self.recording):
                return 0
            iteration = self._iteration if HAS_GLOBAL_LOCK else self.state_now().iteration
        elif self._selective and not self._policy.records(iteration):
            return 0
        if layer_name is None or phase is None:
            label = self.label_in_force()
            layer_name = label[0] if layer_name is None else layer_name
            phase = label[1] if phase is None else phase
        if epoch is None:
            epoch = self._epoch if HAS_GLOBAL_LOCK else self.state_now().epoch
        if work is None:
            work = self._work if HAS_GLOBAL_LOCK else self.state_now().work
        thread = _thread_of(self.caller())
        no_further_fields(fields)
        fields.names[STREAM] = <PyObject *> NOTHING
        fields.names[LAYER_NAME], fields.names[OPERATION] = <PyObject *> layer_name, <PyObject *> operation
        fields.names[PHASE], fields.names[CLOCK] = <PyObject *> phase, <PyObject *> clock
        fields.names[GROUP], fields.names[THREAD] = <PyObject *> group, <PyObject *> thread
        fields.names[STATUS] = <PyObject *> status
        fields.numbers[ITERATION], fields.numbers[EPOCH] = <PyObject *> iteration, <PyObject *> epoch
        fields.numbers[MESSAGE_SIZE_BYTES] = <PyObject *> message_size
        fields.numbers[GROUP_SIZE] = <PyObject *> group_size
        fields.numbers[SEQ], fields.numbers[PEER] = <PyObject *> seq, <PyObject *> peer
        fields.numbers[WORK] = <PyObject *> work
        if not (fits and type(self._channel) is Channel and (<Channel> self._channel).put_fields(fields)):
            if fits and start_ns is None:
                start_ns, end_ns = fields.start_ns, fields.end_ns
            self._channel.put(raw_record(fields, start_ns, end_ns, metadata))
        return 0


cdef inline object _thread_of(Caller caller):
    return caller.thread if type(caller) is Caller else (<object> caller).thread
