"""The names that records hold as numbers."""

cdef class Names:
    """The names of a ring, by number: found by identity, else by value."""

    cdef Cells cells
    cdef PyObject **seen       # an open hash table of the texts' addresses ...
    cdef uint16_t *seen_number # ... and the number of each
    cdef dict by_value
    cdef list kept             # what the cells and addresses point to
    cdef PyObject **address    # of each text, by number
    cdef bint are_full         # there was no room for one: each further one would be encoded in vain

    def __cinit__(self):
        self.cells.plain = <Cell *> calloc(RING_MOST_NAMES, sizeof(Cell))
        self.cells.upper = <Cell *> calloc(RING_MOST_NAMES, sizeof(Cell))
        self.seen = <PyObject **> calloc(SEEN, sizeof(PyObject *))
        self.seen_number = <uint16_t *> calloc(SEEN, sizeof(uint16_t))
        self.address = <PyObject **> calloc(RING_MOST_NAMES, sizeof(PyObject *))
        if not (self.address and self.cells.plain and self.cells.upper and self.seen and self.seen_number):
            raise MemoryError
        self.by_value = {}
        self.kept = []

    def __dealloc__(self):
        free(self.cells.plain)
        free(self.cells.upper)
        free(self.seen)
        free(self.address)
        free(self.seen_number)

    cdef inline int number(self, Ring *ring, object text) except -2:
        """Return the number of a text; -1 if it is no text, or there is no room for another."""
        cdef uintptr_t at = _place(<PyObject *> text)
        while self.seen[at] != NULL:
            if self.seen[at] == <PyObject *> text:
                return self.seen_number[at]
            at = (at + 1) & (SEEN - 1)
        return self.number_by_value(ring, text)

    cdef int number_by_value(self, Ring *ring, object text) except -2:
        if type(text) is not str:
            return -1
        found = self.by_value.get(text)
        if found is not None:
            return found
        if self.are_full:
            return -1
        stored = escape_text(text if len(text) <= MAX_TEXT_CHARS else text[:MAX_TEXT_CHARS - 1] + "…").encode()
        plain, upper = name_cell(text).encode(), operation_cell(text).encode()
        kept = (text, plain, upper)
        found = self.by_value.get(text) # another thread may have been here meanwhile
        return self.new_number(ring, stored, kept) if found is None else found

    cdef int new_number(self, Ring *ring, bytes stored, tuple kept) except -2:
        """Add a name, in one step: nothing here can run Python code."""
        cdef PyObject *text = PyTuple_GET_ITEM(kept, 0)
        cdef uintptr_t at = _place(text)
        cdef int number = len(self.kept)
        if ring_add_name(ring, PyBytes_AS_STRING(stored), len(stored)):
            self.are_full = True
            return -1
        self.kept.append(kept)
        self.by_value[<object> text] = number
        self.cells.plain[number] = _cell(PyTuple_GET_ITEM(kept, 1))
        self.cells.upper[number] = _cell(PyTuple_GET_ITEM(kept, 2))
        csv_note_cells(&self.cells, number)
        self.address[number] = text
        while self.seen[at] != NULL:
            at = (at + 1) & (SEEN - 1)
        self.seen[at] = text
        self.seen_number[at] = number
        return number


cdef inline uintptr_t _place(PyObject *text):
    return ((<uintptr_t> text >> 4) * <uintptr_t> 0x9e3779b97f4a7c15) >> (64 - SEEN_BITS)


cdef inline Cell _cell(PyObject *encoded):
    cdef Cell cell
    cell.text = PyBytes_AS_STRING(<object> encoded)
    cell.n_bytes = PyBytes_GET_SIZE(<object> encoded)
    return cell
