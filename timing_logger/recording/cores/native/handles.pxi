"""Handles on operations, which hold these in ``_operation``.

Of a class that :func:`handle_class` made known, the place of that slot in its objects is known, too. To look the
attribute up each time, and ``__del__`` at the end, would cost a fifth of what it costs to time a message.
"""

ctypedef struct HandleKind:
    PyTypeObject *kind
    Py_ssize_t at # of the slot, in bytes from the start of an object

cdef enum:
    MOST_HANDLE_KINDS = 4

cdef HandleKind handle_kinds[MOST_HANDLE_KINDS]
cdef int n_handle_kinds = 0


def handle_class(kind):
    """Have the handles of a class write the rows of operations as unresolved whose end nobody saw."""
    global n_handle_kinds
    kind.__del__ = lose_operation
    slot = getattr(kind, "_operation", None)
    if not SLOTS_ARE_PLAIN or n_handle_kinds == MOST_HANDLE_KINDS or Py_TYPE(slot) != &PyMemberDescr_Type:
        return kind
    Py_INCREF(kind)
    handle_kinds[n_handle_kinds].kind = <PyTypeObject *> kind
    handle_kinds[n_handle_kinds].at = (<PyMemberDescrObject *> <PyObject *> slot).d_member.offset
    n_handle_kinds += 1
    (<PyTypeObject *> kind).tp_finalize = finalize_handle
    return kind


def lose_operation(handle):
    """Write the row of a handle's operation as unresolved if nobody saw its end: to be its ``__del__``."""
    cdef BackgroundSpan operation = operation_of(handle) # None, too, in one just made
    if operation is not None:
        operation.lose_it()


cdef void finalize_handle(PyObject *handle) noexcept:
    """Do the same: what the interpreter calls for ``__del__``, while an error may be on its way."""
    cdef PyObject **place = place_in(handle)
    cdef PyObject *kind
    cdef PyObject *error
    cdef PyObject *traceback
    if place != NULL and (place[0] == NULL or place[0] == <PyObject *> None):
        return
    PyErr_Fetch(&kind, &error, &traceback)
    lose_and_report(<object> handle)
    PyErr_Restore(kind, error, traceback)


cdef void lose_and_report(object handle) noexcept:
    lose_operation(handle)


cdef inline PyObject **place_in(PyObject *handle) noexcept:
    """Return where a handle of a known class holds its operation; NULL for any other object."""
    cdef int i
    for i in range(n_handle_kinds):
        if Py_TYPE(<object> handle) == handle_kinds[i].kind:
            return <PyObject **> (<char *> handle + handle_kinds[i].at)
    return NULL


cdef inline BackgroundSpan operation_of(object handle):
    """Return the operation that a handle holds, if it is one of this core that has begun; else None."""
    cdef PyObject **place = place_in(<PyObject *> handle)
    if place == NULL:
        held = getattr(handle, "_operation", None)
    elif place[0] == NULL:
        return None
    else:
        held = <object> place[0]
    if isinstance(held, BackgroundSpan) and (<BackgroundSpan> held).recorder is not None:
        return <BackgroundSpan> held
    return None


cdef inline int hold(object handle, object operation) except -1:
    """Have a handle hold an operation, or None."""
    cdef PyObject **place = place_in(<PyObject *> handle)
    cdef PyObject *before
    if place == NULL:
        handle._operation = operation
        return 0
    before = place[0]
    Py_INCREF(operation)
    place[0] = <PyObject *> operation
    if before != NULL:
        Py_DECREF(<object> before)
    return 0
