/* What the interpreter's lock is to objects that several threads use, where Python is built to run without it.
 *
 * There each object has a lock of its own. A section holds that of one object; should its thread have to wait for
 * anything, it lets go meanwhile, as it would of the interpreter's. So nothing that runs within a section, a finalizer
 * that records neither, can wait for its own thread. Where there is a global lock a section is nothing at all.
 */
#ifndef TIMING_LOGGER_SECTIONS_H
#define TIMING_LOGGER_SECTIONS_H

#include <Python.h>
#include <stdint.h>

#ifdef Py_GIL_DISABLED

enum { HAS_GLOBAL_LOCK = 0 };

typedef PyCriticalSection Section;

static inline void section_begin(Section *section, PyObject *of) { PyCriticalSection_Begin(section, of); }
static inline void section_end(Section *section) { PyCriticalSection_End(section); }

/* Whether the calling thread has the only reference. What others did while they had one is seen then. */
static inline int is_held_once(PyObject *object)
{
    int held_once = Py_REFCNT(object) == 1;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return held_once;
}

#else

enum { HAS_GLOBAL_LOCK = 1 };

typedef struct {
    char none;
} Section;

static inline void section_begin(Section *section, PyObject *of)
{
    (void)section;
    (void)of;
}

static inline void section_end(Section *section) { (void)section; }
static inline int is_held_once(PyObject *object) { return Py_REFCNT(object) == 1; }

#endif

/* What one thread writes and others read, without a lock: they see all that it did before. */
static inline int64_t instant_at(const int64_t *place) { return __atomic_load_n(place, __ATOMIC_ACQUIRE); }
static inline void set_instant(int64_t *place, int64_t ns) { __atomic_store_n(place, ns, __ATOMIC_RELEASE); }
static inline int flag_now(const int *flag) { return __atomic_load_n(flag, __ATOMIC_RELAXED); }
static inline void set_flag(int *flag, int value) { __atomic_store_n(flag, value, __ATOMIC_RELAXED); }
static inline uint64_t word_now(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
static inline void set_word(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
static inline void count_change(uint64_t *word) { __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST); }

#endif
