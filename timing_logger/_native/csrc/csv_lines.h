/* Records of a ring as lines of CSV: the same bytes as format_records in timing_logger/record.py. */
#ifndef TIMING_LOGGER_CSV_LINES_H
#define TIMING_LOGGER_CSV_LINES_H

#include "ring.h"

typedef struct {
    const char *text; /* as it stands in the file: escaped, and quoted where necessary */
    uint32_t n_bytes;
} Cell;

/* Cells by the number of the name: one kind for operations, which are in upper case, one for all others. */
typedef struct {
    Cell *plain;
    Cell *upper;
    uint32_t longest;
} Cells;

/* The most bytes that n_records lines can have. */
size_t csv_most_bytes(const Cells *cells, size_t n_records);

/* Writes the lines of the records from position `first` on to `out`, and returns how many bytes they have. */
size_t csv_lines(const Ring *ring, const Cells *cells, uint64_t first, size_t n_records,
                 int64_t wall_offset_ns, char *out);

#endif
