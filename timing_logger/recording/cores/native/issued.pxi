"""Methods that begin an operation and return a handle on it: see timing_logger/recording/cores/issued_calls.py."""

cdef class IssuedMethod:
    """The timed form of such a method. Its common calls are made here, all others by a function for any call.

    As with functions, the interpreter calls it without making a bound method first.
    """

    cdef vectorcallfunc called
    cdef object general, method, operation, learn, plain, handle, refused
    cdef Py_ssize_t rank_at # after the object itself; 0 for none
    cdef bint sends, sized
    cdef bint is_made_by_new # whether there is nothing in `__init__` of a handle
    cdef dict __dict__

    def __init__(self, general, common):
        self.general = general
        self.method, self.operation, rank_at, self.sends, self.sized, self.learn, *further = common
        self.plain, self.handle, self.refused = further
        self.rank_at = 0 if rank_at is None else rank_at + 1
        self.is_made_by_new = (<PyTypeObject *> self.handle).tp_init == (<PyTypeObject *> object).tp_init
        self.called = call_issued

    def __get__(self, owner, kind):
        return self if owner is None else MethodType(self, owner)

    def __call__(self, *args, **kwargs):
        return self.general(*args, **kwargs)

    cdef object call_common(self, PyObject *const *args, size_t n_args):
        """Make the call and return its handle, or ``NotImplemented`` if it is no common one."""
        cdef TimedGroup group
        cdef RecordingCalls recorder
        cdef BackgroundSpan span
        cdef int64_t start_ns
        cdef PyObject *result
        if n_args <= <size_t> max(self.rank_at, <Py_ssize_t> self.sized):
            return NotImplemented
        timing = (<object> args[0])._timing
        if not isinstance(timing, TimedGroup):
            return NotImplemented
        group = <TimedGroup> timing
        logger = group.logger
        rank = <object> args[self.rank_at] if self.rank_at else None
        size = _plain_bytes(<object> args[1]) if self.sized else None
        if not isinstance(logger, RecordingCalls) or not (<RecordingCalls> logger).recording:
            return NotImplemented
        if (self.rank_at and not _is_rank(rank)) or (self.sized and size is None):
            return NotImplemented
        recorder = <RecordingCalls> logger
        start_ns = perf_counter_ns()
        try:
            result = PyObject_Vectorcall(<PyObject *> self.method, args, n_args, NULL)
        except BaseException as error:
            self.refused(<object> args[0], start_ns, tuple([<object> args[i] for i in range(1, n_args)]), error)
            raise
        made = <object> result
        Py_DECREF(made) # the reference that the call returned
        if self.rank_at:
            seq = next((group.sent if self.sends else group.received)[rank])
        else:
            seq = group.next_collective()
        span = recorder.background(
            self.operation, size, rank, group.name, group.size, seq, self.learn, start_ns, True
        )
        if not isinstance(made, self.plain): # a subclass's own: nobody tells when it is complete
            span.end_with(UNRESOLVED)
            return made
        handle = self.handle_of(made)
        hold(handle, span)
        return handle

    cdef inline object handle_of(self, object made):
        cdef PyTypeObject *kind = <PyTypeObject *> self.handle
        return kind.tp_new(kind, (made,), NULL) if self.is_made_by_new else self.handle(made)


cdef PyObject *call_issued(PyObject *called, PyObject *const *args, size_t n_args, PyObject *names) except NULL:
    cdef IssuedMethod method = <IssuedMethod> called
    found = NotImplemented
    if names == NULL and PyVectorcall_NARGS(n_args):
        found = method.call_common(args, PyVectorcall_NARGS(n_args))
    if found is NotImplemented:
        return PyObject_Vectorcall(<PyObject *> method.general, args, n_args, names)
    Py_INCREF(found)
    return <PyObject *> found


cdef inline bint _is_rank(object value) except -1:
    cdef int overflow = 0
    return type(value) is int and PyLong_AsLongLongAndOverflow(<PyObject *> value, &overflow) >= 0 and not overflow


cdef inline object _plain_bytes(object buffer):
    try:
        n_bytes = getattr(buffer, "nbytes", None)
    except Exception:
        return None
    return n_bytes if type(n_bytes) is int else None


def issued_method(general, common):
    """Return the timed form of a method, where ``general`` is one for any call."""
    return update_wrapper(IssuedMethod(general, common), common.method)


cdef void allow_vectorcalls_of_methods(PyTypeObject *kind, Py_ssize_t at) noexcept:
    """Have the interpreter call objects of the class by the function that they hold at this place, as it does methods."""
    kind.tp_vectorcall_offset = at
    kind.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR


cdef IssuedMethod one_issued = IssuedMethod.__new__(IssuedMethod)
allow_vectorcalls_of_methods(
    <PyTypeObject *> IssuedMethod, <char *> &one_issued.called - <char *> <PyObject *> one_issued
)
