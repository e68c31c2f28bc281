/* What a recorder says to code in C that records without the interpreter's lock, in another library. */
#ifndef TIMING_LOGGER_RECORDING_H
#define TIMING_LOGGER_RECORDING_H

#include "under_way.h"

#define RECORDING_CAPSULE "timing_logger.recording"

/* Differs where two libraries were not built from the same headers. */
#define RECORDING_VERSION \
    (3ULL << 56 ^ (uint64_t)RECORD_LAYOUT << 24 ^ sizeof(Slot) << 14 ^ sizeof(Ring) << 7 ^ sizeof(UnderWayList) ^ \
     sizeof(Recording))

typedef struct {
    uint64_t version; /* RECORDING_VERSION */
    Ring *ring;
    UnderWayList *under_way;
    uint32_t is_on;        /* whether the current iteration is recorded */
    uint32_t has_labels;   /* whether a label was ever in force: only Python knows which one is now */
    uint32_t is_plain;     /* whether a slot can hold the iteration, the epoch and the work */
    uint32_t has;          /* which of these three there are, as in a slot */
    int64_t numbers[N_NUMBERS];
    uint64_t number;       /* of the recorder, which no other one of the process ever gets */
    void *recorder, *channel; /* objects of Python, for the functions below, which need the interpreter's lock */
    /* Returns the number of a text, a str; -1 if there is no room for it. Sets no exception. */
    int (*name)(void *channel, void *text);
    /* Returns the number of the calling thread's name, or -1; says whether that stays its name. */
    int (*thread)(void *recorder, int *stays);
    /* Returns the numbers of the label in force and whether it names a layer; -1 if no slot can hold it. */
    int (*label)(void *recorder, uint16_t *layer_name, uint16_t *phase);
} Recording;

/* Has `state` be in force from now on: of it the iteration, the epoch and the work. Called with the interpreter's lock. */
static inline void recording_note(Recording *of, const Slot *state, int is_plain, int is_on, int has_labels)
{
    int same = __atomic_load_n(&of->has, __ATOMIC_RELAXED) == state->has;
    if (!same) /* a number may be another kind of number: nobody is to read it as what it was */
        __atomic_store_n(&of->is_plain, 0, __ATOMIC_SEQ_CST);
    for (int which = 0; which < N_NUMBERS; which++)
        __atomic_store_n(&of->numbers[which], state->numbers[which], __ATOMIC_RELAXED);
    __atomic_store_n(&of->has, state->has, __ATOMIC_RELEASE);
    __atomic_store_n(&of->has_labels, (uint32_t)has_labels, __ATOMIC_RELAXED);
    __atomic_store_n(&of->is_on, (uint32_t)is_on, __ATOMIC_RELAXED);
    __atomic_store_n(&of->is_plain, (uint32_t)is_plain, __ATOMIC_RELEASE);
}

/* Puts the iteration, the epoch and the work that are in force into a slot. */
static inline void recording_state(const Recording *of, Slot *slot)
{
    slot->has = __atomic_load_n(&of->has, __ATOMIC_ACQUIRE);
    for (int which = 0; which < N_NUMBERS; which++)
        slot->numbers[which] = __atomic_load_n(&of->numbers[which], __ATOMIC_RELAXED);
}

#endif
