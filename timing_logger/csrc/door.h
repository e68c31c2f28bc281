/* The door to files: all that C opens, makes, locks, replaces and removes goes through here.
 *
 * Log folders and the folders of rings may be written to by other users, who may put a link or a pipe in the place of a
 * file of ours: how a file is opened there is decided in this one place. What fails is in errno, as the system said it.
 */
#ifndef TIMING_LOGGER_DOOR_H
#define TIMING_LOGGER_DOOR_H

#include <stdbool.h>

/* Make a file whose name is free, for all to read, and open it: to write, or with O_APPEND in `how`, to append. */
int door_make(const char *path, int how);

/* The same for the memory of a process: nobody else may read it, and it is read and written. */
int door_make_private(const char *path);

/* Open a file to write it from its start, also if it is there. */
int door_write_again(const char *path);

/* Open a file to read it, which must not be a link; a pipe is not waited for. */
int door_read(const char *path);

/* Open a file of the system, as in /proc and /sys, where names are links of the kernel's. */
int door_read_of_system(const char *path);

/* Take the lowest number of a descriptor that is free, by something that can neither be read nor written. */
int door_take_number(void);

/* Lock an open file for as long as it is open; false if another process has locked it. */
bool door_lock(int descriptor);

/* Give a file the name of another one, in whose place it comes at once and as a whole. */
bool door_replace(const char *path, const char *by);

void door_remove(const char *path);

/* Make a folder and those that it is in, where they are missing. */
void door_make_folders(char *folder);

#endif
