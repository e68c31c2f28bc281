/* Threads of our own, apart from the program: it may take signals at any moment, close all descriptors and open files of
   its own. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "door.h"
#include "native.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* of Linux 5.9 and later, on every kind of processor but Alpha */
#endif
#define AND_UNSHARE (1U << 1)
#define LAST_STANDARD_STREAM 2

/* Give this thread a table of descriptors of its own, in which none of the program's is open: nobody else can close ours
   or give their numbers to other files, and the program's pipes, sockets and locks end when it closes them. Where the
   kernel refuses that, all stays as it was, and the checks before each write are what there is. unshare() would do on
   older kernels, but not the closing after it: drivers such as XPMEM take it for the end of the process, if the thread
   has the table already. */
static void have_own_descriptors(void)
{
    if (syscall(SYS_close_range, 0, ~0U, AND_UNSHARE) != 0)
        return;
    for (int i = 0; i <= LAST_STANDARD_STREAM; i++) /* what anybody writes to these is not to be in a file of ours */
        if (door_take_number() > LAST_STANDARD_STREAM)
            return;
}

static void *run_apart(void *runs)
{
    have_own_descriptors();
    ((void (*)(void)) runs)();
    return NULL;
}

/* A signal is the program's. Nor does a file that grows too large end the process then: SIGXFSZ stays with the thread
   that writes. */
bool start_thread(pthread_t *thread, void (*runs)(void))
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool has_begun = pthread_create(thread, NULL, run_apart, (void *) runs) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return has_begun;
}
