#include "small_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

/* The kernel gives a file line by line, a page at a time: what is shorter than half of one is the last of it. */
#define SURELY_LAST 2048

static size_t read_small_file(const char *path, char *buffer, size_t n_buffer)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return 0;
    size_t n_bytes = 0;
    ssize_t more = SURELY_LAST;
    while (more >= SURELY_LAST && n_bytes < n_buffer) {
        more = read(descriptor, buffer + n_bytes, n_buffer - n_bytes);
        if (more > 0)
            n_bytes += (size_t)more;
        else if (more < 0 && errno == EINTR)
            more = SURELY_LAST;
    }
    close(descriptor);
    return more < 0 ? 0 : n_bytes;
}

void read_small_files(const char *const *paths, size_t n_files, char *buffer, size_t n_buffer, size_t *n_bytes)
{
    for (size_t i = 0; i < n_files; i++) {
        n_bytes[i] = read_small_file(paths[i], buffer, n_buffer);
        buffer += n_bytes[i];
        n_buffer -= n_bytes[i];
    }
}
