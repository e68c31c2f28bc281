/* Records of a ring as lines of CSV. */
#ifndef TIMING_LOGGER_CSV_LINES_H
#define TIMING_LOGGER_CSV_LINES_H

#include "csv_line.h"
#include "ring.h"

/* Cells by the number of the name: one kind for operations, which are in upper case, one for all others. */
typedef struct {
    Cell *plain;
    Cell *upper;
    uint32_t longest;
} Cells;

/* Takes note of how long the cells of a name are, before any record has it; others may be writing lines meanwhile. */
void csv_note_cells(Cells *cells, int number);

/* The most bytes that n_records lines can have. */
size_t csv_most_bytes(const Cells *cells, size_t n_records);

/* Writes the lines of the records from position `first` on to `out`, and returns how many bytes they have. */
size_t csv_lines(const Ring *ring, const Cells *cells, uint64_t first, size_t n_records,
                 int64_t wall_offset_ns, char *out);

#endif
