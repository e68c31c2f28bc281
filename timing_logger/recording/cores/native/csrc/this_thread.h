/* The Caller that a recorder has for the calling thread, remembered by the thread itself.
 *
 * The pointer is borrowed: the recorder keeps its callers for as long as it lives, and its number is never
 * given to another one.
 */
#ifndef TIMING_LOGGER_THIS_THREAD_H
#define TIMING_LOGGER_THIS_THREAD_H

#include <Python.h>
#include <stdint.h>

static _Thread_local struct {
    uint64_t recorder;
    PyObject *caller;
} last_used;

static inline PyObject *caller_of_this_thread(uint64_t recorder)
{
    return last_used.recorder == recorder ? last_used.caller : NULL;
}

static inline void remember_caller(uint64_t recorder, PyObject *caller)
{
    last_used.recorder = recorder;
    last_used.caller = caller;
}

#endif
