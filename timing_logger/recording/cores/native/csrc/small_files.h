/* Reads small files, such as those in which the kernel states its counters, without the interpreter's lock. */
#ifndef TIMING_LOGGER_SMALL_FILES_H
#define TIMING_LOGGER_SMALL_FILES_H

#include <stddef.h>

/* Reads each of n_files files into `buffer`, one after the other, and notes how many bytes of each are there: 0 of one
 * that cannot be read. What does not fit into n_buffer bytes is left out. */
void read_small_files(const char *const *paths, size_t n_files, char *buffer, size_t n_buffer, size_t *n_bytes);

#endif
