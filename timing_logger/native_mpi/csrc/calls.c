/* What the wrappers do around a call of MPI: see whether it is timed, fill in its row, and write that. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "native.h"

atomic_bool recording, paused;

static __thread struct thread *this_thread __attribute__((tls_model("initial-exec")));
static _Atomic(struct thread *) threads;
static atomic_int n_threads;
static pthread_key_t at_end_of_thread;
static pthread_once_t key_made = PTHREAD_ONCE_INIT;

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* the clock of Python's perf_counter */
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* -- threads --------------------------------------------------------------------------------------------------- */

static void leave_thread(void *thread) { ((struct thread *) thread)->in_use = false; }

static void make_key(void) { pthread_key_create(&at_end_of_thread, leave_thread); }

/* The record of a thread that has ended, for one that begins; NULL if there is none. */
static struct thread *left_thread(void)
{
    for (struct thread *thread = threads; thread != NULL; thread = thread->next) {
        bool in_use = false;
        if (atomic_compare_exchange_strong(&thread->in_use, &in_use, true))
            return thread;
    }
    return NULL;
}

static struct thread *thread_here(void)
{
    if (this_thread != NULL)
        return this_thread;
    pthread_once(&key_made, make_key);
    struct thread *thread = left_thread();
    if (thread != NULL) {
        pthread_setspecific(at_end_of_thread, thread);
        return this_thread = thread;
    }
    thread = calloc(1, sizeof *thread);
    int number = n_threads++;
    char *name = malloc(24);
    if (getpid() == gettid())
        snprintf(name, 24, "MainThread");
    else
        snprintf(name, 24, "Thread-%d", number);
    thread->cell = name; /* rows may hold it for as long as the process lives */
    thread->in_use = true;
    thread->next = threads;
    while (!atomic_compare_exchange_weak(&threads, &thread->next, thread))
        ;
    pthread_setspecific(at_end_of_thread, thread);
    return this_thread = thread;
}

void for_each_thread(void (*tell)(const struct call *, void *), int64_t before_ns, void *context)
{
    for (struct thread *thread = threads; thread != NULL; thread = thread->next) {
        long since_ns = thread->since_ns;
        struct call call = thread->call;
        /* The thread may have left its call meanwhile: then the copy is not to be used. */
        if (since_ns != 0 && since_ns < before_ns && thread->since_ns == since_ns)
            tell(&call, context);
    }
}

bool passes(const void *caller)
{
    if (__builtin_expect(!real.found, 0))
        find_real(caller);
    if (!atomic_load_explicit(&recording, memory_order_relaxed))
        return true;
    return thread_here()->inside;
}

/* -- calls ------------------------------------------------------------------------------------------------------ */

/* The calling thread's next call; NULL without a group. */
static struct call *fresh(const char *operation, struct group *group)
{
    if (group == NULL)
        return NULL;
    struct thread *thread = thread_here();
    thread->call = (struct call){.operation = operation, .thread = thread->cell, .group = group, .bytes = BLANK,
                                 .seq = BLANK, .to = NOBODY, .from = NOBODY, .peer = NOBODY};
    return &thread->call;
}

struct call *collective_of(const char *operation, struct group *group)
{
    struct call *call = fresh(operation, group);
    if (call != NULL)
        call->is_collective = true;
    return call;
}

struct call *collective(const char *operation, MPI_Comm comm) { return collective_of(operation, group_of(comm)); }

static int rank_of(int rank)
{
    return rank == MPI_ANY_SOURCE ? ANYBODY : rank == MPI_PROC_NULL ? NOBODY : rank;
}

struct call *unnumbered(const char *operation, struct group *group, int peer)
{
    struct call *call = fresh(operation, group);
    if (call != NULL)
        call->peer = rank_of(peer);
    return call;
}

struct call *message(const char *operation, MPI_Comm comm, int to, int from)
{
    struct call *call = fresh(operation, group_of(comm));
    if (call == NULL)
        return NULL;
    call->to = rank_of(to);
    call->from = rank_of(from);
    call->peer = call->to;
    return call;
}

struct call *receive(const char *operation, MPI_Comm comm, int from)
{
    struct call *call = message(operation, comm, MPI_PROC_NULL, from);
    if (call != NULL) {
        call->peer = call->from;
        call->only_receives = true;
    }
    return call;
}

bool is_root(const struct group *group, int root)
{
    bool is_inter = group->size != group->own_size; /* where other ranks name the root by its rank on the other side */
    return is_inter ? root == MPI_ROOT : root == group->rank;
}

void set_root(struct call *call, int root, bool root_sends)
{
    if (root == MPI_ROOT) { /* what the root itself passes in an intercommunicator */
        call->peer = call->group->rank;
        call->bytes = root_sends ? call->bytes : BLANK;
    } else if (root == MPI_PROC_NULL) { /* and what the others of its group pass */
        call->bytes = BLANK;
    } else {
        call->peer = root;
    }
}

void enter(struct call *call)
{
    struct thread *thread = this_thread;
    if (call->is_collective)
        call->seq = call->group->collectives++;
    thread->inside = true;
    call->start_ns = now_ns();
    atomic_store_explicit(&thread->since_ns, call->start_ns, memory_order_release);
}

int64_t leave_silently(void)
{
    int64_t end_ns = now_ns();
    struct thread *thread = this_thread;
    atomic_store_explicit(&thread->since_ns, 0, memory_order_release);
    thread->inside = false;
    return end_ns;
}

int leave(struct call *call, int code)
{
    int64_t end_ns = leave_silently();
    write_row(call, call->operation, call->start_ns, end_ns, status_name(code), call->thread);
    return code;
}

bool learns_from_status(const struct call *call)
{
    return call->from == ANYBODY || (call->only_receives && call->bytes == BLANK && call->from != NOBODY);
}

int64_t bytes_of(const MPI_Status *status)
{
    MPI_Count n = 0;
    return real.Get_elements_x((word) status, (word) BYTE, (word) &n) == MPI_SUCCESS && n >= 0 ? (int64_t) n : BLANK;
}

int leave_message(struct call *call, int code, const MPI_Status *status)
{
    int64_t end_ns = leave_silently();
    bool told = status != NULL && code == MPI_SUCCESS;
    if (call->only_receives && told)
        call->bytes = bytes_of(status);
    if (call->from == ANYBODY)
        call->from = told ? rank_of(status->MPI_SOURCE) : NOBODY;
    call->peer = call->only_receives ? call->from : call->to;
    if (call->peer == NOBODY)
        call->bytes = BLANK;
    call->seq = next_message(call->group, call->to, call->from);
    write_row(call, call->operation, call->start_ns, end_ns, status_name(code), call->thread);
    return code;
}

int leave_read(struct call *call, int code, const MPI_Status *status)
{
    int64_t end_ns = leave_silently();
    if (code == MPI_SUCCESS)
        call->bytes = bytes_of(status);
    write_row(call, call->operation, call->start_ns, end_ns, status_name(code), call->thread);
    return code;
}

int leave_as_first(struct call *call, int code, MPI_Comm made)
{
    int64_t end_ns = leave_silently();
    struct group *group = group_of(made);
    if (group != NULL) {
        call->group = group;
        call->seq = group->collectives++;
    }
    write_row(call, call->operation, call->start_ns, end_ns, status_name(code), call->thread);
    return code;
}

int leave_probe(struct call *call, int code, bool found, const MPI_Status *status)
{
    int64_t end_ns = leave_silently();
    int sender = code == MPI_SUCCESS && found ? rank_of(status->MPI_SOURCE) : NOBODY;
    if (sender != NOBODY) {
        call->peer = sender;
        call->bytes = bytes_of(status);
    }
    if (code != MPI_SUCCESS || found)
        write_row(call, call->operation, call->start_ns, end_ns, status_name(code), call->thread);
    return code;
}

void fail_call(const char *status)
{
    if (this_thread == NULL || !this_thread->inside)
        return;
    struct call *call = &this_thread->call;
    int64_t end_ns = leave_silently();
    write_row(call, call->operation, call->start_ns, end_ns, status, call->thread);
}

void write_abort(MPI_Comm comm)
{
    int64_t start_ns = now_ns();
    struct group *group = this_thread != NULL && this_thread->inside ? NULL : group_of(comm);
    if (group == NULL)
        return;
    struct call *call = fresh("ABORT", group);
    write_row(call, call->operation, start_ns, now_ns(), "error:MPI_Abort", call->thread);
}

struct call *wait_call(const struct call *of)
{
    struct call *call = fresh("WAIT", of->group);
    call->seq = of->seq;
    call->peer = of->peer;
    call->bytes = of->bytes;
    return call;
}

struct row row_of(const struct call *call, const char *operation, int64_t start_ns, int64_t end_ns,
                  const char *status, const char *thread)
{
    return (struct row){start_ns, end_ns, call->bytes, call->seq, operation, status, thread, call->group, call->peer};
}

void write_row(const struct call *call, const char *operation, int64_t start_ns, int64_t end_ns,
               const char *status, const char *thread)
{
    if (atomic_load_explicit(&paused, memory_order_relaxed))
        return;
    struct row row = row_of(call, operation, start_ns, end_ns, status, thread);
    put(&row);
}

/* -- what is not timed ----------------------------------------------------------------------------------------- */

static struct {
    _Atomic(const char *) name;
    atomic_long n;
} untimed[16]; /* more than there are names */

void count_untimed(const char *name)
{
    if (atomic_load_explicit(&paused, memory_order_relaxed))
        return;
    for (size_t i = 0; i < sizeof untimed / sizeof *untimed; i++) {
        const char *found = NULL;
        if (atomic_compare_exchange_strong(&untimed[i].name, &found, name) || strcmp(found, name) == 0) {
            untimed[i].n++;
            return;
        }
    }
}

void for_each_untimed(void (*tell)(const char *name, long n, void *), void *context)
{
    for (size_t i = 0; i < sizeof untimed / sizeof *untimed && untimed[i].name != NULL; i++)
        tell(untimed[i].name, untimed[i].n, context);
}

/* -- sizes ------------------------------------------------------------------------------------------------------ */

int64_t bytes(int64_t count, MPI_Datatype datatype)
{
    int size = 0;
    if (real.Type_size((word) datatype, (word) &size) != MPI_SUCCESS || size == MPI_UNDEFINED)
        return BLANK;
    return count * size;
}

int64_t count_at(word counts, int i, int count_bytes)
{
    return count_bytes == sizeof(int) ? ((const int *) counts)[i] : ((const MPI_Count *) counts)[i];
}

int64_t total(word counts, int n, int count_bytes)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++)
        sum += count_at(counts, i, count_bytes);
    return sum;
}

/* -- errors ----------------------------------------------------------------------------------------------------- */

#define CLASSES(NAME)                                                                                              \
    NAME(BUFFER) NAME(COUNT) NAME(TYPE) NAME(TAG) NAME(COMM) NAME(RANK) NAME(REQUEST) NAME(ROOT) NAME(GROUP)       \
    NAME(OP) NAME(TOPOLOGY) NAME(DIMS) NAME(ARG) NAME(UNKNOWN) NAME(TRUNCATE) NAME(OTHER) NAME(INTERN)             \
    NAME(PENDING) NAME(IN_STATUS) NAME(NO_MEM) NAME(SPAWN) NAME(PORT) NAME(SERVICE) NAME(INFO)                     \
    NAME(WIN) NAME(BASE) NAME(SIZE) NAME(DISP) NAME(LOCKTYPE) NAME(ASSERT) NAME(RMA_CONFLICT) NAME(RMA_SYNC)       \
    NAME(FILE) NAME(NO_SUCH_FILE) NAME(FILE_EXISTS) NAME(ACCESS) NAME(AMODE) NAME(BAD_FILE) NAME(IO) NAME(NO_SPACE) \
    NAME(READ_ONLY) NAME(UNSUPPORTED_OPERATION) NAME(UNSUPPORTED_DATAREP)

const char *status_name(int code)
{
    int class = MPI_ERR_UNKNOWN;
    if (code == MPI_SUCCESS)
        return "ok";
    real.Error_class(code, (word) &class);
#define NAME_OF(name)                                                                                              \
    if (class == MPI_ERR_##name)                                                                                   \
        return "error:MPI_ERR_" #name;
    CLASSES(NAME_OF)
    return "error:MPI_ERR_UNKNOWN";
}
