/* The names of a ring: each text that records hold has a number, in the file and in its process.
 *
 * The area of names in the file begins with an index, of where the text of each number is; the texts follow it. Any
 * number of threads may add names at once. A number is given out once its text and cells are in place, so whoever puts
 * a record with it, and whoever writes that record's line, finds them.
 */
#ifndef TIMING_LOGGER_NAMES_H
#define TIMING_LOGGER_NAMES_H

#include "csv_line.h"
#include "ring.h"

/* Of each number: its two kinds of cells, one for operations, which are in upper case, one for all other columns. */
typedef struct {
    Cell *plain;
    Cell *upper;
    uint32_t longest;
    uint64_t claimed;   /* how many numbers, and how many bytes of the area: both in one word */
    uint64_t *seen;     /* an open hash table of the addresses of texts, with the number of each */
    uint32_t n_seen;
} Names;

/* Returns 0, or -1 if there is no memory. */
int names_open(Names *names);
void names_close(Names *names);

/* Adds a name, which is `stored` in the file, with cells that stay as long as the names do. Returns its number, or -1
 * if there is no room; lines with its cells have that of the longest name all the same. Threads that add one text at once may get two numbers for it, which are as good. */
int names_add(Names *names, const Ring *ring, const char *stored, size_t n_bytes, Cell plain, Cell upper);

/* Remembers the number of a text that stays where it is. */
void names_note_seen(Names *names, const void *text, int number);

enum { NAMES_SEEN_BITS = 15, NAMES_SEEN = 1 << NAMES_SEEN_BITS }; /* twice the most names */

static inline uint64_t names_place(uintptr_t text)
{
    return ((uint64_t)text >> 4) * 0x9e3779b97f4a7c15ULL >> (64 - NAMES_SEEN_BITS);
}

/* Returns the number that was remembered for a text, or -1. */
static inline int names_seen(const Names *names, const void *text)
{
    for (uint64_t at = names_place((uintptr_t)text);; at = (at + 1) & (NAMES_SEEN - 1)) {
        uint64_t entry = __atomic_load_n(&names->seen[at], __ATOMIC_ACQUIRE);
        if (entry >> 16 == (uintptr_t)text)
            return (int)(entry & 0xffff);
        if (!entry)
            return -1;
    }
}

static inline int names_knows(const Names *names, uint16_t number)
{
    return number < RING_MOST_NAMES && __atomic_load_n(&names->plain[number].text, __ATOMIC_ACQUIRE) != NULL;
}

/* Whether the slot of a position holds the record that was put there, whole as far as its process needs it. */
static inline int names_read(const Names *names, const Ring *ring, uint64_t position)
{
    const Slot *slot = ring_slot(ring, position);
    int knows_all = 1;
    for (int which = 0; which < N_NAMES; which++)
        knows_all &= names_knows(names, slot->names[which]);
    return slot->ticket == position + 1 && (knows_all || slot->has & ELSEWHERE);
}

#endif
