/* A thread that has claimed a position of a recorder's ring and does not go on: a library for ctypes. */
#include "recording.h"

uint64_t claim(const Recording *recording) { return ring_claim(recording->ring); }

void fill(const Recording *recording, uint64_t position)
{
    Slot slot = {.start_ns = 1, .end_ns = 2, .has = HAS_END};
    ring_fill(recording->ring, position, &slot);
}
