#include "small_files.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "door.h"

/* The kernel gives a file line by line, a page at a time: what is shorter than half of one is the last of it. */
#define SURELY_LAST 2048

static int is_open(const SmallFile *file)
{
    struct stat held;
    return file->descriptor >= 0 && fstat(file->descriptor, &held) == 0 && held.st_dev == file->device &&
           held.st_ino == file->inode;
}

static void open_small_file(SmallFile *file)
{
    struct stat held;
    file->descriptor = door_read_of_system(file->path);
    if (file->descriptor < 0)
        return;
    if (fstat(file->descriptor, &held) < 0) {
        close(file->descriptor);
        file->descriptor = -1;
        return;
    }
    file->device = held.st_dev;
    file->inode = held.st_ino;
}

void close_small_file(SmallFile *file)
{
    if (is_open(file))
        close(file->descriptor);
    file->descriptor = -1;
}

static void read_small_file(SmallFile *file, char *buffer, size_t n_buffer)
{
    file->n_bytes = 0;
    if (!is_open(file))
        open_small_file(file);
    if (file->descriptor < 0)
        return;
    ssize_t more = SURELY_LAST;
    while (more >= SURELY_LAST && file->n_bytes < n_buffer) {
        more = pread(file->descriptor, buffer + file->n_bytes, n_buffer - file->n_bytes, (off_t)file->n_bytes);
        if (more > 0)
            file->n_bytes += (size_t)more;
        else if (more < 0 && errno == EINTR)
            more = SURELY_LAST;
    }
    if (more < 0) { /* its thread has ended, or its control group is gone */
        file->n_bytes = 0;
        close_small_file(file);
    }
}

void read_small_files(SmallFile *const *files, size_t n_files, char *buffer, size_t n_buffer)
{
    for (size_t i = 0; i < n_files; i++) {
        read_small_file(files[i], buffer, n_buffer);
        buffer += files[i]->n_bytes;
        n_buffer -= files[i]->n_bytes;
    }
}
