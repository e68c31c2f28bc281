#include "names.h"

#include <stdlib.h>
#include <string.h>

/* An entry of the index: where in the area the text begins, and how long it is. 0: there is none yet. */
enum { INDEX_BYTES = RING_MOST_NAMES * sizeof(uint64_t), MOST_SEEN = NAMES_SEEN / 4 * 3 };

_Static_assert(INDEX_BYTES < RING_NAMES_BYTES, "there is room for texts behind the index");

int names_open(Names *names)
{
    *names = (Names){.plain = calloc(RING_MOST_NAMES, sizeof(Cell)),
                     .upper = calloc(RING_MOST_NAMES, sizeof(Cell)),
                     .seen = calloc(NAMES_SEEN, sizeof(uint64_t))};
    return names->plain != NULL && names->upper != NULL && names->seen != NULL ? 0 : -1;
}

void names_close(Names *names)
{
    free(names->plain);
    free(names->upper);
    free(names->seen);
}

/* Claims a number, and room for its text in the area. */
static int claim(Names *names, size_t n_bytes, uint32_t *number, uint32_t *at)
{
    uint64_t claimed = __atomic_load_n(&names->claimed, __ATOMIC_RELAXED);
    do {
        *number = (uint32_t)(claimed >> 32);
        *at = INDEX_BYTES + (uint32_t)claimed;
        if (*number >= RING_MOST_NAMES || n_bytes > RING_NAMES_BYTES - *at)
            return -1;
    } while (!__atomic_compare_exchange_n(&names->claimed, &claimed, claimed + (1ULL << 32) + n_bytes, 1,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return 0;
}

static void note_length(Names *names, uint32_t n_bytes)
{
    uint32_t longest = __atomic_load_n(&names->longest, __ATOMIC_RELAXED);
    while (n_bytes > longest && !__atomic_compare_exchange_n(&names->longest, &longest, n_bytes, 1, __ATOMIC_RELEASE,
                                                             __ATOMIC_RELAXED))
        ;
}

int names_add(Names *names, const Ring *ring, const char *stored, size_t n_bytes, Cell plain, Cell upper)
{
    uint32_t number, at;
    note_length(names, plain.n_bytes > upper.n_bytes ? plain.n_bytes : upper.n_bytes);
    if (claim(names, n_bytes, &number, &at))
        return -1;
    memcpy(ring->names + at, stored, n_bytes);
    __atomic_store_n((uint64_t *)ring->names + number, (uint64_t)n_bytes << 32 | at, __ATOMIC_RELEASE);
    names->upper[number] = upper;
    names->plain[number].n_bytes = plain.n_bytes;
    __atomic_store_n(&names->plain[number].text, plain.text, __ATOMIC_RELEASE);
    return (int)number;
}

void names_note_seen(Names *names, const void *text, int number)
{
    uint64_t entry = (uint64_t)(uintptr_t)text << 16 | (uint64_t)number;
    if ((uint64_t)(uintptr_t)text >> 48 || __atomic_fetch_add(&names->n_seen, 1, __ATOMIC_RELAXED) >= MOST_SEEN)
        return; /* it is found by value each time */
    for (uint64_t at = names_place((uintptr_t)text);; at = (at + 1) & (NAMES_SEEN - 1)) {
        uint64_t free_entry = 0;
        if (__atomic_compare_exchange_n(&names->seen[at], &free_entry, entry, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            return;
    }
}
