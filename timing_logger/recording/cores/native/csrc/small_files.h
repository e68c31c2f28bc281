/* Reads small files, such as those in which the kernel states its counters, again and again.
 *
 * To open and close such a file takes longer than to read it, so it stays open. Other code may close every descriptor
 * of the process and open files of its own: before each reading it is checked which file a descriptor is.
 */
#ifndef TIMING_LOGGER_SMALL_FILES_H
#define TIMING_LOGGER_SMALL_FILES_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *path;
    int descriptor; /* -1: it is not open */
    uint64_t device, inode;
    size_t n_bytes; /* that the last reading gave; 0 if the file is not there or cannot be read */
} SmallFile;

/* Reads the files into `buffer`, one behind the other. What does not fit into n_buffer bytes is left out. */
void read_small_files(SmallFile *const *files, size_t n_files, char *buffer, size_t n_buffer);

void close_small_file(SmallFile *file);

#endif
