/* Rings and forks: a child leaves the rings of its parent before any other of its code runs.
 *
 * That is for libc to see to, not for Python: other fork hooks of Python may run before the package's own, finalizers
 * between them, and none at all in a child that C code forks. Where two processes put records into one ring, both
 * overwrite the other's; and a child that keeps the file open keeps it locked after its parent was killed.
 */
#ifndef TIMING_LOGGER_FORKS_H
#define TIMING_LOGGER_FORKS_H

#include "ring.h"

/* Has every child of this process leave the rings that it follows then. Returns 0, or the errno. */
int leave_rings_in_children(void);

/* Follows a ring, which stays where it is until it is forgotten. Any thread may call these. */
void follow_ring(Ring *ring);
void forget_ring(Ring *ring);

#endif
