#include "csv_lines.h"

size_t csv_most_bytes(const Names *names, size_t n_records)
{
    uint32_t longest = __atomic_load_n(&names->longest, __ATOMIC_ACQUIRE);
    return n_records * (CSV_BYTES_BESIDE_CELLS + N_NAMES * (size_t)longest);
}

CsvRow csv_row(const Slot *slot, const Names *names)
{
    CsvRow row = {slot->start_ns, slot->end_ns, slot->numbers, slot->has, {NULL}};
    for (int which = 0; which < N_NAMES; which++)
        row.cells[which] = &(which == OPERATION ? names->upper : names->plain)[slot->names[which]];
    return row;
}

size_t csv_lines(const Ring *ring, const Names *names, uint64_t first, size_t n_records,
                 int64_t wall_offset_ns, char *out)
{
    WholeSecond second = {.unix_s = -1};
    char *const begin = out;
    for (uint64_t position = first; position < first + n_records; position++) {
        CsvRow row = csv_row(ring_slot(ring, position), names);
        out = csv_line(out, &second, wall_offset_ns, &row);
    }
    return (size_t)(out - begin);
}
