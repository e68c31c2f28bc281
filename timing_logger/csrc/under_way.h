/* Calls and operations that code in C has begun and not ended, without the interpreter's lock.
 *
 * Any number of threads may begin and end them at once. Of two that see the end of one, or that give it up, only the
 * one that takes it writes its row. What is begun here is in the ring's list of open calls, too, as far as that has
 * room: this list is for the process itself, and the ring's for others.
 */
#ifndef TIMING_LOGGER_UNDER_WAY_H
#define TIMING_LOGGER_UNDER_WAY_H

#include "ring.h"

#define UNDER_WAY_MOST 1024
#define UNDER_WAY_WORDS (UNDER_WAY_MOST / 64)

typedef struct UnderWay {
    uint64_t turn;      /* even: it is free, or being filled in; odd: it is under way. Each change adds 1 */
    Slot call;          /* the record as far as it is known, without an end */
    Slot *listed;       /* its entry in the ring's list; NULL if it has none */
    struct UnderWay *of; /* what the call waits for; NULL if it is no wait */
    uint64_t of_turn;
    uint64_t has_no_row; /* its iteration is not recorded: it is told if the process hangs in it */
} UnderWay;

typedef struct {
    UnderWay each[UNDER_WAY_MOST];
    uint64_t free[UNDER_WAY_WORDS];
} UnderWayList;

/* Of a list of zeros. */
static inline void under_way_start(UnderWayList *list)
{
    for (int i = 0; i < UNDER_WAY_WORDS; i++)
        list->free[i] = ~0ULL;
}

/* Returns an entry for the caller to pass to under_way_begin; NULL if there is no room. */
static inline UnderWay *under_way_claim(UnderWayList *list)
{
    for (int i = 0; i < UNDER_WAY_WORDS; i++) {
        uint64_t bits = __atomic_load_n(&list->free[i], __ATOMIC_RELAXED);
        while (bits && !__atomic_compare_exchange_n(&list->free[i], &bits, bits & (bits - 1), 1, __ATOMIC_ACQUIRE,
                                                    __ATOMIC_RELAXED))
            ;
        if (bits)
            return &list->each[64 * i + __builtin_ctzll(bits)];
    }
    return NULL;
}

static inline void under_way_free(UnderWayList *list, UnderWay *entry)
{
    uint64_t which = (uint64_t)(entry - list->each);
    __atomic_fetch_or(&list->free[which / 64], 1ULL << which % 64, __ATOMIC_RELEASE);
}

/* Fills an entry in, which others may be copying as what it was before. Returns its turn, by which it is taken.
 *
 * call: what is known of the call. listed: its entry in the ring's list, or NULL. of, of_turn: what it waits for, or NULL.
 * has_no_row: see there. */
static inline uint64_t under_way_begin(UnderWay *entry, const Slot *call, Slot *listed, UnderWay *of, uint64_t of_turn,
                                       int has_no_row)
{
    const Word *from = (const Word *)call;
    Word *to = (Word *)&entry->call;
    for (size_t i = FIRST_WORD; i < SLOT_WORDS; i++)
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
    __atomic_store_n(&entry->listed, listed, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->of, of, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->of_turn, of_turn, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->has_no_row, (uint64_t)has_no_row, __ATOMIC_RELAXED);
    return __atomic_add_fetch(&entry->turn, 1, __ATOMIC_RELEASE);
}

/* Whether the calling thread is the one to write the row: then nobody else has the entry, until it is freed. */
static inline int under_way_take(UnderWay *entry, uint64_t turn)
{
    return __atomic_compare_exchange_n(&entry->turn, &turn, turn + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static inline int under_way_is(const UnderWay *entry, uint64_t turn)
{
    return __atomic_load_n(&entry->turn, __ATOMIC_ACQUIRE) == turn;
}

/* Copies an entry that is under way; returns 0 if none is there, if it ended meanwhile, or if what it waits for did. */
static inline int under_way_copy(const UnderWay *entry, UnderWay *copy)
{
    uint64_t turn = __atomic_load_n(&entry->turn, __ATOMIC_ACQUIRE);
    if (turn % 2 == 0)
        return 0;
    const Word *from = (const Word *)&entry->call;
    Word *to = (Word *)&copy->call;
    for (size_t i = FIRST_WORD; i < SLOT_WORDS; i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    copy->listed = __atomic_load_n(&entry->listed, __ATOMIC_RELAXED);
    copy->of = __atomic_load_n(&entry->of, __ATOMIC_RELAXED);
    copy->of_turn = __atomic_load_n(&entry->of_turn, __ATOMIC_RELAXED);
    copy->has_no_row = __atomic_load_n(&entry->has_no_row, __ATOMIC_RELAXED);
    copy->turn = turn;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return under_way_is(entry, turn) && (copy->of == NULL || under_way_is(copy->of, copy->of_turn));
}

#endif
