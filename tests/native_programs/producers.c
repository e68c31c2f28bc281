/* Many threads put records into one ring, and one thread writes them to a file: what became of each record is counted.
 *
 * producers RING CSV DONE CAPACITY THREADS RECORDS [for ever]
 *
 * DONE is a file of one count for each thread, of the records whose put has returned: it tells whoever kills this
 * process which of them must be found. Record i of thread t has the iteration i, the peer t, and as its operation
 * "T{t}-{i}", or that of a record shortly before. A thread that goes on for ever waits where there is no room. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "writing.h"

enum { MOST_THREADS = 256, BATCH = 4096, BUFFER_BYTES = 1 << 23, NAMES_EACH = 20 };

static Ring ring;
static Names names;
static uint64_t *done;
static int n_records, shared_name;
static bool goes_on_for_ever;

static int name_of(const char *text)
{
    Cell cell = {strdup(text), (uint32_t)strlen(text)};
    return names_add(&names, &ring, cell.text, cell.n_bytes, cell, cell);
}

static Slot record_of(int thread, int i, int name)
{
    Slot slot = {.start_ns = 1 + i, .end_ns = 2 + i, .has = HAS(ITERATION) | HAS(PEER) | HAS_END};
    slot.numbers[ITERATION] = i;
    slot.numbers[PEER] = thread;
    for (int which = 0; which < N_NAMES; which++)
        slot.names[which] = (uint16_t)shared_name;
    slot.names[OPERATION] = (uint16_t)name;
    return slot;
}

static void put(const Slot *slot)
{
    uint64_t position = ring_claim(&ring);
    for (; position == RING_FULL && goes_on_for_ever; position = ring_claim(&ring))
        sched_yield();
    if (position != RING_FULL)
        ring_fill(&ring, position, slot);
}

static void *produce(void *number)
{
    int thread = (int)(intptr_t)number, name = -1;
    char text[40];
    for (int i = 0; i < n_records || goes_on_for_ever; i++) {
        if (i % (n_records / NAMES_EACH + 1) == 0 && i < n_records) {
            snprintf(text, sizeof text, "T%d-%d", thread, i);
            name = name_of(text);
        }
        Slot slot = record_of(thread, i, name);
        Slot *entry = ring_enter(&ring, &slot, i % 2 ? 0 : RING_KEPT_OPEN);
        put(&slot);
        if (entry != NULL)
            ring_leave(&ring, entry);
        __atomic_store_n(&done[thread], i + 1, __ATOMIC_RELEASE);
    }
    return NULL;
}

static volatile bool is_over;

static void *consume(void *path)
{
    OpenFile file = {.descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, 0600)};
    struct stat about;
    char *buffer = malloc(BUFFER_BYTES);
    fstat(file.descriptor, &about);
    file.device = about.st_dev;
    file.inode = about.st_ino;
    for (;;) {
        bool was_over = __atomic_load_n(&is_over, __ATOMIC_ACQUIRE);
        uint64_t n = write_oldest(&ring, &names, &file, 1000000000, 1000000, BATCH, buffer, BUFFER_BYTES);
        ring_release(&ring);
        if (n == 0 && was_over)
            break;
        if (n == 0)
            sched_yield();
    }
    free(buffer);
    return NULL;
}

int main(int argc, char **argv)
{
    static pthread_t threads[MOST_THREADS], writer;
    int n_threads = argc > 6 ? atoi(argv[5]) : 0;
    if (n_threads < 1 || n_threads > MOST_THREADS)
        return 2;
    n_records = atoi(argv[6]);
    goes_on_for_ever = argc > 7;
    int descriptor = open(argv[3], O_RDWR | O_CREAT, 0600);
    if (ftruncate(descriptor, MOST_THREADS * sizeof *done) != 0)
        return 3;
    done = mmap(NULL, MOST_THREADS * sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (names_open(&names) || ring_open(&ring, argv[1], strtoull(argv[4], NULL, 10)))
        return 4;
    strcpy(ring.header->path, "timing-rank0.csv");
    ring.header->magic = RING_MAGIC;
    shared_name = name_of("shared");
    pthread_create(&writer, NULL, consume, argv[2]);
    for (int i = 0; i < n_threads; i++)
        pthread_create(&threads[i], NULL, produce, (void *)(intptr_t)i);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
    __atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
    pthread_join(writer, NULL);
    printf("%" PRIu64 " put, %" PRIu64 " dropped, %" PRIu64 " wait, %d open\n", ring.head, ring.n_overflows,
           ring.head - ring.taken, RING_MOST_OPEN - ring_n_free_open(&ring));
    return 0;
}
