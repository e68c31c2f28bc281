/* A number that threads wait for, by futex: changing it takes no lock, a signal handler may do it, and a step of the
   wall clock changes no time limit. */
#ifndef EVENT_H
#define EVENT_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Return when the number is not `seen`, after the time limit, or for no reason. */
static inline void wait_for_change(atomic_int *number, int seen, int64_t timeout_ns)
{
    struct timespec limit = {timeout_ns / 1000000000, timeout_ns % 1000000000};
    syscall(SYS_futex, number, FUTEX_WAIT_PRIVATE, seen, &limit, NULL, 0);
}

static inline void tell_change(atomic_int *number)
{
    (*number)++;
    syscall(SYS_futex, number, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#endif
