/* Writes the records of a ring into its file for as long as a fraction of a second, without the interpreter's lock.
 *
 * Where many threads need that lock, each return to Python takes longer than to write ten thousand records.
 */
#ifndef TIMING_LOGGER_WRITING_H
#define TIMING_LOGGER_WRITING_H

#include "csv_lines.h"

/* An open file, of which this process knows what it is and how long: it may be another one, or changed, by now. */
typedef struct {
    int descriptor;
    uint64_t device, inode;
    uint64_t n_bytes;
    int is_torn; /* its last line is not whole */
} OpenFile;

/* Writes the oldest records in whole batches, and takes each batch once it is in the file. Stops before a record that
 * has no line in the ring, at an error, if the file is not as it was left, and after `longest_ns`.
 * A batch has n_batch records, or fewer if their lines might not fit into the buffer. Returns how many records were
 * written; the file's n_bytes and is_torn are those after them. */
uint64_t write_oldest(Ring *ring, const Names *names, OpenFile *file, int64_t wall_offset_ns, int64_t longest_ns,
                      uint64_t n_batch, char *buffer, size_t n_buffer);

#endif
