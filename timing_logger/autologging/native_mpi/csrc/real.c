/* Finds the functions of the MPI that the program uses, by the entry points that the standard has for profilers. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "native.h"

struct real real;
#ifdef OPEN_MPI
struct constants constants;
#endif

static void *fortran_in_place;

/* The library that the caller was linked with. A program's own libraries are found behind this one in the order
   of search; those of a module that Python loaded are found through that module alone. */
static void *library_of(const void *caller)
{
    Dl_info about;
    if (dlsym(RTLD_NEXT, "PMPI_Init") != NULL || caller == NULL || !dladdr(caller, &about))
        return RTLD_NEXT;
    void *found = dlopen(about.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    return found == NULL ? RTLD_NEXT : found;
}

void note_problem(const char *reason)
{
    const char *folder = getenv("TIMING_LOGGER_NATIVE_MPI");
    char path[4096];
    if (folder == NULL || snprintf(path, sizeof path, "%s/autolog-problem-%d.txt", folder, getpid()) >= (int) sizeof path)
        return;
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return;
    fprintf(file, "%s\n", reason);
    fclose(file);
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

void find_real(const void *caller)
{
    void *library = library_of(caller);
#define FIND(name, symbol) *(void **) &real.name = dlsym(library, symbol);
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
    fortran_in_place = dlsym(data, "mpi_fortran_in_place_");
#else
    void **pointer = dlsym(library, "MPIR_F_MPI_IN_PLACE");
    fortran_in_place = pointer == NULL ? NULL : *pointer;
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

bool is_fortran_in_place(word buffer)
{
#ifndef OPEN_MPI /* its address is known once Fortran has initialised MPI */
    void **pointer = dlsym(RTLD_DEFAULT, "MPIR_F_MPI_IN_PLACE");
    if (fortran_in_place == NULL && pointer != NULL)
        fortran_in_place = *pointer;
#endif
    return buffer != 0 && (void *) buffer == fortran_in_place;
}

/* The standard's own names for the addresses that Fortran passes for no status. */
static bool is_at(word status, const char *symbol)
{
    MPI_Fint **ignored = dlsym(RTLD_DEFAULT, symbol);
    return ignored != NULL && (word) *ignored == status;
}

bool is_fortran_ignored(word status)
{
    return is_at(status, "MPI_F_STATUS_IGNORE") || is_at(status, "MPI_F_STATUSES_IGNORE");
}
