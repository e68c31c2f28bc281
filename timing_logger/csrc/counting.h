/* A count that code with and without the interpreter's lock advances. */
#ifndef TIMING_LOGGER_COUNTING_H
#define TIMING_LOGGER_COUNTING_H

#include <stdint.h>

/* Returns the count from before. */
static inline int64_t count_next(int64_t *count)
{
    return __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

static inline void count_back(int64_t *count)
{
    __atomic_fetch_sub(count, 1, __ATOMIC_RELAXED);
}

#endif
