/* Begins with MPI, ends with it, and opens and writes all files in between: in a thread of its own. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "event.h"
#include "part.h"
#include "run_info.h"
#include "waits.h"

#define FOLDER "TIMING_LOGGER_NATIVE_MPI"
#define INTERVAL_NS 250000000
#define SIDECAR_EVERY_NS ((int64_t) (SIDECAR_REFRESH_S * 1e9))
#define STEP_NS INT64_C(50000000)
#define BEGINS_WITHIN_NS INT64_C(500000000)
#define PATIENCE_NS INT64_C(1500000000) /* for a disk; with the last, below the 2 s that P11 promises */
#define PATIENCE_AT_LAST_NS INT64_C(250000000)

static pthread_t writer;
static atomic_int of_process; /* the process that has a writer; 0 for none */
static atomic_bool is_prepared, ending, ends_closed, is_given_up;
static bool has_writer, has_files;
static const char *folder;
static int rank;
static atomic_int stage, is_due, is_over;
enum { IS_APART = 1, HAS_OPENED, HAS_TOLD }; /* how far the writer has come at the begin */
static atomic_long caught_up_ns;
atomic_long progress;

/* -- the writer --------------------------------------------------------------------------------------------------- */

/* Write all rows, and note that those from before are in files, if that was possible. */
static void catch_up(void)
{
    int64_t began_ns = now_ns();
    if (write_rows())
        caught_up_ns = began_ns;
}

double behind_s(void) { return (double) ((now_ns() - caught_up_ns) / 1000000) / 1e3; }

int64_t writer_cpu_ns(void)
{
    clockid_t clock;
    struct timespec used = {0, 0};
    if (pthread_getcpuclockid(writer, &clock) == 0)
        clock_gettime(clock, &used);
    return used.tv_sec * INT64_C(1000000000) + used.tv_nsec;
}

static void write_to_the_end(void)
{
    while (!ending) {
        static bool has_rows;
        static int64_t told_ns;
        wait_for_rows(INTERVAL_NS);
        catch_up();
        free_groups();
        look_for_hangs();
        if (now_ns() - told_ns > SIDECAR_EVERY_NS || (!has_rows && written > 0)) {
            has_rows = written > 0;
            write_sidecar(RUNNING);
            told_ns = now_ns();
        }
    }
    write_open_calls(INT64_MAX);
    catch_up();
}

static void wait_until(atomic_int *number, int least)
{
    for (int seen = *number; seen < least; seen = *number)
        wait_for_change(number, seen, INT64_MAX);
}

static bool open_files(void)
{
    char path[PART_PATH_BYTES + 80];
    if (!create_file(folder, rank))
        return false;
    open_sidecar();
    path_of_file(path, sizeof path);
    return begin_rows(path, sidecar_anchor());
}

static void write_on(void)
{
    tell_change(&stage);
    wait_until(&is_due, 1);
    has_files = open_files();
    tell_change(&stage);
    if (!has_files)
        return;
    catch_up(); /* the header */
    write_sidecar(RUNNING);
    tell_change(&stage);
    write_to_the_end();
    write_sidecar(ends_closed ? CLOSED : ENDED);
    close_file();
    if (ends_closed && written + n_dropped() == n_accepted())
        end_rows();
    tell_change(&is_over);
}

/* A child has neither the thread nor a file of its own, and no MPI. */
static void stop_in_child(void)
{
    recording = has_writer = is_prepared = false;
    of_process = stage = is_due = 0;
    close_file();
}

/* The writer leaves the program's descriptors before MPI opens devices, which need not see that then. It is asleep
   before MPI begins, which may change code of libc. */
void prepare_timing(void)
{
    if (recording || getenv(FOLDER) == NULL || real.unfit || atomic_exchange(&is_prepared, true))
        return;
    pthread_atfork(NULL, NULL, stop_in_child);
    has_writer = start_thread(&writer, write_on);
    if (has_writer)
        wait_until(&stage, IS_APART);
}

void begin_timing(void)
{
    int size;
    if (recording || (folder = getenv(FOLDER)) == NULL || real.unfit)
        return;
    real.Comm_rank((word) WORLD, (word) &rank);
    real.Comm_size((word) WORLD, (word) &size);
    begin_groups();
    begin_standing();
    begin_sidecar(folder, rank, size);
    if (has_writer) {
        tell_change(&is_due);
        wait_until(&stage, HAS_OPENED);
    }
    if (!has_files) {
        note_problem("No timing file could be made in the log folder, or there was no memory or no thread for it.");
        return;
    }
    of_process = getpid();
    wait_for_change(&stage, HAS_OPENED, BEGINS_WITHIN_NS); /* whoever looks for what is left finds the ring by the sidecar */
    recording = true;
    group_of(WORLD);
}

/* -- the end ------------------------------------------------------------------------------------------------------ */

static void tell_what_is_left(void)
{
    write_sidecar(ends_closed ? CLOSED : ENDED);
    tell_change(&is_over);
}

/* Wait until the threads that write are done; false if nothing moves for so long. */
static bool is_over_within(int64_t patience_ns)
{
    int64_t moved_ns = now_ns(), waited_ns = 0;
    for (long seen = progress; !is_over && waited_ns < patience_ns; waited_ns = now_ns() - moved_ns) {
        wait_for_change(&is_over, 0, patience_ns - waited_ns < STEP_NS ? patience_ns - waited_ns : STEP_NS);
        if (progress != seen) {
            seen = progress;
            moved_ns = now_ns();
        }
    }
    return is_over;
}

/* Have the writer write what there is. A disk that does not answer keeps it for a time: then the rest is counted as
   dropped, by a thread that may be kept as well, and the process goes on to its end. */
void end_timing(bool closed)
{
    pthread_t teller;
    if (of_process != getpid()) /* a child of a fork in C has no writer */
        return;
    recording = false;
    if (!atomic_exchange(&ending, true)) {
        ends_closed = closed;
        lose_requests();
        wake_writer();
    }
    if (is_given_up || is_over_within(PATIENCE_NS))
        return;
    is_given_up = true;
    if (start_thread(&teller, tell_what_is_left))
        is_over_within(PATIENCE_AT_LAST_NS);
}

void abort_timing(MPI_Comm comm)
{
    if (recording)
        write_abort(comm);
    end_timing(false);
}

/* The standard's switch for profilers: 0 pauses the rows, whose numbers go on; anything else resumes them. MPI's own
   does nothing. */
EXPORTED int wrapped_Pcontrol(int level, ...) __asm__("MPI_Pcontrol");
int wrapped_Pcontrol(int level, ...)
{
    paused = level == 0;
    return MPI_SUCCESS;
}

/* -- ends without MPI_Finalize ------------------------------------------------------------------------------------ */

__attribute__((destructor)) static void end_with_the_process(void) { end_timing(true); }

/* Open MPI ends a process by this, also after an error that nobody handles; then its launcher kills the others. */
EXPORTED int PMIx_Abort(int code, const char *message, void *processes, size_t n);
int PMIx_Abort(int code, const char *message, void *processes, size_t n)
{
    int (*own)(int, const char *, void *, size_t);
    fail_call("error:MPI_ERRORS_ARE_FATAL");
    end_timing(false);
    *(void **) &own = dlsym(library_of(CALLER, "PMIx_Abort"), "PMIx_Abort");
    if (own == NULL)
        _exit(code);
    return own(code, message, processes, n);
}

/* What glibc does, but for the threads of our own that are at work; for signal handlers and children, too. */
EXPORTED void _exit(int code)
{
    end_timing(true);
    for (;;)
        syscall(SYS_exit_group, code);
}

EXPORTED void _Exit(int code) { _exit(code); }

/* -- Fortran ------------------------------------------------------------------------------------------------------- */

#define IN_FORTRAN(suffix, symbol)                                                                                 \
    EXPORTED void wrapped_Pcontrol##suffix(const MPI_Fint *level) __asm__("mpi_pcontrol" symbol);                  \
    void wrapped_Pcontrol##suffix(const MPI_Fint *level) { paused = *level == 0; }

IN_FORTRAN(_f, "_")
IN_FORTRAN(_f08, "_f08_")
