/* Records of a ring as lines of CSV. */
#ifndef TIMING_LOGGER_CSV_LINES_H
#define TIMING_LOGGER_CSV_LINES_H

#include "names.h"

/* The most bytes that the lines of so many records can have, which were whole before the call. */
size_t csv_most_bytes(const Names *names, size_t n_records);

/* A record as a row, of which the cells are those of its names. */
CsvRow csv_row(const Slot *slot, const Names *names);

/* Writes the lines of the records from position `first` on to `out`, and returns how many bytes they have. */
size_t csv_lines(const Ring *ring, const Names *names, uint64_t first, size_t n_records,
                 int64_t wall_offset_ns, char *out);

#endif
