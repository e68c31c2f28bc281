/* The ring: records in a mapped file, which outlives the process that writes them.
 *
 * The file is a header, an area of names, two lists of where the process stood when the flush thread last looked (one
 * is valid, the other one is being written), and slots of one record each; timing_logger/ring_file.py reads it.
 * A list has the calls that were open, and for each group of ranks how many collectives were begun and completed.
 * Calls of the instrumentation are in a list of their own from the moment when they begin until they end.
 * A position counts records from 0; position p lies in slot p % slots. The positions below `released` are
 * written elsewhere, those from there to `taken` are being written, and those from there to `head` wait.
 * The names that a record holds are numbers, which count the entries of the area of names.
 *
 * The header is for others: its process writes it and never reads it back, as whoever maps the file may change it.
 */
#ifndef TIMING_LOGGER_RING_H
#define TIMING_LOGGER_RING_H

#include <stddef.h>
#include <stdint.h>

#include "row.h"

#define RING_MAGIC 0x33474e4952474c54ULL /* "TLGRING3" in memory, on a little-endian machine */
#define RING_HEADER_BYTES 4096
#define RING_NAMES_BYTES (1 << 20)
#define RING_MOST_NAMES 16384
#define RING_PATH_BYTES 3072
#define RING_MOST_STANDING 128 /* entries of such a list */
#define RING_MOST_OPEN 96      /* calls in the list of their own ... */
#define RING_KEPT_OPEN 32      /* and the room in it that operations in the background leave to calls */
#define RING_MOST_SLOTS (1ULL << 37)
#define RING_MOST_KEPT ((1ULL << 20) + 8192) /* slots of a ring without a file whose memory is kept once they are free */

#define RING_MOST_AHEAD (1ULL << 17) /* slots of it whose memory is made ready at a time: 16 MiB */

#define IS_GROUP (1u << 25)       /* no call but a group: SEQ collectives begun, PEER of them completed */
#define ELSEWHERE (1u << 26)      /* the record cannot be put into a slot: the process holds it as it is */

/* Of a slot: what it is at least, and what makes whole cache lines of it, of which a word at least is for nobody. */
enum { NAME_WORDS = (N_NAMES + 3) / 4, SLOT_WORDS = 5 + N_NUMBERS + NAME_WORDS, SPARE_WORDS = 8 - SLOT_WORDS % 8 };

typedef struct {
    uint64_t ticket;   /* the position, plus 1; written last, so that a slot without it is incomplete */
    uint64_t checksum; /* of what follows up to `zero`, and of the ticket */
    int64_t start_ns;
    int64_t end_ns;
    int64_t numbers[N_NUMBERS];
    uint16_t names[4 * NAME_WORDS]; /* 0 behind the last */
    uint32_t has;
    uint32_t zero;
    uint64_t spare[SPARE_WORDS]; /* for nobody to read: ring_touch_ahead writes there */
} Slot;

_Static_assert(sizeof(Slot) == 8 * (SLOT_WORDS + SPARE_WORDS), "a slot is made of words");

typedef struct {
    uint64_t magic;
    uint32_t header_bytes, names_bytes, standing_bytes, open_bytes, slot_bytes, layout;
    uint64_t slots;
    int64_t started_unix_ns, wall_offset_ns, pid;
    uint64_t head, taken, released;
    uint64_t n_names, names_used; /* entries and bytes of the area of names */
    uint64_t standing;            /* of the valid list: its length times two, plus which it is */
    int64_t looked_ns, progressed_ns; /* when the list was made, and when anything was last begun or recorded before */
    char path[RING_PATH_BYTES];   /* of the timing file that the records belong to */
} Header;

typedef struct Ring {
    Header *header; /* NULL while the ring is closed */
    Slot *slots;
    uint64_t n_slots;
    uint64_t next;        /* the slot of position `head`, which saves a division */
    uint64_t head, taken, released; /* see the header, which shows them to others */
    uint64_t capacity;    /* the most records that wait: as many as that from `taken` to `head` */
    uint64_t touched;     /* the position up to which the slots have had their memory made ready */
    uint64_t n_overflows; /* records that found no room */
    uint64_t n_unreadable; /* records that were not found again in their slot */
    uint64_t n_names, names_used, valid_standing; /* see the header */
    char *names;
    Slot *standing[2];
    Slot *open;
    uint8_t free_open[RING_MOST_OPEN]; /* which of them no call is in: a stack */
    int n_free_open;
    size_t mapped_bytes;
    int descriptor; /* -1: the memory is this process's own */
    uint64_t device, inode;
    struct Ring *next_followed; /* see forks.h */
} Ring;

/* Maps a ring of n_slots; a path of NULL is for memory of the process's own. Returns 0, or the errno. */
int ring_open(Ring *ring, const char *path, uint64_t n_slots);

/* Whether a path still names the ring's file. */
int ring_is_at(const Ring *ring, const char *path);

/* Backs the ring by a new file in place of one that is gone. Nobody else may write meanwhile; what points into the ring
 * stays valid. Returns 0, or the errno, and then all is as it was. */
int ring_renew(Ring *ring, const char *path);

/* Gives the room of all records that were taken to new ones; a very long queue's memory goes back to the system. */
void ring_release(Ring *ring);

/* Makes the memory of the next slots ready, of a ring without a file: called by whoever writes records, as the first
 * touch of a page would make the recorder half as slow again. */
void ring_touch_ahead(Ring *ring);

/* Takes no record any more, forgets those that wait, and lets go of the file. The memory stays, as this process's own,
 * for whoever still points there. Only calls that a forked child may make: see forks.h. */
int ring_abandon(Ring *ring);

/* Puts an open ring in the place of another one, which is closed. */
void ring_move(Ring *to, const Ring *from);

void ring_close(Ring *ring);

/* Appends a name to the area of names. Returns 0, or -1 if there is no room. */
int ring_add_name(Ring *ring, const char *utf8, size_t n_bytes);

/* A multilinear hash, of the words from the start to `zero`: each times an odd constant of its own, so that all products go side by side. */
#define RING_ODD 0x9e3779b97f4a7c15ULL
enum { FIRST_WORD = 2 };
typedef uint64_t __attribute__((may_alias)) Word;

static inline uint64_t ring_copy(Slot *to, const Slot *from)
{
    Word *out = (Word *)to;
    const Word *in = (const Word *)from;
    uint64_t sum = 0;
#pragma GCC unroll 32
    for (uint64_t i = FIRST_WORD; i < SLOT_WORDS; i++) {
        out[i] = in[i];
        sum += in[i] * (RING_ODD * (2 * i + 1));
    }
    return sum ^ (sum >> 32);
}

/* `head` is moved by who holds the interpreter's lock, `taken` by the flush thread, which may not hold it. */
static inline int ring_is_full(const Ring *ring)
{
    return ring->head - __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE) >= ring->capacity;
}

/* Copies a complete record into the slot of the next position. The caller has seen that there is room. */
static inline void ring_put(Ring *ring, const Slot *record)
{
    uint64_t position = ring->head;
    Slot *slot = &ring->slots[ring->next];
    ring->next = ring->next + 1 < ring->n_slots ? ring->next + 1 : 0;
    __atomic_store_n(&slot->ticket, 0, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* nobody else writes: the order counts for who reads a dead ring */
    slot->checksum = ring_copy(slot, record) + position + 1;
    __atomic_store_n(&slot->ticket, position + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->head, position + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->header->head, position + 1, __ATOMIC_RELEASE);
}

/* Puts a complete record, or counts it where there is no room. */
static inline void ring_put_or_count(Ring *ring, const Slot *record)
{
    if (ring_is_full(ring))
        ring->n_overflows++;
    else
        ring_put(ring, record);
}

static inline void ring_take(Ring *ring, uint64_t n_records)
{
    __atomic_store_n(&ring->taken, ring->taken + n_records, __ATOMIC_RELEASE);
    ring->header->taken = ring->taken;
}

/* Whether the slot of a position still holds the record that was put there, whole as far as its process needs it. */
static inline int ring_is_readable(const Ring *ring, uint64_t position)
{
    const Slot *slot = &ring->slots[position % ring->n_slots];
    uint64_t n_names = __atomic_load_n(&ring->n_names, __ATOMIC_RELAXED);
    int knows_names = 1;
    for (int which = 0; which < N_NAMES; which++)
        knows_names &= slot->names[which] < n_names;
    return slot->ticket == position + 1 && (knows_names || slot->has & ELSEWHERE);
}

static inline int ring_is_elsewhere(const Ring *ring, uint64_t position)
{
    return (ring->slots[position % ring->n_slots].has & ELSEWHERE) != 0;
}

/* Puts a call that begins into the list of open calls. Returns its entry, for ring_leave; NULL if there is no room. */
static inline Slot *ring_enter(Ring *ring, const Slot *call)
{
    if (!ring->n_free_open)
        return NULL;
    uint64_t which = ring->free_open[--ring->n_free_open];
    Slot *entry = &ring->open[which];
    entry->checksum = ring_copy(entry, call) + which + 1; /* its ticket is 0 so far */
    __atomic_store_n(&entry->ticket, which + 1, __ATOMIC_RELEASE);
    return entry;
}

static inline void ring_leave(Ring *ring, Slot *entry)
{
    __atomic_store_n(&entry->ticket, 0, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    ring->free_open[ring->n_free_open++] = (uint8_t)(entry - ring->open);
}

/* Replaces the list of where the process stands. */
void ring_note_standing(Ring *ring, const Slot *entries, uint64_t n_entries, int64_t now_ns, int64_t progressed_ns);

#endif
