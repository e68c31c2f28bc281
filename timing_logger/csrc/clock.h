/* The clock of time.perf_counter_ns, without a call to Python. */
#ifndef TIMING_LOGGER_CLOCK_H
#define TIMING_LOGGER_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t perf_counter_ns(void)
{
#ifdef __APPLE__
    return (int64_t)clock_gettime_nsec_np(CLOCK_UPTIME_RAW);
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
#endif
}

#endif
