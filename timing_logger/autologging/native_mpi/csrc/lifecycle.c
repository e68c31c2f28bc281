/* Begins with MPI, ends with it, and writes in between: in a thread of its own, which takes no signals. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "waits.h"

#define INTERVAL_NS 250000000
#define SIDECAR_EVERY_NS INT64_C(10000000000)

static pthread_t writer;
static atomic_bool ending;
static bool has_writer;

static void *write_on(void *unused)
{
    int64_t told_ns = now_ns();
    bool has_rows = false;
    (void) unused;
    while (!ending) {
        wait_for_rows(INTERVAL_NS);
        write_rows();
        look_for_hangs();
        if (now_ns() - told_ns > SIDECAR_EVERY_NS || (!has_rows && written > 0)) {
            has_rows = written > 0;
            write_sidecar(false);
            told_ns = now_ns();
        }
    }
    return NULL;
}

/* A child has neither the thread nor a file of its own, and no MPI. */
static void stop_in_child(void)
{
    recording = false;
    has_writer = false;
    close_file();
}

static bool start_writer(void)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread inherits it: signals stay the program's */
    has_writer = pthread_create(&writer, NULL, write_on, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return has_writer;
}

/* Whether MPI itself started this process: its rank is one of another world, and names the file of this one's. */
static bool is_spawned(void)
{
    MPI_Comm parent = NO_COMM;
    return real.Comm_get_parent((word) &parent) == MPI_SUCCESS && parent != NO_COMM;
}

static void begin(void)
{
    const char *folder = getenv("TIMING_LOGGER_NATIVE_MPI");
    int rank, size;
    if (recording || folder == NULL || real.unfit || is_spawned())
        return;
    real.Comm_rank((word) WORLD, (word) &rank);
    real.Comm_size((word) WORLD, (word) &size);
    begin_groups();
    if (!create_file(folder, rank) || !start_writer()) {
        note_problem("No timing file could be made in the log folder, or no thread that writes it.");
        return;
    }
    begin_sidecar(folder, rank, size);
    pthread_atfork(NULL, NULL, stop_in_child);
    recording = true;
    group_of(WORLD);
}

static void end(bool closed)
{
    if (!has_writer)
        return;
    recording = false;
    lose_requests();
    ending = true;
    wake_writer();
    pthread_join(writer, NULL);
    has_writer = false;
    write_rows();
    dropped = accepted - written; /* what cannot be written now never is */
    write_sidecar(closed);
    close_file();
}

/* A program that ends without MPI_Finalize. */
__attribute__((destructor)) static void end_with_the_process(void) { end(true); }

EXPORTED int wrapped_Init(word argc, word argv) __asm__("MPI_Init");
int wrapped_Init(word argc, word argv)
{
    find_real(CALLER);
    int code = real.Init(argc, argv);
    if (code == MPI_SUCCESS)
        begin();
    return code;
}

EXPORTED int wrapped_Init_thread(word argc, word argv, word required, word provided) __asm__("MPI_Init_thread");
int wrapped_Init_thread(word argc, word argv, word required, word provided)
{
    find_real(CALLER);
    int code = real.Init_thread(argc, argv, required, provided);
    if (code == MPI_SUCCESS)
        begin();
    return code;
}

EXPORTED int wrapped_Finalize(void) __asm__("MPI_Finalize");
int wrapped_Finalize(void)
{
    if (!real.found)
        find_real(CALLER);
    end(true);
    return real.Finalize();
}

EXPORTED int wrapped_Abort(word comm, word code) __asm__("MPI_Abort");
int wrapped_Abort(word comm, word code)
{
    if (!real.found)
        find_real(CALLER);
    end(false);
    return real.Abort(comm, code);
}

EXPORTED int wrapped_Comm_set_name(word comm, word name) __asm__("MPI_Comm_set_name");
int wrapped_Comm_set_name(word comm, word name)
{
    if (passes(CALLER))
        return real.Comm_set_name(comm, name);
    int code = real.Comm_set_name(comm, name);
    if (code == MPI_SUCCESS)
        rename_group((MPI_Comm) comm);
    return code;
}

/* The standard's switch for profilers: 0 pauses the rows, whose numbers go on; anything else resumes them. */
EXPORTED int wrapped_Pcontrol(int level, ...) __asm__("MPI_Pcontrol");
int wrapped_Pcontrol(int level, ...)
{
    paused = level == 0;
    return MPI_SUCCESS;
}

/* Fortran's ways in, where the error code may be absent. Where MPI's own calls the C binding, that has begun the
   timing already. */
#define IN_FORTRAN(suffix, symbol)                                                                                 \
    EXPORTED void wrapped_Init##suffix(word ierror) __asm__("mpi_init" symbol);                                    \
    void wrapped_Init##suffix(word ierror)                                                                         \
    {                                                                                                              \
        MPI_Fint unasked, *code = ierror == 0 ? &unasked : (MPI_Fint *) ierror;                                    \
        find_real(CALLER);                                                                                         \
        real.Init##suffix((word) code);                                                                            \
        if (*code == MPI_SUCCESS)                                                                                  \
            begin();                                                                                               \
    }                                                                                                              \
    EXPORTED void wrapped_Init_thread##suffix(word required, word provided, word ierror)                           \
        __asm__("mpi_init_thread" symbol);                                                                         \
    void wrapped_Init_thread##suffix(word required, word provided, word ierror)                                    \
    {                                                                                                              \
        MPI_Fint unasked, *code = ierror == 0 ? &unasked : (MPI_Fint *) ierror;                                    \
        find_real(CALLER);                                                                                         \
        real.Init_thread##suffix(required, provided, (word) code);                                                 \
        if (*code == MPI_SUCCESS)                                                                                  \
            begin();                                                                                               \
    }                                                                                                              \
    EXPORTED void wrapped_Finalize##suffix(word ierror) __asm__("mpi_finalize" symbol);                            \
    void wrapped_Finalize##suffix(word ierror)                                                                     \
    {                                                                                                              \
        end(true);                                                                                                 \
        real.Finalize##suffix(ierror);                                                                             \
    }

IN_FORTRAN(_f, "_")
IN_FORTRAN(_f08, "_f08_")
