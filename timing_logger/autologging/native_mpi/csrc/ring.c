/* Rows on their way to the writer: a bounded queue of many producers and one consumer (Dmitry Vyukov's). A full
   queue costs the row, which is counted, and never the program's time. */
#include "event.h"
#include "native.h"

#define SLOTS (1 << 16)

static struct slot {
    atomic_ulong turn; /* the ticket that may use the slot, less its number: zero at first */
    struct row row;
} slots[SLOTS];
static atomic_ulong tickets;
static unsigned long taken;
static atomic_int calls; /* for the writer */
atomic_long accepted, dropped;

static bool queue(const struct row *row)
{
    unsigned long ticket = atomic_load_explicit(&tickets, memory_order_relaxed);
    struct slot *slot;
    for (;;) {
        slot = &slots[ticket % SLOTS];
        long ahead = (long) (atomic_load_explicit(&slot->turn, memory_order_acquire) + ticket % SLOTS - ticket);
        if (ahead < 0)
            return false; /* the writer has not taken what was put here a round ago */
        if (ahead > 0)
            ticket = atomic_load_explicit(&tickets, memory_order_relaxed);
        else if (atomic_compare_exchange_weak_explicit(&tickets, &ticket, ticket + 1, memory_order_relaxed,
                                                       memory_order_relaxed))
            break;
    }
    slot->row = *row;
    atomic_store_explicit(&slot->turn, ticket - ticket % SLOTS + 1, memory_order_release);
    if (ticket % (SLOTS / 4) == 0)
        wake_writer();
    return true;
}

void put(const struct row *row)
{
    accepted++;
    if (!queue(row))
        dropped++;
}

void put_last(struct group *group)
{
    queue(&(struct row){.group = group}); /* a full queue: it is never freed */
}

bool take(struct row *row)
{
    struct slot *slot = &slots[taken % SLOTS];
    unsigned long round = taken - taken % SLOTS;
    if (atomic_load_explicit(&slot->turn, memory_order_acquire) != round + 1)
        return false;
    *row = slot->row;
    atomic_store_explicit(&slot->turn, round + SLOTS, memory_order_release);
    taken++;
    return true;
}

void wait_for_rows(int64_t timeout_ns)
{
    static int heard;
    if (calls == heard)
        wait_for_change(&calls, heard, timeout_ns);
    heard = calls; /* several calls for the writer are one */
}

void wake_writer(void) { tell_change(&calls); }
