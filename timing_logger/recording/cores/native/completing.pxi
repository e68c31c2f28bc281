"""Calls that may see operations end: see timing_logger/recording/cores/issued_calls.py."""

cdef class CompletingMethod:
    """The timed form of such a call, which calls it as the Python core's ``completing_method`` does.

    As with functions, the interpreter calls it without making a bound method first.
    """

    cdef vectorcallfunc called
    cdef object call, status, places
    cdef tuple names
    cdef bint blocks, of_one, tells_each
    cdef dict __dict__

    def __init__(self, of):
        self.call, self.names, self.blocks, self.of_one, self.tells_each, self.status, self.places = of
        self.called = call_completing

    def __get__(self, owner, kind):
        return self if owner is None else MethodType(self, owner)

    def __call__(self, *args, **kwargs):
        two = two_given(self.names, args, kwargs)
        return self.call(*args, **kwargs) if two is None else self.see(two[0], two[1])

    cdef object see(self, object given, object told):
        cdef Completion call = completion_of((given,) if self.of_one else given, self.blocks)
        cdef list own = None
        if call is None:
            return call_with_two(self.call, given, told)
        if told is None and call.learns:
            own = statuses_of(call.caller)
            if not (self.tells_each or own):
                own.append(self.status())
            told = own if self.tells_each else own[0]
        try:
            result = call_with_two(self.call, given, told)
        except BaseException as error:
            call.failed(error)
            raise
        call.ended()
        call.settle_seen(None if self.places is None else self.places(result), told if self.tells_each else (told,))
        if own is not None:
            keep_statuses(call.caller, own)
        return result


cdef inline list statuses_of(Caller caller):
    """Return the statuses that the thread keeps, or none: no other call of it fills them in meanwhile."""
    cdef list kept = caller.statuses
    caller.statuses = None
    return [] if kept is None else kept


cdef inline void keep_statuses(Caller caller, list statuses):
    if HAS_GLOBAL_LOCK and len(statuses) <= MOST_STATUSES: # else two threads without a name might take the same
        caller.statuses = statuses


cdef inline object call_with_two(object call, object one, object other):
    cdef PyObject *args[2]
    args[0], args[1] = <PyObject *> one, <PyObject *> other
    cdef PyObject *result = PyObject_Vectorcall(<PyObject *> call, args, 2, NULL)
    found = <object> result
    Py_DECREF(found) # the reference that the call returned
    return found


cdef PyObject *call_completing(
    PyObject *called, PyObject *const *args, size_t n_args, PyObject *names
) except NULL:
    cdef CompletingMethod method = <CompletingMethod> called
    cdef Py_ssize_t n_given = <Py_ssize_t> PyVectorcall_NARGS(n_args), i
    cdef tuple named
    if names == NULL and (n_given == 1 or n_given == 2):
        found = method.see(<object> args[0], <object> args[1] if n_given == 2 else None)
    else:
        named = () if names == NULL else <tuple> names
        found = method(
            *[<object> args[i] for i in range(n_given)],
            **{named[i]: <object> args[n_given + i] for i in range(len(named))},
        )
    Py_INCREF(found)
    return <PyObject *> found


def completing_method(of):
    """Return the timed form of a call that may see operations end."""
    return update_wrapper(CompletingMethod(of), of.call)


cdef CompletingMethod one_completing = CompletingMethod.__new__(CompletingMethod)
allow_vectorcalls_of_methods(
    <PyTypeObject *> CompletingMethod, <char *> &one_completing.called - <char *> <PyObject *> one_completing
)
