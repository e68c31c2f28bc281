#include "forks.h"

#include <pthread.h>

/* Threads may make and drop rings at once. Whoever forks holds the lock meanwhile, so that the child can have it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Ring *followed;

static void hold_list(void) { pthread_mutex_lock(&lock); }
static void let_go_of_list(void) { pthread_mutex_unlock(&lock); }

void follow_ring(Ring *ring)
{
    hold_list();
    ring->next_followed = followed;
    followed = ring;
    let_go_of_list();
}

void forget_ring(Ring *ring)
{
    hold_list();
    Ring **at = &followed;
    while (*at != NULL && *at != ring)
        at = &(*at)->next_followed;
    if (*at == ring)
        *at = ring->next_followed;
    let_go_of_list();
}

/* The child of a process with several threads may only make calls that are safe in a signal handler. */
static void leave_rings(void)
{
    let_go_of_list();
    for (Ring *ring = followed; ring != NULL; ring = ring->next_followed) {
        ring->n_overflows = ring->n_unreadable = 0; /* the child counts what it refuses itself */
        ring_abandon(ring);
    }
}

int leave_rings_in_children(void)
{
    static int is_registered; /* twice, a fork would wait for itself */
    hold_list();
    int failed = is_registered ? 0 : pthread_atfork(hold_list, let_go_of_list, leave_rings);
    is_registered |= !failed;
    let_go_of_list();
    return failed;
}
