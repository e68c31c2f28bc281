#include "csv_lines.h"

void csv_note_cells(Cells *cells, int number)
{
    uint32_t plain = cells->plain[number].n_bytes, upper = cells->upper[number].n_bytes;
    uint32_t longest = plain > upper ? plain : upper;
    if (longest > cells->longest)
        __atomic_store_n(&cells->longest, longest, __ATOMIC_RELEASE);
}

size_t csv_most_bytes(const Cells *cells, size_t n_records)
{
    uint32_t longest = __atomic_load_n(&cells->longest, __ATOMIC_RELAXED);
    return n_records * (CSV_BYTES_BESIDE_CELLS + N_NAMES * (size_t)longest);
}

size_t csv_lines(const Ring *ring, const Cells *cells, uint64_t first, size_t n_records,
                 int64_t wall_offset_ns, char *out)
{
    WholeSecond second = {.unix_s = -1};
    char *const begin = out;
    for (uint64_t position = first; position < first + n_records; position++) {
        const Slot *slot = &ring->slots[position % ring->n_slots];
        CsvRow row = {slot->start_ns, slot->end_ns, slot->numbers, slot->has, {NULL}};
        for (int which = 0; which < N_NAMES; which++)
            row.cells[which] = &(which == OPERATION ? cells->upper : cells->plain)[slot->names[which]];
        out = csv_line(out, &second, wall_offset_ns, &row);
    }
    return (size_t)(out - begin);
}
