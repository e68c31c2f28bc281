#include "forks.h"

#include <pthread.h>

/* A thread without the interpreter's lock may fork at any moment, so the list can be walked after each store. */
static Ring *followed;

void follow_ring(Ring *ring)
{
    ring->next_followed = followed;
    __atomic_store_n(&followed, ring, __ATOMIC_RELEASE);
}

void forget_ring(Ring *ring)
{
    for (Ring **at = &followed; *at != NULL; at = &(*at)->next_followed)
        if (*at == ring) {
            __atomic_store_n(at, ring->next_followed, __ATOMIC_RELEASE);
            return;
        }
}

/* The child of a process with several threads may only make calls that are safe in a signal handler. */
static void leave_rings(void)
{
    for (Ring *ring = followed; ring != NULL; ring = ring->next_followed) {
        ring->n_overflows = ring->n_unreadable = 0; /* the child counts what it refuses itself */
        ring_abandon(ring);
    }
}

int leave_rings_in_children(void)
{
    return pthread_atfork(NULL, NULL, leave_rings);
}
