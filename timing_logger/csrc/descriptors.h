/* Descriptors of our own in a program that may close all of its descriptors and open files of its own. */
#ifndef TIMING_LOGGER_DESCRIPTORS_H
#define TIMING_LOGGER_DESCRIPTORS_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Moves an open file to a high descriptor number: the kernel gives out the lowest free one first, so another file
 * seldom gets the number of one that was closed. Where there is none left, it stays where it is. */
static inline int moved_up(int descriptor)
{
    enum { MOST = 4096, HIGH = 64 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return descriptor;
    int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, (int)(limit.rlim_cur < MOST ? limit.rlim_cur : MOST) - HIGH);
    if (moved < 0)
        return descriptor;
    close(descriptor);
    return moved;
}

static inline bool is_file(const struct stat *about, dev_t device, ino_t inode)
{
    return about->st_dev == device && about->st_ino == inode;
}

/* Closes the descriptor of a file, unless other code did: its number may be another file's by now. */
static inline void close_own(int descriptor, dev_t device, ino_t inode)
{
    struct stat about;
    if (descriptor >= 0 && fstat(descriptor, &about) == 0 && is_file(&about, device, inode))
        close(descriptor);
}

#endif
