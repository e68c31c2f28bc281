/* A stand-in for libnvidia-ml.so.1: each of eight devices states the clock and the reasons that stand in the
 * file of its number, in the folder REAL_CAUSES_DEVICES; without a file it runs at its usual clock.
 */
#include <stdio.h>
#include <stdlib.h>

enum { SUCCESS = 0, N_DEVICES = 8, USUAL_MHZ = 1980 };

typedef void *device; /* its number, from 1 on */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = N_DEVICES;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device *found) {
    *found = (device)(size_t)(index + 1);
    return SUCCESS;
}

static void read_state(device of, unsigned *mhz, unsigned long long *reasons) {
    char path[4096];
    const char *folder = getenv("REAL_CAUSES_DEVICES");
    *mhz = USUAL_MHZ;
    *reasons = 0;
    snprintf(path, sizeof path, "%s/%zu", folder ? folder : ".", (size_t)of - 1);
    FILE *file = fopen(path, "r");
    if (file == NULL) return;
    if (fscanf(file, "%u %llu", mhz, reasons) < 1) *mhz = USUAL_MHZ;
    fclose(file);
}

int nvmlDeviceGetClockInfo(device of, int kind, unsigned *mhz) {
    unsigned long long reasons;
    (void)kind;
    read_state(of, mhz, &reasons);
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device of, unsigned long long *reasons) {
    unsigned mhz;
    read_state(of, &mhz, reasons);
    return SUCCESS;
}
