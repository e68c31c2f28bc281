/* What a program in C does with MPI: two ranks or more; the argument says what. */
#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static void collectives(void)
{
    int sent[4] = {0}, got[64];
    MPI_Request request;
    MPI_Allreduce(sent, got, 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allgather(sent, 2, MPI_INT, got, 2, MPI_INT, MPI_COMM_WORLD);
    MPI_Bcast(got, 3, MPI_INT, 1, MPI_COMM_WORLD);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (request != MPI_REQUEST_NULL)
        exit(3);
}

static void messages(void)
{
    char sent[5] = "four", got[5];
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(got, 5, MPI_CHAR, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, 5, MPI_CHAR, to, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Irecv(got, 5, MPI_CHAR, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(sent, 5, MPI_CHAR, to, 1, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    if (statuses[0].MPI_SOURCE != from || strcmp(got, "four") != 0)
        exit(3);
}

static pthread_barrier_t all_called;

static void *send_and_receive(void *tag)
{
    int got, i, to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (i = 0; i < 100; i++) {
        if (i == 1)
            pthread_barrier_wait(&all_called);
        MPI_Sendrecv(&i, 1, MPI_INT, to, (int) (long) tag, &got, 1, MPI_INT, from, (int) (long) tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t running[4];
    pthread_barrier_init(&all_called, NULL, 4);
    for (long i = 0; i < 4; i++)
        pthread_create(&running[i], NULL, send_and_receive, (void *) i);
    for (int i = 0; i < 4; i++)
        pthread_join(running[i], NULL);
}

static void flood(void)
{
    for (int i = 0; i < 100000; i++)
        MPI_Barrier(MPI_COMM_SELF);
}

static void duplicates(void)
{
    MPI_Comm copy;
    for (int i = 0; i < 3; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &copy);
        MPI_Barrier(copy);
        MPI_Comm_free(&copy);
    }
}

static void paused(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(0);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(1);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void failing(void)
{
    int value = 0;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Send(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD) == MPI_SUCCESS)
        exit(3);
}

static void forking(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (fork() == 0)
        exit(0);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void hanging(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1)
        sleep(300);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void late(void)
{
    int mine = 1, all;
    collectives();
    for (int i = 0; i < 16; i++) {
        usleep(rank == size - 1 ? 75000 : 15000);
        MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
}

static void lost(void)
{
    static int got;
    MPI_Request request;
    MPI_Irecv(&got, 1, MPI_INT, rank, 9, MPI_COMM_WORLD, &request);
}

int main(int argc, char **argv)
{
    int provided;
    const char *what = argc > 1 ? argv[1] : "collectives";
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    struct { const char *name; void (*does)(void); } parts[] = {
        {"collectives", collectives}, {"messages", messages}, {"threads", threads}, {"flood", flood},
        {"duplicates", duplicates}, {"paused", paused}, {"failing", failing}, {"forking", forking}, {"lost", lost},
        {"hanging", hanging}, {"late", late},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(what, parts[i].name) == 0)
            parts[i].does();
    printf("rank %d of %d\n", rank, size);
    fflush(stdout);
    if (strcmp(what, "killed") == 0) {
        MPI_Barrier(MPI_COMM_WORLD);
        sleep(1);
        raise(SIGKILL);
    }
    if (strcmp(what, "aborting") == 0 && rank == 0)
        MPI_Abort(MPI_COMM_WORLD, 5);
    if (strcmp(what, "leaving") == 0)
        exit(0);
    MPI_Finalize();
    return 0;
}
