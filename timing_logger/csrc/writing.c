#include "writing.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"

/* How many of the oldest records, n_most at most, have a line in the ring. */
static uint64_t n_plain(const Names *names, const Ring *ring, uint64_t n_most)
{
    uint64_t first = ring->taken, n = 0;
    while (n < n_most && names_read(names, ring, first + n) && !ring_is_elsewhere(ring, first + n))
        n++;
    return n;
}

static int is_as_it_was_left(const OpenFile *file)
{
    struct stat about;
    return fstat(file->descriptor, &about) == 0 && about.st_dev == file->device && about.st_ino == file->inode &&
           (uint64_t)about.st_size == file->n_bytes;
}

/* Returns how many of the bytes were written: fewer only at an error. */
static size_t written(int descriptor, const char *bytes, size_t n_bytes)
{
    size_t done = 0;
    while (done < n_bytes) {
        ssize_t n = write(descriptor, bytes + done, n_bytes - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            break;
    }
    return done;
}

static uint64_t n_lines(const char *bytes, size_t n_bytes)
{
    uint64_t n = 0;
    for (const char *end = bytes + n_bytes; (bytes = memchr(bytes, '\n', (size_t)(end - bytes))) != NULL; bytes++)
        n++;
    return n;
}

/* Takes back what of a batch is in the file, or if that cannot be, counts its whole lines and returns their number. */
static uint64_t part_that_stays(OpenFile *file, const char *bytes, size_t n_bytes)
{
    if (n_bytes == 0 || ftruncate(file->descriptor, (off_t)file->n_bytes) == 0)
        return 0;
    file->n_bytes += n_bytes;
    file->is_torn = bytes[n_bytes - 1] != '\n';
    return n_lines(bytes, n_bytes);
}

uint64_t write_oldest(Ring *ring, const Names *names, OpenFile *file, int64_t wall_offset_ns, int64_t longest_ns,
                      uint64_t n_batch, char *buffer, size_t n_buffer)
{
    int64_t until_ns = perf_counter_ns() + longest_ns;
    uint64_t n_written = 0;
    do {
        uint64_t n_waiting = ring_n_ready(ring);
        uint64_t n_fitting = n_buffer / csv_most_bytes(names, 1); /* new names may be longer than all before */
        uint64_t n_most = n_fitting < n_batch ? n_fitting : n_batch;
        uint64_t n = n_plain(names, ring, n_waiting < n_most ? n_waiting : n_most);
        if (n == 0 || !is_as_it_was_left(file))
            break;
        size_t n_bytes = csv_lines(ring, names, ring->taken, n, wall_offset_ns, buffer);
        size_t done = written(file->descriptor, buffer, n_bytes);
        if (done == n_bytes)
            file->n_bytes += n_bytes;
        else
            n = part_that_stays(file, buffer, done);
        ring_take(ring, n);
        ring->header->released = ring->taken;
        ring_touch_ahead(ring);
        n_written += n;
        if (done < n_bytes)
            break;
    } while (perf_counter_ns() < until_ns);
    return n_written;
}
