/* Finds the functions of the MPI that the program uses, by the entry points that the standard has for profilers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "door.h"
#include "native.h"
#include "run_info.h"

struct real real;
#ifdef OPEN_MPI
struct constants constants;
#endif

/* The library that the caller was linked with. A program's own libraries are found behind this one in the order
   of search; those of a module that Python loaded are found through that module alone. */
void *library_of(const void *caller, const char *function)
{
    Dl_info about;
    if (dlsym(RTLD_NEXT, function) != NULL || caller == NULL || !dladdr(caller, &about))
        return RTLD_NEXT;
    void *found = dlopen(about.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return found == NULL ? RTLD_NEXT : found;
}

static char path[4096];
static const char *problem;

/* Where files must not grow, writing is a signal that would end the program: a thread of it does not take it now. */
static void write_problem(void)
{
    sigset_t too_large, before, pending;
    sigemptyset(&too_large);
    sigaddset(&too_large, SIGXFSZ);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &too_large, &before);
    int descriptor = door_write_again(path);
    if (descriptor >= 0) {
        dprintf(descriptor, "%s\n", problem);
        close(descriptor);
    }
    if (!sigismember(&pending, SIGXFSZ))
        sigtimedwait(&too_large, NULL, &(struct timespec){0, 0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void note_problem(const char *reason)
{
    const char *folder = getenv("TIMING_LOGGER_NATIVE_MPI"), *run = getenv("TIMING_LOGGER_RUN_ID");
    pthread_t apart;
    int most = sizeof path;
    if (folder == NULL ||
        snprintf(path, most, "%s/autolog-problem-%s-%d.txt", folder, run == NULL ? "" : run, getpid()) >= most)
        return;
    problem = reason;
    if (start_thread(&apart, write_problem))
        pthread_join(apart, NULL);
    else
        write_problem();
}

static bool is_built_for(void *library)
{
    bool is_open_mpi = dlsym(library, "ompi_mpi_comm_world") != NULL;
#ifdef OPEN_MPI
    return is_open_mpi;
#else
    return !is_open_mpi;
#endif
}

/* The entry for profilers, as in PMPI_Init; MPICH's module for Fortran has MPI_Init alone. */
static void *own_entry(void *library, const char *symbol)
{
    void *found = dlsym(library, symbol);
    return found != NULL ? found : dlsym(library, symbol + 1);
}

void find_real(const void *caller)
{
    void *library = library_of(caller, "PMPI_Init");
#define FIND(name, symbol) *(void **) &real.name = own_entry(library, symbol);
    REAL_FUNCTIONS(FIND)
    if (!is_built_for(library)) {
        note_problem("The program does not use the MPI that --native-mpi was built for, so it is not timed. "
                     "Set MPICC to the mpicc of the program's MPI.");
        real.unfit = true;
    }
#ifdef OPEN_MPI
    /* A program that was linked with MPI has a copy of its data, which takes the place of the library's. */
    void *data = library == RTLD_NEXT ? RTLD_DEFAULT : library;
    constants.world = dlsym(data, "ompi_mpi_comm_world");
    constants.comm_null = dlsym(data, "ompi_mpi_comm_null");
    constants.request_null = dlsym(data, "ompi_request_null");
    constants.byte = dlsym(data, "ompi_mpi_byte");
    constants.win_null = dlsym(data, "ompi_mpi_win_null");
    constants.file_null = dlsym(data, "ompi_mpi_file_null");
#endif
    real.found = true;
}

/* -- handles of Fortran, which are integers ------------------------------------------------------------------- */

/* MPICH has macros for these, Open MPI functions. */
#ifdef MPI_Comm_f2c
MPI_Comm comm_f2c(word comm) { return MPI_Comm_f2c(*(MPI_Fint *) comm); }
MPI_Datatype type_f2c(word datatype) { return MPI_Type_f2c(*(MPI_Fint *) datatype); }
MPI_Request request_f2c(word request) { return MPI_Request_f2c(*(MPI_Fint *) request); }
#else
MPI_Comm comm_f2c(word comm) { return (MPI_Comm) real.Comm_f2c(*(MPI_Fint *) comm); }
MPI_Datatype type_f2c(word datatype) { return (MPI_Datatype) real.Type_f2c(*(MPI_Fint *) datatype); }
MPI_Request request_f2c(word request) { return (MPI_Request) real.Request_f2c(*(MPI_Fint *) request); }
#endif

#ifdef MPI_Win_f2c
MPI_Win win_f2c(word win) { return MPI_Win_f2c(*(MPI_Fint *) win); }
#else
MPI_Win win_f2c(word win) { return (MPI_Win) real.Win_f2c(*(MPI_Fint *) win); }
#endif
MPI_File file_f2c(word file) { return (MPI_File) real.File_f2c(*(MPI_Fint *) file); } /* a pointer in both */

/* The addresses that Fortran passes in the place of a buffer or a status. Open MPI has objects at them, MPICH
   pointers to them, as the standard has for statuses; the modules of MPICH have objects, too. */
static struct {
    bool known;
    void *in_place[3], *ignored[4];
} fortran;

static void *pointed_to(const char *symbol)
{
    void **pointer = dlsym(RTLD_DEFAULT, symbol);
    return pointer == NULL ? NULL : *pointer;
}

static void find_fortran(void)
{
    fortran.in_place[0] = dlsym(RTLD_DEFAULT, "mpi_fortran_in_place_");
    fortran.in_place[1] = pointed_to("MPIR_F_MPI_IN_PLACE");
    fortran.in_place[2] = dlsym(RTLD_DEFAULT, "MPIR_F08_MPI_IN_PLACE");
    fortran.ignored[0] = pointed_to("MPI_F_STATUS_IGNORE");
    fortran.ignored[1] = pointed_to("MPI_F_STATUSES_IGNORE");
    fortran.ignored[2] = dlsym(RTLD_DEFAULT, "MPIR_F08_MPI_STATUS_IGNORE_OBJ");
    fortran.ignored[3] = dlsym(RTLD_DEFAULT, "MPIR_F08_MPI_STATUSES_IGNORE_OBJ");
    fortran.known = true; /* MPI is initialised by now, and has set the pointers */
}

static bool is_among(word given, void *const *addresses, int n)
{
    if (!fortran.known)
        find_fortran();
    for (int i = 0; i < n; i++)
        if (given != 0 && (void *) given == addresses[i])
            return true;
    return false;
}

bool is_fortran_in_place(word buffer) { return is_among(buffer, fortran.in_place, 3); }

bool is_fortran_ignored(word status) { return is_among(status, fortran.ignored, 4); }
