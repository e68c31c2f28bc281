/* The values of a row besides its instants, as the writers in C hold them. columns.h is made when this is built. */
#ifndef TIMING_LOGGER_ROW_H
#define TIMING_LOGGER_ROW_H

#include <stdint.h>

#include "columns.h"

/* Which of the values there are. */
#define MOST_NUMBERS 12
#define HAS(which) (1u << (which))
#define IS_REAL(which) (1u << (MOST_NUMBERS + (which))) /* the 64 bits of this number are a double's */
#define HAS_END (1u << 24)

_Static_assert((int)N_NUMBERS <= MOST_NUMBERS, "a row has a bit for each of so many numbers");

#endif
