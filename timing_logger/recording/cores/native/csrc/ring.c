#include "ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "descriptors.h"

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

static void let_go(Ring *ring)
{
    close_own(ring->descriptor, ring->device, ring->inode);
    ring->descriptor = -1;
}

static int create(const char *path, size_t n_bytes, int *descriptor)
{
    int made = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (made < 0)
        return errno;
    made = moved_up(made);
    /* Room is taken now: in a file system that is full by then, a write to mapped memory would be a SIGBUS. */
    int failed = posix_fallocate(made, 0, (off_t)n_bytes);
    if (!failed && flock(made, LOCK_EX | LOCK_NB) != 0)
        failed = errno;
    if (failed) {
        unlink(path);
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

int ring_open(Ring *ring, const char *path, uint64_t n_slots)
{
    if (n_slots > RING_MOST_SLOTS)
        return ENOMEM;
    size_t n_bytes = FIRST_SLOT + n_slots * sizeof(Slot);
    int descriptor = -1;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE; /* of a long queue, only what waits needs memory */
    if (path != NULL) {
        int failed = create(path, n_bytes, &descriptor);
        if (failed)
            return failed;
        flags = MAP_SHARED | MAP_POPULATE;
    }
    char *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, flags, descriptor, 0);
    if (memory == MAP_FAILED) {
        int failed = errno;
        if (path != NULL) {
            unlink(path);
            close(descriptor);
        }
        return failed;
    }
    ring->header = (Header *)memory;
    ring->names = memory + RING_HEADER_BYTES;
    ring->standing[0] = (Slot *)(memory + FIRST_STANDING);
    ring->standing[1] = ring->standing[0] + RING_MOST_STANDING;
    ring->open = (Slot *)(memory + FIRST_OPEN);
    for (ring->n_free_open = 0; ring->n_free_open < RING_MOST_OPEN; ring->n_free_open++)
        ring->free_open[ring->n_free_open] = (uint8_t)(RING_MOST_OPEN - 1 - ring->n_free_open);
    ring->slots = (Slot *)(memory + FIRST_SLOT);
    ring->n_slots = n_slots;
    ring->head = ring->taken = ring->released = ring->next = ring->n_overflows = ring->n_unreadable = 0;
    ring->touched = 0;
    ring->n_names = ring->names_used = ring->valid_standing = 0;
    ring->mapped_bytes = n_bytes;
    note_file(ring, descriptor);
    ring->header->header_bytes = RING_HEADER_BYTES;
    ring->header->names_bytes = RING_NAMES_BYTES;
    ring->header->standing_bytes = FIRST_OPEN - FIRST_STANDING;
    ring->header->open_bytes = FIRST_SLOT - FIRST_OPEN;
    ring->header->slot_bytes = sizeof(Slot);
    ring->header->layout = RECORD_LAYOUT; /* of which columns the slots are */
    ring->header->slots = n_slots;
    ring->header->pid = getpid();
    return 0;
}

int ring_is_at(const Ring *ring, const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0 && about.st_dev == ring->device && about.st_ino == ring->inode;
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

int ring_renew(Ring *ring, const char *path)
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
        unlink(path);
        close(descriptor);
        return failed;
    }
    let_go(ring);
    note_file(ring, descriptor);
    return 0;
}

void ring_release(Ring *ring)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    /* Newer records may be in released slots already: not in those from this position on, a page before it included. */
    uint64_t oldest_free = ring->head + page / sizeof(Slot) - ring->n_slots;
    uint64_t from = ring->released;
    if (ring->head + page / sizeof(Slot) > ring->n_slots && from < oldest_free)
        from = oldest_free < ring->taken ? oldest_free : ring->taken;
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
    uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
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
    ring->capacity = 0;
    ring->taken = ring->head;
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
    let_go(ring);
    ring->header = NULL;
}

int ring_add_name(Ring *ring, const char *utf8, size_t n_bytes)
{
    uint32_t length = (uint32_t)n_bytes;
    if (ring->n_names >= RING_MOST_NAMES || ring->names_used + sizeof length + n_bytes > RING_NAMES_BYTES)
        return -1;
    char *entry = ring->names + ring->names_used;
    memcpy(entry, &length, sizeof length);
    memcpy(entry + sizeof length, utf8, n_bytes);
    ring->header->names_used = ring->names_used += sizeof length + n_bytes;
    uint64_t n_names = ring->n_names + 1;
    __atomic_store_n(&ring->n_names, n_names, __ATOMIC_RELEASE); /* the flush thread reads it without the lock */
    __atomic_store_n(&ring->header->n_names, n_names, __ATOMIC_RELEASE);
    return 0;
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
