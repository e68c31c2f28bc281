/* Threads put records into rings that are shut, or moved to another file, meanwhile: what became of each is counted.
 *
 * shut FOLDER ROUNDS: prints how many rings took a record after they were shut, how many records were neither put nor
 * dropped, and how many were not in the slot that they were put into: at the end, or before it in a ring that said of
 * itself that it had settled. A machine that keeps a thread from its core for long has rings that do not say so. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ring.h"

enum { THREADS = 4, CAPACITY = 1 << 16, AFTERWARDS = 50 };

static Ring ring;
static int is_shut;

static void *produce(void *n_tried)
{
    Slot slot = {.start_ns = 1, .end_ns = 2, .has = HAS_END};
    for (int left = AFTERWARDS; left > 0; left -= __atomic_load_n(&is_shut, __ATOMIC_ACQUIRE)) {
        ring_put(&ring, &slot);
        ++*(uint64_t *)n_tried;
    }
    return NULL;
}

static void renew(const char *folder, int round)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", folder, round);
    if (ring_renew(&ring, path) == 0)
        remove(path);
}

static uint64_t n_lost(void)
{
    uint64_t lost = 0;
    for (uint64_t position = 0; position < ring_head(&ring); position++)
        lost += ring_slot(&ring, position)->ticket != position + 1;
    return lost;
}

int main(int argc, char **argv)
{
    uint64_t late = 0, uncounted = 0, lost = 0;
    if (argc != 3)
        return 2;
    for (int round = 0; round < atoi(argv[2]); round++) {
        pthread_t threads[THREADS];
        uint64_t tried[THREADS] = {0}, n_tried = 0;
        const struct timespec moment = {0, rand() % 100000};
        if (ring_open(&ring, NULL, CAPACITY))
            return 3;
        is_shut = 0;
        for (int i = 0; i < THREADS; i++)
            pthread_create(&threads[i], NULL, produce, &tried[i]);
        nanosleep(&moment, NULL);
        if (round % 10 == 0) /* it takes long: the ring is full then */
            renew(argv[1], round);
        ring_shut(&ring);
        uint64_t head = ring_head(&ring);
        if (ring_settle(&ring))
            lost += n_lost();
        __atomic_store_n(&is_shut, 1, __ATOMIC_RELEASE);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            n_tried += tried[i];
        }
        late += ring_head(&ring) != head;
        uncounted += n_tried != ring_head(&ring) + ring.n_overflows;
        lost += n_lost();
        ring_close(&ring);
    }
    printf("%" PRIu64 " late, %" PRIu64 " uncounted, %" PRIu64 " lost\n", late, uncounted, lost);
    return 0;
}
