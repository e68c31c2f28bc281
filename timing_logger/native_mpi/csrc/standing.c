/* Where the process stands: in which calls it is, and how far it has come in each group. */
#include <stdlib.h>

#include "native.h"
#include "run_info.h"

int64_t hang_after_ns, progressed_ns;

void begin_standing(void)
{
    const char *asked = getenv("TIMING_LOGGER_HANG_AFTER");
    hang_after_ns = (int64_t) ((asked == NULL ? HANG_AFTER_S : atof(asked)) * 1e9);
    progressed_ns = now_ns();
}

/* -- groups ------------------------------------------------------------------------------------------------------- */

struct first_open {
    const struct group *group;
    int64_t seq;
};

static void look_for_first_open(const struct call *call, void *context)
{
    struct first_open *first = context;
    if (call->group == first->group && call->is_collective && call->seq != BLANK && call->seq < first->seq)
        first->seq = call->seq;
}

struct standing_told {
    void (*tell)(const struct group *, int64_t, int64_t, void *);
    void *context;
};

static void look_at_group(const struct group *group, void *context)
{
    struct standing_told *told = context;
    struct first_open first = {group, group->collectives};
    int64_t n_issued = group->collectives;
    if (n_issued == 0)
        return;
    for_each_thread(look_for_first_open, INT64_MAX, &first);
    for_each_request(look_for_first_open, INT64_MAX, &first);
    told->tell(group, n_issued, first.seq, told->context);
}

void for_each_standing(void (*tell)(const struct group *, int64_t issued, int64_t completed, void *), void *context)
{
    struct standing_told told = {tell, context};
    for_each_group(look_at_group, &told);
}

/* -- hangs -------------------------------------------------------------------------------------------------------- */

static int64_t told_before_ns; /* open calls that began before have their row */

static void write_open(const struct call *call, void *unused)
{
    (void) unused;
    if (call->start_ns >= told_before_ns)
        write_row(call, call->operation, call->start_ns, BLANK, "inflight", call->thread);
}

void write_open_calls(int64_t before_ns)
{
    for_each_thread(write_open, before_ns, NULL);
    for_each_request(write_open, before_ns, NULL);
    told_before_ns = before_ns;
}

void look_for_hangs(void)
{
    static int64_t seen;
    int64_t now = now_ns(), taken = n_accepted();
    if (taken != seen) {
        seen = taken;
        progressed_ns = now;
    }
    note_standing(now, progressed_ns);
    write_open_calls(now - hang_after_ns);
    if (n_accepted() != taken) { /* a row that tells of a hang is no progress */
        seen = n_accepted();
        write_sidecar(RUNNING);
    }
}
