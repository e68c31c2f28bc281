#include "ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "descriptors.h"
#include "door.h"

#ifndef MAP_POPULATE
#define MAP_POPULATE 0
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

enum {
    FIRST_STANDING = RING_HEADER_BYTES + RING_NAMES_BYTES,
    FIRST_OPEN = FIRST_STANDING + 2 * RING_MOST_STANDING * sizeof(Slot),
    FIRST_SLOT = FIRST_OPEN + RING_MOST_OPEN * sizeof(Slot)
};

#define SETTLED_WITHIN_NS 100000000LL /* how long records are waited for that threads are putting */

static size_t whole_bytes(const Ring *ring) { return ring->n_slots * sizeof *ring->whole; }

static void *own_memory(size_t n_bytes)
{
    /* Of a long queue, only what waits needs memory. */
    return mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void let_go(Ring *ring)
{
    close_own(ring->descriptor, ring->device, ring->inode);
    ring->descriptor = -1;
}

static int create(const char *path, size_t n_bytes, int *descriptor)
{
    int made = door_make_private(path);
    if (made < 0)
        return errno;
    made = moved_up(made);
    /* Room is taken now: in a file system that is full by then, a write to mapped memory would be a SIGBUS. */
    int failed = posix_fallocate(made, 0, (off_t)n_bytes);
    if (!failed && !door_lock(made))
        failed = errno;
    if (failed) {
        door_remove(path);
        close(made);
        return failed;
    }
    *descriptor = made;
    return 0;
}

static void note_file(Ring *ring, int descriptor)
{
    struct stat about;
    ring->descriptor = descriptor;
    if (descriptor >= 0 && fstat(descriptor, &about) == 0) {
        ring->device = about.st_dev;
        ring->inode = about.st_ino;
    }
}

/* Maps so many bytes, of a new file if there is a path. Returns NULL at an error, which is then in errno. */
static char *mapped(const char *path, size_t n_bytes, int *descriptor)
{
    char *memory;
    *descriptor = -1;
    if (path == NULL) {
        memory = own_memory(n_bytes);
        return memory == MAP_FAILED ? NULL : memory;
    }
    if ((errno = create(path, n_bytes, descriptor)) != 0)
        return NULL;
    memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, *descriptor, 0);
    if (memory != MAP_FAILED)
        return memory;
    int failed = errno;
    door_remove(path);
    close(*descriptor);
    errno = failed;
    return NULL;
}

static void lay_out(Ring *ring, char *memory)
{
    ring->header = (Header *)memory;
    ring->names = memory + RING_HEADER_BYTES;
    ring->standing[0] = (Slot *)(memory + FIRST_STANDING);
    ring->standing[1] = ring->standing[0] + RING_MOST_STANDING;
    ring->open = (Slot *)(memory + FIRST_OPEN);
    ring->slots = (Slot *)(memory + FIRST_SLOT);
    for (int i = 0; i < RING_OPEN_WORDS; i++)
        ring->free_open[i] = UINT64_MAX >> (i + 1 < RING_OPEN_WORDS ? 0 : 64 * RING_OPEN_WORDS - RING_MOST_OPEN);
}

static void describe(const Ring *ring)
{
    ring->header->header_bytes = RING_HEADER_BYTES;
    ring->header->names_bytes = RING_NAMES_BYTES;
    ring->header->standing_bytes = FIRST_OPEN - FIRST_STANDING;
    ring->header->open_bytes = FIRST_SLOT - FIRST_OPEN;
    ring->header->slot_bytes = sizeof(Slot);
    ring->header->layout = RECORD_LAYOUT; /* of which columns the slots are */
    ring->header->slots = ring->n_slots;
    ring->header->pid = getpid();
}

int ring_open(Ring *ring, const char *path, uint64_t capacity)
{
    int descriptor;
    uint64_t n_slots = (capacity + RING_BATCH) | 1; /* odd: the low bits of a slot's tickets differ from lap to lap */
    if (capacity > RING_MOST_SLOTS)
        return ENOMEM;
    size_t n_bytes = FIRST_SLOT + n_slots * sizeof(Slot);
    char *memory = mapped(path, n_bytes, &descriptor);
    if (memory == NULL)
        return errno;
    *ring = (Ring){.n_slots = n_slots, .capacity = capacity, .mapped_bytes = n_bytes};
    ring->whole = own_memory(whole_bytes(ring));
    if (ring->whole == MAP_FAILED) {
        munmap(memory, n_bytes);
        if (path != NULL) {
            door_remove(path);
            close(descriptor);
        }
        return ENOMEM;
    }
    lay_out(ring, memory);
    note_file(ring, descriptor);
    describe(ring);
    return 0;
}

int ring_is_at(const Ring *ring, const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && about.st_dev == ring->device && about.st_ino == ring->inode;
}

void ring_remove(const Ring *ring, const char *path)
{
    if (ring_is_at(ring, path))
        door_remove(path);
}

static int copy_to(int descriptor, const char *from, size_t n_bytes)
{
    for (size_t done = 0; done < n_bytes;) {
        ssize_t n_written = pwrite(descriptor, from + done, n_bytes - done, (off_t)done);
        if (n_written < 0 && errno != EINTR)
            return errno;
        done += n_written > 0 ? (size_t)n_written : 0;
    }
    return 0;
}

/* The position up to which all records are whole. */
static uint64_t whole_up_to(Ring *ring)
{
    uint64_t head = ring_head(ring);
    uint64_t known = __atomic_load_n(&ring->ready, __ATOMIC_ACQUIRE), ready = known;
    uint64_t place = ready % ring->n_slots;
    while (ready < head && __atomic_load_n(&ring->whole[place], __ATOMIC_ACQUIRE) == (uint32_t)(ready + 1)) {
        ready++;
        place = place + 1 < ring->n_slots ? place + 1 : 0;
    }
    while (known < ready && !__atomic_compare_exchange_n(&ring->ready, &known, ready, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    return ready;
}

void ring_shut(Ring *ring)
{
    __atomic_fetch_or(&ring->head, RING_SHUT, __ATOMIC_SEQ_CST);
}

int ring_settle(Ring *ring)
{
    const struct timespec moment = {0, 100000};
    int64_t until_ns = perf_counter_ns() + SETTLED_WITHIN_NS;
    while (whole_up_to(ring) != ring_head(ring)) {
        if (perf_counter_ns() > until_ns)
            return 0;
        nanosleep(&moment, NULL);
    }
    return 1;
}

static int renew_at_rest(Ring *ring, const char *path)
{
    int descriptor;
    int failed = create(path, ring->mapped_bytes, &descriptor);
    if (failed)
        return failed;
    failed = copy_to(descriptor, (const char *)ring->header, ring->mapped_bytes);
    if (!failed && mmap(ring->header, ring->mapped_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED | MAP_POPULATE, descriptor, 0) == MAP_FAILED)
        failed = errno;
    if (failed) {
        door_remove(path);
        close(descriptor);
        return failed;
    }
    let_go(ring);
    note_file(ring, descriptor);
    return 0;
}

int ring_renew(Ring *ring, const char *path)
{
    __atomic_fetch_or(&ring->head, RING_HELD, __ATOMIC_SEQ_CST);
    int failed = ring_settle(ring) ? renew_at_rest(ring, path) : EAGAIN;
    __atomic_fetch_and(&ring->head, ~RING_HELD, __ATOMIC_SEQ_CST);
    return failed;
}

uint64_t ring_n_ready(Ring *ring)
{
    uint64_t ready = whole_up_to(ring);
    int64_t n_ready = (int64_t)(ready - __atomic_load_n(&ring->taken, __ATOMIC_ACQUIRE));
    return n_ready > 0 ? (uint64_t)n_ready : 0; /* another thread may have taken them meanwhile */
}

void ring_release(Ring *ring)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    /* Newer records may come into released slots at any moment: not into those of the last batch, its first page aside. */
    uint64_t in_batch = RING_BATCH - page / sizeof(Slot);
    uint64_t from = ring->released;
    if (ring->taken > in_batch && from < ring->taken - in_batch)
        from = ring->taken - in_batch;
    uint64_t first = from % ring->n_slots;
    uint64_t count = ring->taken - from;
    ring->header->released = ring->released = ring->taken;
    if (ring->n_slots <= RING_MOST_KEPT || ring->descriptor >= 0)
        return;
    while (count) {
        uint64_t here = count < ring->n_slots - first ? count : ring->n_slots - first;
        uintptr_t begin = (uintptr_t)&ring->slots[first] / page * page; /* the slots before are free, too */
        uintptr_t end = (uintptr_t)&ring->slots[first + here] / page * page;
        if (begin >= (uintptr_t)ring->slots && end > begin)
            madvise((void *)begin, end - begin, MADV_DONTNEED);
        count -= here;
        first = 0;
    }
}

/* A file's memory is mapped when it is made, as its space is taken then anyway. Without a file it would be a waste to
 * take all at once: few runs ever have so many records waiting. As many slots are made ready as records have been put,
 * so that a run that records little has little memory resident; a longer burst than any before it pays for the rest. */
void ring_touch_ahead(Ring *ring)
{
    uint64_t head = ring_head(ring);
    uint64_t end = head + (head < RING_MOST_AHEAD ? head : RING_MOST_AHEAD);
    if (ring->n_slots <= RING_MOST_KEPT && end > ring->n_slots)
        end = ring->n_slots; /* from then on all are ready */
    if (ring->descriptor >= 0 || end <= ring->touched)
        return;
    uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) / sizeof(Slot);
    for (uint64_t position = head > ring->touched ? head : ring->touched; position < end; position += in_page)
        *(volatile uint64_t *)ring->slots[position % ring->n_slots].spare = 0; /* which no record uses */
    ring->touched = end;
}

int ring_abandon(Ring *ring)
{
    ring_shut(ring);
    uint64_t head = ring_head(ring);
    __atomic_store_n(&ring->ready, head, __ATOMIC_RELAXED);
    __atomic_store_n(&ring->taken, head, __ATOMIC_RELEASE);
    if (ring->header == NULL || ring->descriptor < 0)
        return 0;
    let_go(ring);
    void *same = mmap(ring->header, ring->mapped_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return same == MAP_FAILED ? errno : 0;
}

void ring_move(Ring *to, const Ring *from)
{
    Ring *next_followed = to->next_followed;
    ring_close(to);
    *to = *from;
    to->next_followed = next_followed;
}

void ring_close(Ring *ring)
{
    if (ring->header == NULL)
        return;
    munmap(ring->header, ring->mapped_bytes);
    munmap(ring->whole, whole_bytes(ring));
    let_go(ring);
    ring->header = NULL;
}

void ring_note_standing(Ring *ring, const Slot *entries, uint64_t n_entries, int64_t now_ns, int64_t progressed_ns)
{
    uint64_t which = 1 - ring->valid_standing % 2;
    for (uint64_t i = 0; i < n_entries; i++) {
        Slot *slot = &ring->standing[which][i];
        slot->checksum = ring_copy(slot, &entries[i]) + i + 1;
        slot->ticket = i + 1;
    }
    ring->header->looked_ns = now_ns;
    ring->header->progressed_ns = progressed_ns;
    ring->valid_standing = 2 * n_entries + which;
    __atomic_store_n(&ring->header->standing, ring->valid_standing, __ATOMIC_RELEASE);
}
