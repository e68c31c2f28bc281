/* Rows on their way to the writer: records of a ring in shared memory, which outlives the process (ring.h). A full ring
   costs the row, which is counted, and never the program's time. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "csv_lines.h"
#include "event.h"
#include "forks.h"
#include "native.h"

#define MOST_WAITING (1 << 16)
#define SHARE 8 /* of the memory that is free where the ring is to be */
#define IN_TMPFS 0x01021994
#define IN_RAMFS 0x858458f6

static Ring ring;
static Names names;
static char path[256];
static atomic_int calls; /* for the writer */
static atomic_long damaged;
atomic_bool lacks_names;
static Slot all_blank; /* what all rows have alike */

/* -- names ---------------------------------------------------------------------------------------------------------- */

static Cell cell(const char *text) { return (Cell){text, (uint32_t) strlen(text)}; }

static int added(const char *text, Cell as_cell)
{
    int number = names_add(&names, &ring, text, strlen(text), as_cell, as_cell);
    if (number < 0)
        lacks_names = true;
    return number;
}

/* The number of a text that stays where it is, and is a cell as it is; -1 if there is no room for it. */
static int number_of(const char *text)
{
    int number = names_seen(&names, text);
    if (number >= 0)
        return number;
    number = added(text, cell(text));
    if (number >= 0)
        names_note_seen(&names, text, number);
    return number;
}

/* The same for texts of one column, which mostly is that of the row before. */
static int number_in(int which, const char *text)
{
    static __thread struct {
        const char *text;
        int number;
    } last[N_NAMES] __attribute__((tls_model("initial-exec")));
    if (last[which].text != text) {
        last[which].number = number_of(text);
        last[which].text = text;
    }
    return last[which].number;
}

int number_of_cell(const char *text, const char *quoted)
{
    return added(text, cell(quoted));
}

/* -- the ring ----------------------------------------------------------------------------------------------------- */

static bool has_room(const char *folder)
{
    struct statfs kind;
    struct statvfs about;
    uint64_t n_bytes = (MOST_WAITING + RING_BATCH) * sizeof(Slot) + RING_NAMES_BYTES;
    return statfs(folder, &kind) == 0 && (kind.f_type == IN_TMPFS || (unsigned long) kind.f_type == IN_RAMFS) &&
           statvfs(folder, &about) == 0 && about.f_bavail * about.f_frsize / SHARE >= n_bytes;
}

/* A file in memory: a store into a mapped file on a disk may have to wait for that. */
static bool open_in_memory(void)
{
    const char *temporary = getenv("TMPDIR"), *folders[] = {"/dev/shm", temporary == NULL ? "/tmp" : temporary};
    for (int i = 0; i < 2; i++) {
        int n = snprintf(path, sizeof path, "%s/timing-logger-%d-%d-%08x.ring", folders[i], getuid(), getpid(),
                         (unsigned) now_ns());
        if (folders[i][0] == '/' && n < (int) sizeof path && has_room(folders[i]) &&
            ring_open(&ring, path, MOST_WAITING) == 0)
            return true;
    }
    path[0] = 0;
    return false;
}

static void fill_blank_slot(void)
{
    int blank = number_of("");
    for (int which = 0; which < N_NAMES; which++)
        all_blank.names[which] = (uint16_t) blank;
    all_blank.names[CLOCK] = (uint16_t) number_of("host");
}

bool begin_rows(const char *timing_file, struct anchor started)
{
    if (names_open(&names) || (!open_in_memory() && ring_open(&ring, NULL, MOST_WAITING)) || leave_rings_in_children())
        return false;
    follow_ring(&ring);
    fill_blank_slot();
    snprintf(ring.header->path, sizeof ring.header->path, "%s", timing_file);
    ring.header->started_unix_ns = started.unix_ns;
    ring.header->wall_offset_ns = started.unix_ns - started.counter_ns;
    ring.header->magic = RING_MAGIC;
    return true;
}

const char *ring_path(void) { return path; }

void end_rows(void)
{
    if (path[0])
        ring_remove(&ring, path);
}

/* -- putting -------------------------------------------------------------------------------------------------------- */

/* A row with a name too many, of which the ring's slot says only that it is elsewhere: it has its names as cells. */
struct odd {
    uint64_t position;
    Slot slot;
    Cell operation, group, thread, status;
    struct odd *next;
};
static _Atomic(struct odd *) odd_rows;

static void number(Slot *slot, int which, int64_t value)
{
    slot->numbers[which] = value;
    slot->has |= HAS(which);
}

static bool name(Slot *slot, int which, int number)
{
    if (number >= 0)
        slot->names[which] = (uint16_t) number;
    return number >= 0;
}

/* Fill a slot with a row. Whether the ring has a number for each of its names; the others stay blank. */
static bool packed(Slot *slot, const struct row *row)
{
    *slot = all_blank;
    slot->start_ns = row->start_ns;
    slot->end_ns = row->end_ns;
    slot->has = row->end_ns == BLANK ? 0 : HAS_END;
    number(slot, GROUP_SIZE, row->group->size);
    if (row->bytes != BLANK)
        number(slot, MESSAGE_SIZE_BYTES, row->bytes);
    if (row->seq != BLANK)
        number(slot, SEQ, row->seq);
    if (row->peer >= 0)
        number(slot, PEER, row->peer);
    bool has_group = name(slot, GROUP, row->group->number);
    bool has_operation = name(slot, OPERATION, number_in(OPERATION, row->operation));
    bool has_thread = name(slot, THREAD, number_in(THREAD, row->thread));
    return name(slot, STATUS, number_in(STATUS, row->status)) && has_group && has_operation && has_thread;
}

static struct odd *odd_of(const Slot *slot, const struct row *row)
{
    char *group = strdup(row->group->cell); /* which may end before the row is written */
    struct odd *odd = malloc(sizeof *odd);
    if (odd == NULL || group == NULL) {
        free(group);
        free(odd);
        return NULL;
    }
    *odd = (struct odd){.slot = *slot, .operation = cell(row->operation), .group = cell(group),
                        .thread = cell(row->thread), .status = cell(row->status)};
    return odd;
}

static void free_odd(struct odd *odd)
{
    if (odd != NULL)
        free((char *) odd->group.text);
    free(odd);
}

/* Without memory for it, the row counts as damaged. */
static void keep_odd(struct odd *odd, uint64_t position)
{
    if (odd == NULL)
        return;
    odd->position = position;
    odd->next = odd_rows;
    while (!atomic_compare_exchange_weak(&odd_rows, &odd->next, odd))
        ;
}

void put(const struct row *row)
{
    Slot slot;
    struct odd *odd = NULL;
    if (!packed(&slot, row)) { /* all that may wait comes before the claim */
        odd = odd_of(&slot, row);
        slot = (Slot){.has = ELSEWHERE};
    }
    uint64_t position = ring_claim(&ring);
    if (position == RING_FULL) {
        free_odd(odd);
        return;
    }
    keep_odd(odd, position);
    ring_fill(&ring, position, &slot);
    if (position % (MOST_WAITING / 4) == 0)
        wake_writer();
}

int64_t n_accepted(void)
{
    uint64_t n_overflows = __atomic_load_n(&ring.n_overflows, __ATOMIC_RELAXED);
    return (int64_t) (ring_head(&ring) + n_overflows);
}

int64_t n_dropped(void) { return (int64_t) __atomic_load_n(&ring.n_overflows, __ATOMIC_RELAXED) + damaged; }

/* -- taking --------------------------------------------------------------------------------------------------------- */

static struct odd *out_of(struct odd **list, uint64_t position)
{
    for (struct odd **at = list; *at != NULL; at = &(*at)->next)
        if ((*at)->position == position) {
            struct odd *found = *at;
            *at = found->next;
            return found;
        }
    return NULL;
}

/* Take a row out of those that are elsewhere; NULL if it is not there. Only the writer takes any: it holds them about in
   their order, so that the next one is among the first. */
static struct odd *taken_odd(uint64_t position)
{
    static struct odd *held;
    struct odd *found = out_of(&held, position), **end = &held, *newer = NULL;
    if (found != NULL)
        return found;
    for (struct odd *newest = atomic_exchange(&odd_rows, NULL), *older; newest != NULL; newest = older) {
        older = newest->next;
        newest->next = newer;
        newer = newest;
    }
    while (*end != NULL)
        end = &(*end)->next;
    *end = newer;
    return out_of(&held, position);
}

static char *odd_line(char *out, int64_t wall_offset_ns, const struct odd *odd)
{
    WholeSecond second = {.unix_s = -1};
    CsvRow row = csv_row(&odd->slot, &names);
    row.cells[OPERATION] = &odd->operation;
    row.cells[GROUP] = &odd->group;
    row.cells[THREAD] = &odd->thread;
    row.cells[STATUS] = &odd->status;
    return csv_line(out, &second, wall_offset_ns, &row);
}

static bool is_plain(uint64_t position)
{
    return names_read(&names, &ring, position) && !ring_is_elsewhere(&ring, position);
}

/* Take the oldest row, which is no plain one. Returns how many lines it has: one, or none if it is damaged. */
static int take_one(char **out, int64_t wall_offset_ns)
{
    bool is_elsewhere = names_read(&names, &ring, ring.taken);
    struct odd *odd = is_elsewhere ? taken_odd(ring.taken) : NULL;
    bool found = odd != NULL;
    ring_take(&ring, 1);
    if (!found)
        damaged++;
    else
        *out = odd_line(*out, wall_offset_ns, odd);
    free_odd(odd);
    return found;
}

int take_lines(char **out, size_t room, int64_t wall_offset_ns)
{
    uint64_t n_ready = ring_n_ready(&ring), n_fitting = room / csv_most_bytes(&names, 1), n = 0, first = ring.taken;
    uint64_t n_most = n_ready < n_fitting ? n_ready : n_fitting;
    ring.header->wall_offset_ns = wall_offset_ns;
    if (n_ready == 0)
        return NO_ROWS;
    if (n_fitting == 0)
        return NO_ROOM;
    while (n < n_most && is_plain(first + n))
        n++;
    if (n == 0)
        return take_one(out, wall_offset_ns);
    *out += csv_lines(&ring, &names, first, n, wall_offset_ns, *out);
    ring_take(&ring, n);
    return (int) n;
}

void release_rows(void)
{
    ring_release(&ring);
    ring_touch_ahead(&ring);
}

/* -- where the process stands ------------------------------------------------------------------------------------- */

struct standing_list {
    Slot entries[RING_MOST_STANDING];
    uint64_t n;
};

static void note_group(const struct group *group, int64_t issued, int64_t completed, void *context)
{
    struct standing_list *list = context;
    struct row row = {.end_ns = BLANK, .bytes = BLANK, .seq = issued, .operation = "", .status = "", .thread = "",
                      .group = (struct group *) group, .peer = (int) completed};
    if (list->n < RING_MOST_STANDING && packed(&list->entries[list->n], &row))
        list->entries[list->n++].has |= IS_GROUP;
}

static void note_call(const struct call *call, void *context)
{
    struct standing_list *list = context;
    struct row row = row_of(call, call->operation, call->start_ns, BLANK, "inflight", call->thread);
    if (list->n < RING_MOST_STANDING && packed(&list->entries[list->n], &row))
        list->n++;
}

void note_standing(int64_t now_ns, int64_t progressed_ns)
{
    static struct standing_list list;
    list.n = 0;
    for_each_standing(note_group, &list);
    for_each_thread(note_call, now_ns, &list);
    for_each_request(note_call, now_ns, &list);
    ring_note_standing(&ring, list.entries, list.n, now_ns, progressed_ns);
}

/* -- the writer ------------------------------------------------------------------------------------------------------- */

void wait_for_rows(int64_t timeout_ns)
{
    static int heard;
    if (calls == heard)
        wait_for_change(&calls, heard, timeout_ns);
    heard = calls; /* several calls for the writer are one */
}

void wake_writer(void) { tell_change(&calls); }
