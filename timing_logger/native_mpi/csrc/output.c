/* The timing file: one line of CSV for each row. Only the writer thread writes it, in whole lines, and goes on in
   another file, which is a further part, where others changed this one. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "door.h"
#include "native.h"
#include "part.h"

#define BUFFER_BYTES (1 << 18)
#define MOST_INCARNATIONS 10000

atomic_long written, lost;
char file_name[64], last_error[256];
int incarnation;

static char folder[PART_PATH_BYTES];
static int of_rank, n_parts;
static struct part *first_part, *current; /* `current` is NULL until the next part can be made */
static char buffer[BUFFER_BYTES];
static int filled, rows_filled;
static bool is_torn; /* the buffer begins with the rest of a line whose first bytes are in the file */
static struct anchor anchor;

static void note_error(const char *what)
{
    snprintf(last_error, sizeof last_error, "%s: %s", what, strerror(errno));
}

/* -- the first file --------------------------------------------------------------------------------------------- */

static void name_of_part(char *name, size_t room, int number)
{
    char run[24] = "", part[24] = "";
    if (incarnation > 1)
        snprintf(run, sizeof run, ".run%d", incarnation);
    if (number > 1)
        snprintf(part, sizeof part, ".part%d", number);
    snprintf(name, room, "timing-rank%d%s%s.csv", of_rank, run, part);
}

static bool is_there(const char *name)
{
    char path[PART_PATH_BYTES + 80];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    struct stat about;
    return lstat(path, &about) == 0;
}

/* Create the first file of the next free incarnation: an earlier run keeps its timing files and its sidecar. */
static struct part *first_free(int from)
{
    char second[80], sidecar[80];
    for (incarnation = from; incarnation < MOST_INCARNATIONS; incarnation++) {
        name_of_part(file_name, sizeof file_name, 1);
        name_of_part(second, sizeof second, 2);
        sidecar_name(sidecar, sizeof sidecar);
        if (is_there(sidecar) || is_there(second))
            continue;
        struct part *made = create_part(folder, file_name);
        if (made != NULL || errno != EEXIST)
            return made;
    }
    return NULL;
}

void path_of_file(char *path, size_t room)
{
    snprintf(path, room, "%s/%s", folder, file_name);
}

bool create_file(const char *log_dir, int rank)
{
    snprintf(folder, sizeof folder, "%s", log_dir);
    of_rank = rank;
    n_parts = 1;
    anchor = read_anchor();
    return (first_part = current = first_free(1)) != NULL;
}

/* -- the next one ------------------------------------------------------------------------------------------------- */

static void lose_rows(int64_t n)
{
    written -= n;
    lost += n;
}

/* The rest of a line whose beginning is in a file that is left: its row is lost. */
static void cut_torn_line(void)
{
    char *end = is_torn ? memchr(buffer, '\n', filled) : NULL;
    is_torn = false;
    if (end == NULL)
        return;
    filled -= end + 1 - buffer;
    memmove(buffer, end + 1, filled);
    rows_filled--;
    lost++;
}

/* When one part is deleted, often all are. */
static void leave_current(void)
{
    for (struct part *part = first_part; part != NULL; part = part->next)
        lose_rows(count_lost(part));
    snprintf(last_error, sizeof last_error, "%s %s: the next rows go into a new file", current->name, current->why);
    close_part(current);
    cut_torn_line();
    current = NULL;
}

static struct part *last_part(void)
{
    struct part *part = first_part;
    while (part->next != NULL)
        part = part->next;
    return part;
}

/* Another process has the names of ours by now, so a part of ours would look like one of its: move to others. */
static struct part *first_of_other_names(void)
{
    struct part *made = first_free(incarnation + 1);
    if (made == NULL)
        return NULL;
    for (struct part *part = first_part; part != NULL; part = part->next)
        lose_rows(part->rows);
    n_parts = 1;
    first_part = made; /* the old ones stay in memory: a sidecar may be in the writing */
    move_sidecar();
    return made;
}

static struct part *next_part(void)
{
    char name[80];
    door_make_folders(folder);
    if (sidecar_is_anothers())
        return first_of_other_names();
    struct part *made = NULL;
    do
        name_of_part(name, sizeof name, ++n_parts);
    while ((made = create_part(folder, name)) == NULL && errno == EEXIST);
    if (made == NULL)
        n_parts--;
    else
        last_part()->next = made;
    return made;
}

/* See what others did to the file. Whether there is one that is certainly this process's own, if one is needed. */
static bool look_after(void)
{
    enum standing standing = current == NULL ? CHANGED : look_at(current);
    if (standing == UNKNOWN)
        note_error("the timing file cannot be looked at");
    if (standing == CHANGED && current != NULL)
        leave_current();
    if (current == NULL && filled > 0 && (current = next_part()) == NULL)
        note_error("no file can be made");
    return standing != UNKNOWN && (current != NULL || filled == 0);
}

/* -- writing -------------------------------------------------------------------------------------------------------- */

/* Write what is in the buffer, or keep it for later. */
static bool flush_buffer(void)
{
    int64_t done = 0;
    if (!look_after())
        return false;
    if (current == NULL || append_lines(current, buffer, filled, &done)) {
        if (current != NULL)
            current->rows += rows_filled;
        written += rows_filled;
        filled = rows_filled = 0;
        is_torn = false;
        release_rows();
        progress++;
        return true;
    }
    note_error("write failed");
    int rows = 0;
    for (int64_t i = 0; i < done; i++)
        rows += buffer[i] == '\n';
    is_torn = done > 0 ? buffer[done - 1] != '\n' : is_torn;
    current->rows += rows;
    written += rows;
    rows_filled -= rows;
    filled -= done;
    memmove(buffer, buffer + done, filled);
    return false;
}

void close_file(void)
{
    if (current != NULL)
        close_part(current);
}

void for_each_part(void (*tell)(const struct part *, void *), void *context)
{
    for (struct part *part = first_part; part != NULL; part = part->next)
        tell(part, context);
}

/* The wall clock may be set while the program runs. */
static int64_t wall_offset_ns(void)
{
    struct anchor now = read_anchor();
    int64_t moved_ns = (now.unix_ns - now.counter_ns) - (anchor.unix_ns - anchor.counter_ns);
    if (moved_ns > 1000000 || moved_ns < -1000000)
        anchor = now;
    return anchor.unix_ns - anchor.counter_ns;
}

bool write_rows(void)
{
    int64_t offset_ns = wall_offset_ns();
    for (;;) {
        char *end = buffer + filled;
        int n_lines = take_lines(&end, (size_t) (BUFFER_BYTES - filled), offset_ns);
        if (n_lines == NO_ROOM && !flush_buffer())
            return false;
        if (n_lines == NO_ROWS)
            return flush_buffer();
        if (n_lines >= 0) {
            filled = (int) (end - buffer);
            rows_filled += n_lines;
        }
    }
}
