/* One of the files that hold the rows of this process. */
#ifndef PART_H
#define PART_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PART_PATH_BYTES 4096

struct part {
    const char *folder;
    char name[80], why[80]; /* what was done to it from outside, in words */
    int64_t rows, bytes, lost; /* what it holds, and how many rows were in it that no longer are */
    int descriptor;
    dev_t device;
    ino_t inode;
    bool is_known_by_name;
    struct part *next;
};

/* Create a file whose name is free; NULL if it is not, or cannot be made. */
struct part *create_part(const char *folder, const char *name);
enum standing { UNCHANGED, CHANGED, UNKNOWN };
/* Whether the descriptor is still this file's, and the file has its name and what was written. */
enum standing look_at(struct part *part);
/* Count the rows that are in the file of this name no more, and return how many were not counted before. */
int64_t count_lost(struct part *part);
/* Write whole lines. If that fails, `*done` is how many bytes of them are in the file. */
bool append_lines(struct part *part, const char *lines, int64_t n_bytes, int64_t *done);
void close_part(struct part *part);

#endif
