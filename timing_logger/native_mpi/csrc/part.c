/* A file of lines that this process created: never opened again, only appended to, and never written to or closed
   if it may be another's by now. What timing_logger/sinks/_append_only_file.py is for the other writers. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "columns.h"
#include "descriptors.h"
#include "door.h"
#include "part.h"
#include "run_info.h"

#define HEADER_BYTES ((int64_t) sizeof CSV_HEADER - 1)

static void path_of(const struct part *part, char path[PART_PATH_BYTES])
{
    snprintf(path, PART_PATH_BYTES, "%s/%s", part->folder, part->name);
}

struct part *create_part(const char *folder, const char *name)
{
    char path[PART_PATH_BYTES];
    struct stat about;
    struct part made = {.folder = folder};
    snprintf(made.name, sizeof made.name, "%s", name);
    path_of(&made, path);
    made.descriptor = door_make(path, O_APPEND);
    if (made.descriptor < 0)
        return NULL;
    made.descriptor = moved_up(made.descriptor);
    if (fstat(made.descriptor, &about) != 0)
        return NULL;
    made.device = about.st_dev;
    made.inode = about.st_ino;
    /* On some file systems the identities of a name and a descriptor of one file never agree. */
    made.is_known_by_name = lstat(path, &about) == 0 && is_file(&about, made.device, made.inode);
    struct part *part = malloc(sizeof *part);
    return part == NULL ? NULL : memcpy(part, &made, sizeof made);
}

/* -- what others did to it -------------------------------------------------------------------------------------- */

static bool is_another(const struct part *part, const struct stat *named)
{
    return part->is_known_by_name && !is_file(named, part->device, part->inode);
}

static enum standing is(struct part *part, const char *what)
{
    snprintf(part->why, sizeof part->why, "%s", what);
    return CHANGED;
}

enum standing look_at(struct part *part)
{
    char path[PART_PATH_BYTES];
    struct stat held, named;
    if (fstat(part->descriptor, &held) != 0)
        return errno == ESTALE ? is(part, "was deleted") : errno == EBADF ? is(part, "had its descriptor closed") : UNKNOWN;
    if (!is_file(&held, part->device, part->inode))
        return is(part, "had its descriptor closed, whose number another file has now");
    path_of(part, path);
    if (lstat(path, &named) != 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            return is(part, held.st_nlink > 0 ? "was moved away" : "was deleted");
    } else if (is_another(part, &named)) {
        return is(part, "was replaced");
    }
    if (held.st_size > part->bytes)
        return is(part, "was written to by somebody else");
    if (held.st_size < part->bytes) {
        snprintf(part->why, sizeof part->why, "was cut to %lld bytes", (long long) held.st_size);
        return CHANGED;
    }
    return UNCHANGED;
}

/* The number of lines behind the header; 0 if the file cannot be read. */
static int64_t rows_in(const char *path)
{
    char block[1 << 16];
    int64_t lines = 0, n;
    int descriptor = door_read(path);
    if (descriptor < 0)
        return 0;
    while ((n = read(descriptor, block, sizeof block)) > 0)
        for (int64_t i = 0; i < n; i++)
            lines += block[i] == '\n';
    close(descriptor);
    return lines > 0 ? lines - 1 : 0;
}

int64_t count_lost(struct part *part)
{
    char path[PART_PATH_BYTES];
    struct stat named;
    int64_t there = 0;
    path_of(part, path);
    if (lstat(path, &named) != 0) {
        if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE)
            return 0; /* it cannot be looked up for now */
        part->bytes = 0;
    } else if (is_another(part, &named)) {
        part->bytes = 0;
    } else if (named.st_size >= part->bytes) {
        return 0;
    } else {
        there = rows_in(path);
        there = there < part->rows ? there : part->rows;
        part->bytes = named.st_size;
    }
    int64_t missing = part->rows - there;
    part->rows = there;
    part->lost += missing;
    if (missing > 0 && part->why[0] == 0)
        is(part, "was deleted, moved away or cut");
    return missing;
}

/* -- writing ---------------------------------------------------------------------------------------------------- */

static int64_t whole_lines(const char *data, int64_t n_bytes)
{
    const char *last = memrchr(data, '\n', n_bytes);
    return last == NULL ? 0 : last + 1 - data;
}

/* Append all of it, or `*done` bytes: whole lines, unless what is too much cannot be taken back. */
static bool append(struct part *part, const char *data, int64_t n_bytes, int64_t *done)
{
    *done = 0;
    while (*done < n_bytes) {
        ssize_t n = write(part->descriptor, data + *done, n_bytes - *done);
        if (n >= 0) {
            *done += n;
        } else if (errno != EINTR) {
            int failed = errno;
            int64_t whole = whole_lines(data, *done);
            if (whole < *done && ftruncate(part->descriptor, part->bytes + whole) == 0)
                *done = whole;
            part->bytes += *done;
            errno = failed;
            return false;
        }
    }
    part->bytes += n_bytes;
    return true;
}

bool append_lines(struct part *part, const char *lines, int64_t n_bytes, int64_t *done)
{
    int64_t of_header;
    *done = 0;
    if (part->bytes < HEADER_BYTES && !append(part, CSV_HEADER + part->bytes, HEADER_BYTES - part->bytes, &of_header))
        return false;
    return append(part, lines, n_bytes, done);
}

void close_part(struct part *part)
{
    close_own(part->descriptor, part->device, part->inode);
    part->descriptor = -1;
}
