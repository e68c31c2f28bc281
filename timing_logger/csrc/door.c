#define _GNU_SOURCE
#include "door.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "columns.h"

#ifndef O_PATH
#define O_PATH O_RDONLY
#endif

enum { PRIVATE_MODE = 0600, FOLDER_MODE = 0777 }; /* from which the umask is subtracted */

#define NEW (O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW)
#define AS_IT_IS (O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

int door_make(const char *path, int how) { return open(path, O_WRONLY | NEW | how, FILE_MODE); }

int door_make_private(const char *path) { return open(path, O_RDWR | NEW, PRIVATE_MODE); }

int door_write_again(const char *path) { return open(path, O_WRONLY | O_CREAT | O_TRUNC | AS_IT_IS, FILE_MODE); }

int door_read(const char *path) { return open(path, O_RDONLY | AS_IT_IS); }

int door_read_of_system(const char *path) { return open(path, O_RDONLY | O_CLOEXEC); }

int door_take_number(void) { return open("/", O_PATH | O_CLOEXEC); }

bool door_lock(int descriptor) { return flock(descriptor, LOCK_EX | LOCK_NB) == 0; }

bool door_replace(const char *path, const char *by) { return rename(by, path) == 0; }

void door_remove(const char *path) { unlink(path); }

void door_make_folders(char *folder)
{
    for (char *at = folder + 1; *at; at++)
        if (*at == '/') {
            *at = 0;
            mkdir(folder, FOLDER_MODE);
            *at = '/';
        }
    mkdir(folder, FOLDER_MODE);
}
