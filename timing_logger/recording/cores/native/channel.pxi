"""The channel, whose records lie in a ring, and the batches in which they are written."""

cdef class Channel:
    """The queue between recording threads and the flush thread: a ring, which a file may back.

    When it is full, the newest record is counted and discarded.
    """

    cdef Ring ring
    cdef Names names
    cdef dict elsewhere # what no slot can hold, by position
    cdef object path
    cdef UnderWayList *under_way # what code in C has begun; NULL if none records here
    cdef uint64_t last[N_NAMES] # of each column: the text's address, and behind it in 16 bits its number

    def __cinit__(self, capacity):
        self.ring.descriptor = -1
        self.names = Names()
        self.elsewhere = {}
        failed = ring_open(&self.ring, NULL, capacity)
        if failed:
            raise MemoryError(f"no memory for {capacity} records")
        follow_ring(&self.ring)

    def __dealloc__(self):
        forget_ring(&self.ring)
        ring_close(&self.ring)
        free(self.under_way)

    @property
    def capacity(self):
        """The most records that may wait."""
        return self.ring.capacity

    def back_by(self, path, timing_file, int64_t started_unix_ns, int64_t wall_offset_ns, capacity=None):
        """Keep the records in a new file, so that they outlive the process. Called before any is put.

        ``capacity`` is how many it holds, if not as many as the channel did.

        Raises:
            OSError: the file cannot be made, or there is no room for it.
        """
        cdef Ring ring
        cdef bytes name = os.fsencode(path), of = os.fsencode(timing_file)
        memset(&ring, 0, sizeof(ring))
        if len(of) >= RING_PATH_BYTES:
            raise OSError(36, "the path of the timing file is too long", timing_file)
        failed = ring_open(&ring, name, self.ring.capacity if capacity is None else capacity)
        if failed:
            raise OSError(failed, os.strerror(failed), path)
        ring.header.started_unix_ns = started_unix_ns
        ring.header.wall_offset_ns = wall_offset_ns
        memcpy(ring.header.path, PyBytes_AS_STRING(of), len(of) + 1)
        ring.header.magic = RING_MAGIC
        ring_move(&self.ring, &ring)
        self.path = path

    def renew_file(self):
        """Make the file that backs the channel anew if it is gone, and return whether it was.

        Raises:
            OSError: it cannot be made.
        """
        with cython.critical_section(self):
            path = self.path
        if path is None or ring_is_at(&self.ring, os.fsencode(path)):
            return False
        failed = ring_renew(&self.ring, os.fsencode(path))
        if failed:
            raise OSError(failed, os.strerror(failed), path)
        return True

    # -- putting --------------------------------------------------------------------------------------

    def put(self, record):
        """Queue ``record``, or count it as overflowed. Never blocks or raises."""
        cdef Slot slot
        if self.packed(&slot, record):
            ring_put(&self.ring, &slot)
        else:
            self.put_elsewhere(record)

    cdef inline bint put_fields(self, const Fields *fields) except -1:
        """Queue a record, or count it as overflowed; return False, and do neither, if no slot can hold it."""
        cdef Slot slot
        if not self.pack(&slot, fields):
            return False
        ring_put(&self.ring, &slot)
        return True

    def note_standing(self, open_records, groups, int64_t now_ns, int64_t progressed_ns):
        """Have the file say where the process stands: see ``timing_logger.recording.cores.channel``."""
        cdef Slot slots[RING_MOST_STANDING]
        cdef Fields fields
        cdef uint64_t count = 0
        for name, size, issued, completed in groups:
            state_nothing(&fields)
            fields.names[GROUP] = <PyObject *> name
            fields.numbers[GROUP_SIZE], fields.numbers[SEQ] = <PyObject *> size, <PyObject *> issued
            fields.numbers[PEER] = <PyObject *> completed
            fields.start_ns, fields.end_ns = 0, -1
            if count < RING_MOST_STANDING and self.pack(&slots[count], &fields):
                slots[count].has |= IS_GROUP
                count += 1
        for record in open_records:
            if count < RING_MOST_STANDING and self.packed(&slots[count], record):
                count += 1
        ring_note_standing(&self.ring, slots, count, now_ns, progressed_ns)

    def count_overflow(self):
        """Count a record that is not put."""
        ring_count_overflow(&self.ring)

    cdef int put_elsewhere(self, record) except -1:
        cdef Slot slot
        cdef uint64_t position = ring_claim(&self.ring)
        if position == RING_FULL:
            return 0
        memset(&slot, 0, sizeof(slot))
        slot.has = ELSEWHERE
        try:
            self.elsewhere[position] = record
        finally: # a slot that was claimed must be filled: without its record it counts as unreadable
            ring_fill(&self.ring, position, &slot)
        return 0

    cdef bint packed(self, Slot *slot, record) except -1:
        """Fill a slot with a record, and return whether it can hold it."""
        cdef Fields fields
        if not isinstance(record, tuple):
            return False
        start_ns, end_ns, metadata = instants_and_metadata_of(record)
        if metadata is not None or not _interval(start_ns, end_ns, &fields):
            return False
        fields_of(record, &fields)
        return self.pack(slot, &fields)

    cdef inline bint pack(self, Slot *slot, const Fields *fields) except -1:
        """Fill a slot, and return whether it can hold the record."""
        cdef int which
        slot.has = HAS_END if fields.end_ns >= 0 else 0
        slot.zero = 0
        if fields.start_ns < 0 or fields.end_ns > LAST_INSTANT_NS or -1 < fields.end_ns < fields.start_ns:
            return False
        slot.start_ns = fields.start_ns
        slot.end_ns = fields.end_ns
        # First: a new name runs Python code, and then who knows who holds a number.
        if not numbers_packed(slot, fields) and not self.amounts_packed(slot, fields):
            return False
        for which in range(N_NAMES, 4 * NAME_WORDS): # they are in the checksum
            slot.names[which] = 0
        for which in range(N_NAMES):
            if not self.named(slot, which, fields.names[which]):
                return False
        return True

    cdef inline bint named(self, Slot *slot, int which, PyObject *text) except -1:
        """Put a name, and return whether it is one for which there is room."""
        cdef uint64_t last = word_now(&self.last[which])
        if last >> 16 == <uint64_t> <uintptr_t> text: # mostly: the same text in row after row
            slot.names[which] = <uint16_t> last
            return True
        return self.name(slot, which, text)

    cdef bint amounts_packed(self, Slot *slot, const Fields *fields) except -1:
        """Fill in the numbers, of which some may be floats. Not inlined: most records have none."""
        cdef int which
        for which in range(N_NUMBERS):
            if not _number(slot, which, fields.numbers[which]):
                if not AMOUNTS & HAS(which) or not _real(slot, which, fields.numbers[which]):
                    return False
        return True

    cdef bint name(self, Slot *slot, int which, PyObject *text) except -1:
        cdef int number = self.names.number(&self.ring, <object> text)
        if number < 0:
            return False
        slot.names[which] = <uint16_t> number
        # Of the text that the number was given to, which lives on, as `text` may not.
        set_word(&self.last[which], <uint64_t> <uintptr_t> self.names.text(number) << 16 | <uint64_t> number)
        return True

    # -- taking ---------------------------------------------------------------------------------------

    def take(self, uint64_t limit):
        """Remove and return the oldest records, at most ``limit``."""
        cdef uint64_t first = self.ring.taken
        cdef uint64_t count = min(limit, ring_n_ready(&self.ring))
        cdef uint64_t i
        records = []
        for i in range(first, first + count):
            record = self.record_at(i)
            if record is not None:
                records.append(record)
            self.elsewhere.pop(i, None)
        ring_take(&self.ring, count)
        self.ring.n_unreadable += count - <uint64_t> len(records)
        return records

    def take_packed(self, uint64_t limit):
        """Remove and return the oldest records as a batch that knows its lines, or as a list if some are odd."""
        cdef uint64_t first = self.ring.taken, n_odd = 0, i
        cdef uint64_t count = min(<uint64_t> limit, self.most_in_batch(), ring_n_ready(&self.ring))
        cdef uint64_t first_odd = count
        cdef const NameTable *names = &self.names.table
        cdef Batch batch
        with nogil:
            for i in range(count):
                if ring_is_elsewhere(&self.ring, first + i) or not names_read(names, &self.ring, first + i):
                    n_odd += 1
                    first_odd = min(first_odd, i)
        if first_odd == 0 or n_odd * 16 > count:
            return self.take(min(count, <uint64_t> 1024))
        batch = Batch.__new__(Batch)
        batch.channel, batch.first, batch.count = self, first, first_odd
        ring_take(&self.ring, first_odd)
        return batch

    def release(self):
        """Give the room of all records that were taken to new ones: they are written."""
        ring_release(&self.ring)
        with nogil:
            ring_touch_ahead(&self.ring)

    def write_oldest(self, int64_t wall_offset_ns, int64_t longest_ns, int descriptor, uint64_t device,
                     uint64_t inode, uint64_t n_bytes):
        """Write the lines of the oldest records without the interpreter's lock: see csrc/writing.h.

        Returns:
            The number of records, the size of the file after them, whether its last line is torn, and when that
            was done, in ns: the interpreter may have let the calling thread wait since.
        """
        cdef OpenFile file
        cdef int64_t done_ns
        cdef uint64_t count, batch = self.most_in_batch()
        cdef size_t n_buffer = csv_most_bytes(&self.names.table, batch)
        cdef char *buffer = <char *> malloc(n_buffer)
        if buffer == NULL:
            raise MemoryError
        file.descriptor, file.device, file.inode, file.n_bytes, file.is_torn = descriptor, device, inode, n_bytes, 0
        self.ring.header.wall_offset_ns = wall_offset_ns = max(wall_offset_ns, NS_PER_S)
        with nogil:
            count = write_oldest(
                &self.ring, &self.names.table, &file, wall_offset_ns, longest_ns, batch, buffer, n_buffer
            )
            free(buffer)
            done_ns = perf_counter_ns()
        return count, file.n_bytes, bool(file.is_torn), done_ns

    cdef inline uint64_t most_in_batch(self):
        return min(<uint64_t> RING_BATCH, max(MOST_BYTES // csv_most_bytes(&self.names.table, 1), <uint64_t> 1))

    cdef object record_at(self, uint64_t position):
        """Return a record that was put; None if its slot does not hold it any more."""
        cdef const Slot *slot = ring_slot(&self.ring, position)
        if not names_read(&self.names.table, &self.ring, position):
            return None
        if not ring_is_elsewhere(&self.ring, position):
            return self.record_in(slot, slot.start_ns, slot.end_ns if slot.has & HAS_END else None)
        record = self.elsewhere.get(position)
        if record is None and slot.has & ON_DEVICE:
            record = self.elsewhere[position] = self.record_on_device(slot)
        return record

    cdef object record_in(self, const Slot *slot, start_ns, end_ns):
        cdef Fields fields
        cdef int which
        cdef list numbers = [_number_in(slot, which) for which in range(N_NUMBERS)] # which hold what the fields point to
        for which in range(N_NAMES):
            fields.names[which] = self.names.text(slot.names[which])
        for which in range(N_NUMBERS):
            fields.numbers[which] = <PyObject *> numbers[which]
        return raw_record(&fields, start_ns, end_ns, None)

    cdef object record_on_device(self, const Slot *slot):
        """Return the record of a block whose events code in C recorded; its interval is not the slot's any more."""
        cdef object interval = <object> <PyObject *> <uintptr_t> slot.end_ns
        Py_DECREF(interval)
        interval.marked_in_c(slot.start_ns, bool(slot.has & NOT_MARKED), bool(slot.has & IN_BACKGROUND))
        return self.record_in(slot, interval, None)

    # -- what code in C has begun -----------------------------------------------------------------------

    def calls_in_c(self):
        """Return the calls and operations that code in C has begun and not ended, and the waits for them."""
        return [] if self.under_way == NULL else calls_under_way(self)

    def write_calls_in_c(self, status):
        """Write these with ``status``, because their end will not be seen."""
        if self.under_way != NULL:
            write_under_way(self, status)

    def forget_calls_in_c(self):
        """Discard these: in a forked child they are the parent's."""
        if self.under_way != NULL:
            write_under_way(self, None)

    # -- state ----------------------------------------------------------------------------------------

    @property
    def oldest(self):
        """The oldest record that waits; None if none does."""
        return self.record_at(self.ring.taken) if ring_n_ready(&self.ring) else None

    @property
    def lacks_names(self):
        """Whether there was a name for which the ring has no room."""
        return self.names.are_full

    def close(self):
        """Let every record put from now on overflow; records that wait can still be taken."""
        with nogil:
            ring_shut(&self.ring)
            ring_settle(&self.ring) # else a record that is not whole yet would keep those behind it from being taken

    def remove_file(self):
        """Remove the file that backs the channel, if there is one: all that it held is written."""
        with cython.critical_section(self):
            path, self.path = self.path, None
        if path is None:
            return
        cdef bytes kept = os.fsencode(path)
        cdef const char *name = kept
        with nogil:
            ring_remove(&self.ring, name)
        ring_abandon(&self.ring) # once it is gone: who finds a ring that nobody locks takes its process for dead

    def abandon(self):
        """Close the channel and discard the waiting records: in a forked child they belong to the parent."""
        with cython.critical_section(self):
            self.path = None
        ring_abandon(&self.ring) # has been done in a child already: see csrc/forks.h
        self.elsewhere.clear()

    def counts(self):
        """Return counts that are consistent with each other."""
        cdef uint64_t n_unreadable = word_now(&self.ring.n_unreadable), n_overflows = word_now(&self.ring.n_overflows)
        cdef uint64_t taken = word_now(&self.ring.taken) # before the head, which only grows: it is never beyond it
        cdef uint64_t head = ring_head(&self.ring)
        return ChannelCounts(head + n_overflows, n_overflows, head - taken, n_unreadable)

    def __len__(self):
        return ring_n_ready(&self.ring)


cdef inline bint _number(Slot *slot, int which, PyObject *value) except -1:
    """Put a number, or None; return False if it is neither, or its column cannot hold it."""
    cdef int overflow = 0
    cdef long long number
    slot.numbers[which] = 0
    if value == <PyObject *> None:
        return True
    if type(<object> value) is not int:
        return False
    number = PyLong_AsLongLongAndOverflow(value, &overflow)
    if overflow or number == -LARGEST - 1 or (number < 0 and AMOUNTS & HAS(which)):
        return False
    slot.numbers[which] = number
    slot.has |= HAS(which)
    return True


cdef inline bint _real(Slot *slot, int which, PyObject *value) except -1:
    """Put a float that is an amount; return False if it is none."""
    cdef double real
    if type(<object> value) is not float:
        return False
    real = <object> value
    if not 0 <= real < INFINITE:
        return False
    memcpy(&slot.numbers[which], &real, sizeof(real))
    slot.has |= HAS(which) | IS_REAL(which)
    return True


cdef inline object _number_in(const Slot *slot, int which):
    cdef double real
    if not slot.has & HAS(which):
        return None
    if not slot.has & IS_REAL(which):
        return slot.numbers[which]
    memcpy(&real, &slot.numbers[which], sizeof(real))
    return real


cdef inline PyObject *item_of(object record, int place) noexcept:
    """Return what stands at a place in a record, which may end before it."""
    return PyTuple_GET_ITEM(record, place) if place < PyTuple_GET_SIZE(record) else <PyObject *> None


cdef inline void state_nothing(Fields *fields) noexcept:
    """Leave all columns blank."""
    cdef int which
    for which in range(N_NAMES):
        fields.names[which] = <PyObject *> NOTHING
    for which in range(N_NUMBERS):
        fields.numbers[which] = <PyObject *> None


cdef inline bint _interval(start_ns, end_ns, Fields *fields) except -1:
    """Put the instants, of which the end may be None; return False if they are no instants."""
    fields.start_ns = fields.end_ns = -1
    return _instant(start_ns, &fields.start_ns) and (end_ns is None or _instant(end_ns, &fields.end_ns))


cdef inline bint _instant(object value, int64_t *instant) except -1:
    cdef int overflow = 0
    if type(value) is not int:
        return False
    instant[0] = PyLong_AsLongLongAndOverflow(<PyObject *> value, &overflow)
    return not overflow and instant[0] >= 0


if leave_rings_in_children():
    raise MemoryError("no memory for a fork handler")


cdef class Batch:
    """Records of a channel that are being written: a sequence of records, valid until they are released."""

    cdef Channel channel
    cdef uint64_t first, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        cdef Batch part
        if isinstance(index, slice):
            begin, end, _ = index.indices(self.count)
            part = Batch.__new__(Batch)
            part.channel, part.first, part.count = self.channel, self.first + begin, max(0, end - begin)
            return part
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self.channel.record_at(self.first + index)

    def csv_lines(self, int64_t wall_offset_ns):
        """Return the lines of the records, as ``format_records`` has them, encoded."""
        cdef size_t most = csv_most_bytes(&self.channel.names.table, self.count)
        cdef PyObject *lines = PyBytes_FromStringAndSize(NULL, most)
        cdef char *out
        cdef size_t n_bytes
        if lines == NULL:
            raise MemoryError
        out = PyBytes_AS_STRING(<object> lines)
        self.channel.ring.header.wall_offset_ns = wall_offset_ns = max(wall_offset_ns, NS_PER_S)
        with nogil:
            n_bytes = csv_lines(&self.channel.ring, &self.channel.names.table, self.first, self.count,
                                wall_offset_ns, out)
        _PyBytes_Resize(&lines, n_bytes)
        cut = <object> lines
        Py_DECREF(cut)
        return cut
