"""The names that records hold as numbers."""

cdef class Names:
    """The names of a ring, by number: found by identity, else by value."""

    cdef NameTable table
    cdef dict by_value
    cdef PyObject **kept       # by number: the text, and what its cells point to
    cdef bint are_full         # there was no room for one: each further one would be encoded in vain

    def __cinit__(self):
        self.kept = <PyObject **> calloc(RING_MOST_NAMES, sizeof(PyObject *))
        if names_open(&self.table) or not self.kept:
            raise MemoryError
        self.by_value = {}

    def __dealloc__(self):
        cdef int number
        names_close(&self.table)
        if self.kept == NULL:
            return
        for number in range(RING_MOST_NAMES):
            if self.kept[number] != NULL:
                Py_DECREF(<object> self.kept[number])
        free(self.kept)

    cdef inline int number(self, Ring *ring, object text) except -2:
        """Return the number of a text; -1 if it is no text, or there is no room for another."""
        cdef int number = names_seen(&self.table, <PyObject *> text)
        return number if number >= 0 else self.number_by_value(ring, text)

    cdef int number_by_value(self, Ring *ring, object text) except -2:
        if type(text) is not str:
            return -1
        found = self.by_value.get(text)
        if found is not None:
            return found
        if self.are_full:
            return -1
        stored = escape_text(text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS - 1] + "…").encode()
        kept = (text, name_cell(text).encode(), operation_cell(text).encode())
        found = self.by_value.get(text) # another thread may have been here meanwhile
        return self.new_number(ring, stored, kept) if found is None else found

    cdef int new_number(self, Ring *ring, bytes stored, tuple kept) except -2:
        cdef PyObject *text = PyTuple_GET_ITEM(kept, 0)
        cdef int number = names_add(
            &self.table, ring, PyBytes_AS_STRING(stored), len(stored), _cell(PyTuple_GET_ITEM(kept, 1)),
            _cell(PyTuple_GET_ITEM(kept, 2)),
        )
        if number < 0:
            self.are_full = True
            return -1
        Py_INCREF(kept)
        self.kept[number] = <PyObject *> kept
        self.by_value[<object> text] = number
        names_note_seen(&self.table, text, number)
        return number

    cdef inline PyObject *text(self, int number) noexcept:
        return PyTuple_GET_ITEM(<object> self.kept[number], 0)


cdef inline Cell _cell(PyObject *encoded):
    cdef Cell cell
    cell.text = PyBytes_AS_STRING(<object> encoded)
    cell.n_bytes = PyBytes_GET_SIZE(<object> encoded)
    return cell
