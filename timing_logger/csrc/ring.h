/* The ring: records in a mapped file, which outlives the process that writes them.
 *
 * The file is a header, an area of names, two lists of where the process stood when the flush thread last looked (one
 * is valid, the other one is being written), and slots of one record each; timing_logger/schema/ring_file.py reads it.
 * A list has the calls that were open, and for each group of ranks how many collectives were begun and completed.
 * Calls of the instrumentation are in a list of their own from the moment when they begin until they end.
 * A position counts records from 0; position p lies in slot p % slots. The positions below `released` are
 * written elsewhere, those from there to `taken` are being written, and those from there to `head` were claimed by
 * who puts records: up to `ready` they are whole. The names that a record holds are numbers (names.h).
 *
 * Any number of threads may put records at once, and need no lock, that of the interpreter neither: a thread claims a
 * position by moving `head`, fills its slot, and then says that it is whole. One thread at a time takes them out, in
 * their order: it does not go beyond a record that is not whole yet, whose thread waits for a processor, say.
 *
 * The file is for others: its process does not decide by what is in there, as whoever maps it may change it.
 */
#ifndef TIMING_LOGGER_RING_H
#define TIMING_LOGGER_RING_H

#include <stddef.h>
#include <stdint.h>

#include "row.h"

#define RING_MAGIC 0x34474e4952474c54ULL /* "TLGRING4" in memory, on a little-endian machine */
#define RING_HEADER_BYTES 4096
#define RING_NAMES_BYTES (1 << 20)
#define RING_MOST_NAMES 16384
#define RING_PATH_BYTES 3072
#define RING_MOST_STANDING 128 /* entries of such a list */
#define RING_MOST_OPEN 96      /* calls in the list of their own ... */
#define RING_OPEN_WORDS ((RING_MOST_OPEN + 63) / 64)
#define RING_KEPT_OPEN 32      /* and the room in it that operations in the background leave to calls */
#define RING_MOST_SLOTS (1ULL << 37)
#define RING_BATCH 8192 /* the most records that are taken before they are released */
#define RING_MOST_KEPT ((1ULL << 20) + RING_BATCH) /* slots of a ring without a file whose memory is kept once they are free */

#define RING_MOST_AHEAD (1ULL << 17) /* slots of it whose memory is made ready at a time: 16 MiB */

#define IS_GROUP (1u << 25)       /* no call but a group: SEQ collectives begun, PEER of them completed */
#define ELSEWHERE (1u << 26)      /* the record cannot be put into a slot: the process holds it as it is */
#define ON_DEVICE (1u << 27)      /* and it holds the interval only: `end_ns` is the address of that object of Python */
#define NOT_MARKED (1u << 28)     /* of which not both events were recorded ... */
#define IN_BACKGROUND (1u << 29)  /* ... or between which nothing ran but marks */

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
    uint64_t head, taken, released; /* `head` may be less than that by as many as there are threads */
    uint64_t standing;            /* of the valid list: its length times two, plus which it is */
    int64_t looked_ns, progressed_ns; /* when the list was made, and when anything was last begun or recorded before */
    char path[RING_PATH_BYTES];   /* of the timing file that the records belong to */
} Header;

typedef struct Ring {
    Header *header; /* NULL while the ring is closed */
    Slot *slots;
    uint32_t *whole;      /* of each slot: the low bits of its ticket, once the record is whole; in no file */
    uint64_t n_slots;
    uint64_t capacity;    /* the most records that wait: as many as that from `taken` to `head` */
    uint64_t head;        /* see the header, which shows this to others; and the bits RING_SHUT and RING_HELD */
    uint64_t lap;         /* a position of slot 0, mostly the latest: it saves a division */
    uint64_t taken, ready, released;
    uint64_t touched;     /* the position up to which the slots have had their memory made ready */
    uint64_t n_overflows; /* records that found no room */
    uint64_t n_unreadable; /* records that were not found again in their slot */
    uint64_t valid_standing; /* see the header */
    char *names;          /* the area of names: see names.h */
    Slot *standing[2];
    Slot *open;
    uint64_t free_open[RING_OPEN_WORDS]; /* a bit for each of these that no call is in */
    size_t mapped_bytes;
    int descriptor; /* -1: the memory is this process's own */
    uint64_t device, inode;
    struct Ring *next_followed; /* see forks.h */
} Ring;

/* Makes a ring in which so many records may wait. A path of NULL is for memory of the process's own. Returns 0, or the
 * errno. */
int ring_open(Ring *ring, const char *path, uint64_t capacity);

/* Whether a path still names the ring's file. */
int ring_is_at(const Ring *ring, const char *path);

/* Removes the ring's file, unless the path names another one by now. */
void ring_remove(const Ring *ring, const char *path);

/* Backs the ring by a new file in place of one that is gone; what points into the ring stays valid. Records that
 * others put meanwhile find no room. Nobody else may take any, or write the list of where the process stands. Returns
 * 0, or the errno, and then all is as it was: EAGAIN if a thread takes long to fill its slot. */
int ring_renew(Ring *ring, const char *path);

/* Gives the room of all records that were taken to new ones; a very long queue's memory goes back to the system. */
void ring_release(Ring *ring);

/* Lets no record in any more; those that wait can still be taken. No thread claims a position from then on. */
void ring_shut(Ring *ring);

/* Waits, a tenth of a second at most, until every record that was claimed is whole, of a ring that lets none in.
 * Returns whether that is so: a thread may have been kept from a processor for longer. */
int ring_settle(Ring *ring);

/* How many records wait that are whole, up to the first that is not: so many may be taken. */
uint64_t ring_n_ready(Ring *ring);

/* Makes the memory of the next slots ready, of a ring without a file: called by whoever writes records, as the first
 * touch of a page would make the recorder half as slow again. */
void ring_touch_ahead(Ring *ring);

/* Takes no record any more, forgets those that wait, and lets go of the file. The memory stays, as this process's own,
 * for whoever still points there. Only calls that a forked child may make: see forks.h. */
int ring_abandon(Ring *ring);

/* Puts an open ring in the place of another one, which is closed. */
void ring_move(Ring *to, const Ring *from);

void ring_close(Ring *ring);

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

static inline Slot *ring_slot(const Ring *ring, uint64_t position)
{
    return &ring->slots[position % ring->n_slots];
}

/* The slot of a position that was just claimed: mostly of the same lap as the last one. */
static inline uint64_t ring_place(Ring *ring, uint64_t position)
{
    uint64_t place = position - __atomic_load_n(&ring->lap, __ATOMIC_RELAXED);
    if (place >= ring->n_slots) {
        place = position % ring->n_slots;
        __atomic_store_n(&ring->lap, position - place, __ATOMIC_RELAXED);
    }
    return place;
}

/* Counts a record that is not put. */
static inline void ring_count_overflow(Ring *ring)
{
    __atomic_fetch_add(&ring->n_overflows, 1, __ATOMIC_RELAXED);
}

#define RING_FULL UINT64_MAX

/* No record is let in while `head` has one of these bits: the queue is longer than any capacity then. As they are in
 * `head`, a thread that has seen it before claims nothing either. */
#define RING_SHUT (1ULL << 62) /* for good */
#define RING_HELD (1ULL << 61) /* while the ring moves to another file */

/* The position that is claimed next. */
static inline uint64_t ring_head(const Ring *ring)
{
    return __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) & (RING_HELD - 1);
}

/* Claims the next position, which must then be filled, and without waiting for anything: the records behind it wait for
 * that. Returns RING_FULL, and counts the record, if there is no room. */
static inline uint64_t ring_claim(Ring *ring)
{
    uint64_t position = __atomic_load_n(&ring->head, __ATOMIC_RELAXED);
    do {
        /* `taken` may be read later than `head`, and lie behind it then: that is not full. */
        int64_t n_waiting = (int64_t)(position - __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE));
        if (n_waiting >= (int64_t)ring->capacity) {
            ring_count_overflow(ring);
            return RING_FULL;
        }
    } while (!__atomic_compare_exchange_n(&ring->head, &position, position + 1, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return position;
}

/* Copies a complete record into the slot of a position that the caller has claimed. */
static inline void ring_fill(Ring *ring, uint64_t position, const Slot *record)
{
    uint64_t place = ring_place(ring, position);
    Slot *slot = &ring->slots[place];
    __atomic_store_n(&slot->ticket, 0, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* nobody reads the slot now: the order counts for who reads a dead ring */
    slot->checksum = ring_copy(slot, record) + position + 1;
    __atomic_store_n(&slot->ticket, position + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&ring->whole[place], (uint32_t)(position + 1), __ATOMIC_RELEASE);
    __atomic_store_n(&ring->header->head, position + 1, __ATOMIC_RELAXED);
}

/* Puts a complete record, or counts it where there is no room. */
static inline void ring_put(Ring *ring, const Slot *record)
{
    uint64_t position = ring_claim(ring);
    if (position != RING_FULL)
        ring_fill(ring, position, record);
}

static inline void ring_take(Ring *ring, uint64_t n_records)
{
    __atomic_store_n(&ring->taken, ring->taken + n_records, __ATOMIC_RELEASE);
    ring->header->taken = ring->taken;
}

static inline int ring_is_elsewhere(const Ring *ring, uint64_t position)
{
    return (ring_slot(ring, position)->has & ELSEWHERE) != 0;
}

static inline int ring_n_free_open(const Ring *ring)
{
    int n_free = 0;
    for (int i = 0; i < RING_OPEN_WORDS; i++)
        n_free += __builtin_popcountll(__atomic_load_n(&ring->free_open[i], __ATOMIC_RELAXED));
    return n_free;
}

/* Puts a call that begins into the list of open calls, if that leaves room for `n_kept` others. Returns its entry, for
 * ring_leave; NULL if there is no room. */
static inline Slot *ring_enter(Ring *ring, const Slot *call, int n_kept)
{
    if (n_kept && ring_n_free_open(ring) <= n_kept)
        return NULL;
    for (int i = 0; i < RING_OPEN_WORDS; i++) {
        uint64_t bits = __atomic_load_n(&ring->free_open[i], __ATOMIC_RELAXED);
        while (bits && !__atomic_compare_exchange_n(&ring->free_open[i], &bits, bits & (bits - 1), 1, __ATOMIC_ACQUIRE,
                                                    __ATOMIC_RELAXED))
            ;
        if (!bits)
            continue;
        uint64_t which = 64 * (uint64_t)i + (uint64_t)__builtin_ctzll(bits);
        Slot *entry = &ring->open[which];
        entry->checksum = ring_copy(entry, call) + which + 1; /* its ticket is 0 so far */
        __atomic_store_n(&entry->ticket, which + 1, __ATOMIC_RELEASE);
        return entry;
    }
    return NULL;
}

static inline void ring_leave(Ring *ring, Slot *entry)
{
    uint64_t which = (uint64_t)(entry - ring->open);
    __atomic_store_n(&entry->ticket, 0, __ATOMIC_RELAXED);
    __atomic_fetch_or(&ring->free_open[which / 64], 1ULL << which % 64, __ATOMIC_RELEASE);
}

/* Replaces the list of where the process stands. */
void ring_note_standing(Ring *ring, const Slot *entries, uint64_t n_entries, int64_t now_ns, int64_t progressed_ns);

#endif
