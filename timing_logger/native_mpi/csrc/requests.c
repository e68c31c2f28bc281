/* Operations that go on in the background: a row when a call sees them complete, and one for having waited. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "waits.h"

#define BUCKETS 4096

struct pending {
    word key; /* the request's handle, or the message's */
    struct call call;
    bool is_message, persistent, open, any_source, cancelled;
    bool sized_by_status; /* how many bytes it receives */
    bool claimed; /* some thread is in a call that may complete it */
    struct pending *next;
};

/* Several requests may have one handle: MPI has one for all that were complete at once. The oldest comes first. */
static struct pending *buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct pending **bucket_of(word key)
{
    uint64_t hash = (uint64_t) key * UINT64_C(0x9E3779B97F4A7C15);
    return &buckets[hash >> 52];
}

static void add(struct pending *pending)
{
    keep_group(pending->call.group);
    pthread_mutex_lock(&lock);
    struct pending **at = bucket_of(pending->key);
    while (*at != NULL)
        at = &(*at)->next;
    *at = pending;
    pthread_mutex_unlock(&lock);
}

static struct pending *found(word key, bool is_message, bool claim)
{
    struct pending *pending;
    pthread_mutex_lock(&lock);
    for (pending = *bucket_of(key); pending != NULL; pending = pending->next)
        if (pending->key == key && pending->is_message == is_message && !pending->claimed)
            break;
    if (pending != NULL && claim)
        pending->claimed = true;
    pthread_mutex_unlock(&lock);
    return pending;
}

static void take_out(struct pending *pending)
{
    pthread_mutex_lock(&lock);
    for (struct pending **at = bucket_of(pending->key); *at != NULL; at = &(*at)->next)
        if (*at == pending) {
            *at = pending->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    drop_group(pending->call.group);
    free(pending);
}

static void set_free(struct pending *pending)
{
    pthread_mutex_lock(&lock);
    pending->claimed = false;
    pthread_mutex_unlock(&lock);
}

/* -- beginning -------------------------------------------------------------------------------------------------- */

/* Number the operation as it begins, and tell whom it goes to. */
static void number(struct pending *pending)
{
    struct call *call = &pending->call;
    if (call->is_collective) {
        if (call->seq == BLANK)
            call->seq = call->group->collectives++;
        return;
    }
    pending->any_source = call->from == ANYBODY;
    call->seq = next_message(call->group, call->to, call->from);
    call->peer = call->to != NOBODY || pending->any_source ? call->to : call->from;
    if (call->peer == NOBODY && !pending->any_source)
        call->bytes = BLANK;
}

static struct pending *pending_of(const struct call *call, word key)
{
    struct pending *pending = calloc(1, sizeof *pending);
    pending->key = key;
    pending->call = *call;
    pending->sized_by_status = call->only_receives && call->bytes == BLANK && call->from != NOBODY;
    return pending;
}

int issued(struct call *call, int code, MPI_Request request)
{
    int64_t end_ns = leave_silently();
    struct pending *pending = pending_of(call, (word) request);
    number(pending);
    if (code == MPI_SUCCESS) {
        pending->open = true;
        add(pending);
    } else {
        write_row(&pending->call, call->operation, call->start_ns, end_ns, status_name(code), call->thread);
        free(pending);
    }
    return code;
}

int prepared(struct call *call, int code, MPI_Request request)
{
    leave_silently();
    if (code == MPI_SUCCESS) {
        struct pending *pending = pending_of(call, (word) request);
        pending->persistent = true;
        add(pending);
    }
    return code;
}

static void started(MPI_Request request, int64_t start_ns)
{
    struct pending *pending = found((word) request, false, false);
    if (pending == NULL)
        return;
    pending->call.seq = BLANK;
    if (pending->sized_by_status)
        pending->call.bytes = BLANK; /* not those of the message before */
    number(pending);
    pending->call.start_ns = start_ns;
    pending->open = true;
}

/* -- matched probes --------------------------------------------------------------------------------------------- */

int matched(struct call *call, int code, bool is_found, word message, const MPI_Status *status)
{
    leave_probe(call, code, is_found, status);
    if (code == MPI_SUCCESS && is_found && call->peer >= 0) {
        struct pending *pending = pending_of(call, message);
        pending->is_message = true;
        pending->call.from = call->peer;
        add(pending);
    }
    return code;
}

struct call *receive_matched(const char *operation, word message_found)
{
    struct pending *pending = found(message_found, true, true);
    if (pending == NULL)
        return NULL;
    struct call *call = wait_call(&pending->call);
    call->operation = operation;
    call->from = pending->call.from;
    call->only_receives = true;
    take_out(pending);
    return call;
}

/* -- ending ----------------------------------------------------------------------------------------------------- */

static const char *learn(struct pending *pending, const MPI_Status *status)
{
    struct call *call = &pending->call;
    if (status == NULL)
        return "ok";
    if (pending->cancelled) {
        int is_cancelled = 0;
        real.Test_cancelled((word) status, (word) &is_cancelled);
        if (is_cancelled)
            return "error:Cancelled";
    }
    if (pending->sized_by_status)
        call->bytes = bytes_of(status);
    if (pending->any_source) {
        int64_t seq = next_message(call->group, NOBODY, status->MPI_SOURCE);
        if (call->peer < 0) {
            call->peer = status->MPI_SOURCE < 0 ? NOBODY : status->MPI_SOURCE;
            call->seq = seq;
        }
    }
    return "ok";
}

static void settle(struct waited *waited, int i, int64_t end_ns, const MPI_Status *status, const char *outcome)
{
    struct pending *pending = waited->pending[i];
    waited->pending[i] = NULL;
    if (pending == NULL)
        return;
    if (pending->open) {
        const struct call *call = &pending->call;
        const char *said = outcome == NULL ? learn(pending, status) : outcome;
        write_row(call, call->operation, call->start_ns, end_ns, said, call->thread);
        write_row(call, "WAIT", waited->call->start_ns, end_ns, said, waited->call->thread);
    }
    pending->open = pending->cancelled = false;
    if (pending->persistent)
        set_free(pending);
    else
        take_out(pending);
}

struct waited begin_wait(const struct binding *binding, word requests, int n, word statuses)
{
    struct waited waited = {.binding = binding, .requests = requests, .told = statuses, .n = n > 0 ? n : 0};
    const struct call *first = NULL;
    bool needs_status = false;
    /* One piece of memory, also for statuses of our own: most calls wait for a receive. */
    waited.pending = calloc(1, waited.n * sizeof(MPI_Status) + (waited.n + 1) * sizeof *waited.pending);
    for (int i = 0; i < waited.n; i++) {
        struct pending *pending = found((word) binding->request_at(requests, i), false, true);
        waited.pending[i] = pending;
        if (pending == NULL || !pending->open)
            continue;
        needs_status |= pending->any_source || pending->cancelled || pending->sized_by_status;
        first = first == NULL ? &pending->call : first;
    }
    waited.is_told = needs_status;
    if (needs_status && binding->is_ignored(statuses))
        waited.told = (word) (waited.pending + waited.n + 1);
    if (first != NULL)
        enter(waited.call = wait_call(first));
    return waited;
}

int end_wait(struct waited *waited, int code, int n_completed, word indices)
{
    const struct binding *binding = waited->binding;
    int64_t end_ns = waited->call == NULL ? 0 : leave_silently();
    for (int place = 0; place < n_completed; place++) {
        int i = indices == 0 ? place : binding->index_at(indices, place);
        if (i < 0 || i >= waited->n)
            continue;
        MPI_Status status;
        if (waited->is_told)
            status = binding->status_at(waited->told, place);
        settle(waited, i, end_ns, waited->is_told ? &status : NULL, NULL);
    }
    for (int i = 0; i < waited->n; i++) {
        if (waited->pending[i] == NULL)
            continue;
        if (code != MPI_SUCCESS && binding->request_at(waited->requests, i) == NO_REQUEST)
            settle(waited, i, end_ns, NULL, status_name(code)); /* the others may be waited for again */
        else
            set_free(waited->pending[i]);
    }
    free(waited->pending);
    return code;
}

void all_started(const struct binding *binding, word requests, int n, int64_t start_ns)
{
    for (int i = 0; i < n; i++)
        started(binding->request_at(requests, i), start_ns);
}

/* -- what languages pass ------------------------------------------------------------------------------------------ */

static MPI_Request request_in_c(word requests, int i) { return ((MPI_Request *) requests)[i]; }
static MPI_Status status_in_c(word statuses, int i) { return ((MPI_Status *) statuses)[i]; }
static int index_in_c(word indices, int i) { return ((int *) indices)[i]; }
static bool is_ignored_in_c(word statuses)
{
    return (MPI_Status *) statuses == MPI_STATUS_IGNORE || (MPI_Status *) statuses == MPI_STATUSES_IGNORE;
}
const struct binding in_c = {request_in_c, status_in_c, index_in_c, is_ignored_in_c};

MPI_Status status_f2c(word status)
{
    MPI_Status converted;
    memset(&converted, 0, sizeof converted);
    real.Status_f2c(status, (word) &converted);
    return converted;
}

static MPI_Request request_in_fortran(word requests, int i) { return request_f2c((word) ((MPI_Fint *) requests + i)); }
static MPI_Status status_in_fortran(word statuses, int i)
{
    return status_f2c((word) ((char *) statuses + i * sizeof(MPI_Status))); /* of the same length in both */
}
static int index_in_fortran(word indices, int i) { return ((MPI_Fint *) indices)[i] - 1; }
const struct binding in_fortran = {request_in_fortran, status_in_fortran, index_in_fortran, is_fortran_ignored};

/* -- giving up -------------------------------------------------------------------------------------------------- */

static void lose(struct pending *pending)
{
    if (pending->open)
        write_row(&pending->call, pending->call.operation, pending->call.start_ns, BLANK, "unresolved",
                  pending->call.thread);
    pending->open = false;
}

void forget(MPI_Request request)
{
    struct pending *pending = found((word) request, false, true);
    if (pending == NULL)
        return;
    lose(pending);
    take_out(pending);
}

void cancelled(MPI_Request request)
{
    struct pending *pending = found((word) request, false, false);
    if (pending != NULL)
        pending->cancelled = true;
}

void lose_requests(void)
{
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_sec += 1;
    if (pthread_mutex_timedlock(&lock, &soon) != 0) /* a signal handler ends the process, whose thread has the lock */
        return;
    for (int i = 0; i < BUCKETS; i++)
        for (struct pending *pending = buckets[i]; pending != NULL; pending = pending->next)
            lose(pending);
    pthread_mutex_unlock(&lock);
}

void for_each_request(void (*tell)(const struct call *, void *), int64_t before_ns, void *context)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < BUCKETS; i++)
        for (struct pending *pending = buckets[i]; pending != NULL; pending = pending->next)
            if (pending->open && pending->call.start_ns < before_ns)
                tell(&pending->call, context);
    pthread_mutex_unlock(&lock);
}
