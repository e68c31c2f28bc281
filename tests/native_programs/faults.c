/* What a program in C may do to our files, and how it may end; the argument says what. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char file[4096], second[4096], folder[4096];

static void rows(int n)
{
    for (int i = 0; i < n; i++)
        MPI_Barrier(MPI_COMM_SELF);
}

/* -1 without a header. */
static int rows_in(const char *path)
{
    char block[65536];
    int found = -1;
    size_t got;
    FILE *opened = fopen(path, "r");
    if (opened == NULL)
        return found;
    while ((got = fread(block, 1, sizeof block, opened)) > 0)
        for (size_t i = 0; i < got; i++)
            found += block[i] == '\n';
    fclose(opened);
    return found;
}

static void are_written(const char *path, int n)
{
    while (rows_in(path) < n)
        usleep(1000);
}

static void second_half(void)
{
    rows(500);
    are_written(second, 500);
}

/* In the same file or in a further one. */
static void second_half_anywhere(void)
{
    rows(500);
    while (rows_in(file) < 1000 && rows_in(second) < 500)
        usleep(1000);
}

static void closing(int takes_all_numbers)
{
    char path[4200];
    rows(500);
    are_written(file, 500);
    for (int i = 3; i < 4096; i++)
        close(i);
    snprintf(path, sizeof path, "%s/own.txt", folder);
    int own = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
    for (int i = own + 1; takes_all_numbers && i < 4096; i++)
        dup2(own, i);
    if (write(own, "mine\n", 5) != 5)
        _exit(3);
    second_half_anywhere();
    _exit(0); /* MPI's own descriptors are closed, too */
}

static void closes(void) { closing(0); }

static void closes_and_takes_all_numbers(void) { closing(1); }

/* Closes all descriptors, opens a file of its own, and gives that so many of the high numbers that ours may have; again
   and again. What comes next is above those, and the next turn has it. */
static volatile int closer_is_done;

static void *closes_again_and_again(void *unused)
{
    char path[4200];
    (void) unused;
    for (int turn = 0; turn < 1000; turn++) {
        syscall(SYS_close_range, 3, ~0U, 0);
        snprintf(path, sizeof path, "%s/own-%d.txt", folder, turn);
        int own = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);
        for (int i = 4032; i < 4032 + 8 * (1 + turn % 8); i++)
            dup2(own, i);
        if (write(own, "mine\n", 5) != 5)
            _exit(3);
        usleep(turn % 10 * 50);
    }
    closer_is_done = 1;
    return NULL;
}

/* Meanwhile, rows and sidecars are written all the time: a quarter of a full ring wakes the writer, and each receive
   that stays open is told of. */
static void calls_while_a_thread_closes(void)
{
    static int values[10000];
    pthread_t closer;
    pthread_create(&closer, NULL, closes_again_and_again, NULL);
    for (int i = 0; !closer_is_done && i < 10000; i++) {
        MPI_Request request;
        MPI_Irecv(&values[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &request);
        rows(1 << 14);
    }
    pthread_join(closer, NULL);
    _exit(0);
}

/* What ends with the last descriptor: a pipe, and a lock. The other ends stay with this thread. */
static void lets_go_of_its_files(void)
{
    char byte, path[4200];
    int ends[2], made, waited = 0;
    snprintf(path, sizeof path, "%s/locked.txt", folder);
    int locked = open(path, O_WRONLY | O_CREAT, 0644), other = open(path, O_WRONLY);
    (void) !pipe(ends);
    flock(locked, LOCK_EX);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &made);
    rows(5);
    close(locked);
    close(ends[1]);
    while (flock(other, LOCK_EX | LOCK_NB) != 0)
        if (++waited > 1000)
            _exit(4);
        else
            usleep(1000);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    _exit(read(ends[0], &byte, 1) == 0 ? 0 : 5);
}

static void unlinks(void)
{
    rows(500);
    are_written(file, 500);
    unlink(file);
    second_half();
}

static void unlinks_at_the_end(void)
{
    rows(500);
    are_written(file, 500);
    unlink(file);
}

static void moves(void)
{
    char moved[4200];
    rows(500);
    are_written(file, 500);
    snprintf(moved, sizeof moved, "%s/moved.txt", folder);
    rename(file, moved);
    second_half();
}

static void replaces(void)
{
    unlinks_at_the_end();
    close(open(file, O_WRONLY | O_CREAT, 0644));
    second_half();
}

static void cuts(void)
{
    rows(500);
    are_written(file, 500);
    if (truncate(file, 20000) != 0)
        exit(3);
    second_half();
}

static void removes_the_folder(void)
{
    char command[5000];
    rows(500);
    are_written(file, 500);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    if (system(command) != 0)
        exit(3);
    second_half();
}

static void floods(void) { rows(20000); }

/* After MPI_Init, which makes larger files itself. */
static void limits_the_size_of_files(void)
{
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 16, 1 << 16});
    rows(20000);
}

static void kill_by_handler(int number)
{
    (void) number;
    raise(SIGKILL);
}

static void is_killed_in_a_call(void)
{
    rows(1000);
    alarm(1);
    signal(SIGALRM, kill_by_handler);
    int value;
    MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

static void is_killed_while_nothing_can_be_written(void)
{
    limits_the_size_of_files();
    is_killed_in_a_call();
}

static void makes_20000_communicators(void)
{
    for (int i = 0; i < 20000; i++) {
        MPI_Comm made;
        MPI_Comm_dup(MPI_COMM_SELF, &made);
        MPI_Barrier(made);
        MPI_Comm_free(&made);
    }
}

/* More rows at once than are written in one go, each with a name for which the ring has no number. */
static void has_rows_with_a_name_too_many(void)
{
    makes_20000_communicators();
    MPI_Comm made;
    MPI_Comm_dup(MPI_COMM_SELF, &made);
    are_written(file, 40001);
    for (int i = 0; i < 60000; i++)
        MPI_Barrier(made);
}

static void leaves(void)
{
    rows(500);
    _exit(0);
}

static void aborts(void)
{
    rows(500);
    MPI_Abort(MPI_COMM_WORLD, 5);
}

static void fails(void)
{
    int value = 0;
    rows(500);
    MPI_Send(&value, 1, MPI_INT, 77, 0, MPI_COMM_WORLD);
}

static void leave_by_handler(int number)
{
    (void) number;
    _exit(7);
}

static void leaves_in_a_handler(void)
{
    int value;
    rows(500);
    signal(SIGALRM, leave_by_handler);
    alarm(1);
    MPI_Recv(&value, 1, MPI_INT, 0, 3, MPI_COMM_SELF, MPI_STATUS_IGNORE);
}

/* A child without the hooks of fork, as of a clone in C. */
static void forks_in_c(void)
{
    int status;
    rows(500);
    pid_t child = (pid_t) syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(0);
    if (waitpid(child, &status, 0) != child || status != 0)
        exit(3);
    rows(500);
}

static volatile int stops;

static void *calls_on(void *unused)
{
    (void) unused;
    while (!stops)
        MPI_Barrier(MPI_COMM_SELF);
    return NULL;
}

static void leaves_while_threads_call(void)
{
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, calls_on, NULL);
    usleep(300000);
    exit(0);
}

static void spawns(char *program)
{
    MPI_Comm children, parent;
    MPI_Comm_get_parent(&parent);
    if (parent == MPI_COMM_NULL) {
        char *arguments[] = {"spawns", NULL};
        rows(5);
        MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
        MPI_Barrier(children);
        MPI_Comm_disconnect(&children);
    } else {
        rows(7);
        MPI_Barrier(parent);
        MPI_Comm_disconnect(&parent);
    }
}

int main(int argc, char **argv)
{
    int provided, rank;
    const char *what = argc > 1 ? argv[1] : "", *to = getenv("TIMING_LOGGER_NATIVE_MPI");
    snprintf(folder, sizeof folder, "%.3000s", to == NULL ? "." : to);
    if (strcmp(what, "lets_go_of_its_files") == 0)
        lets_go_of_its_files();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(file, sizeof file, "%.3000s/timing-rank%d.csv", folder, rank);
    snprintf(second, sizeof second, "%.3000s/timing-rank%d.part2.csv", folder, rank);
    struct { const char *name; void (*does)(void); } parts[] = {
        {"closes", closes}, {"closes_and_takes_all_numbers", closes_and_takes_all_numbers},
        {"calls_while_a_thread_closes", calls_while_a_thread_closes}, {"unlinks", unlinks},
        {"unlinks_at_the_end", unlinks_at_the_end}, {"moves", moves}, {"replaces", replaces}, {"cuts", cuts},
        {"removes_the_folder", removes_the_folder}, {"floods", floods},
        {"limits_the_size_of_files", limits_the_size_of_files}, {"leaves", leaves},
        {"is_killed_in_a_call", is_killed_in_a_call},
        {"is_killed_while_nothing_can_be_written", is_killed_while_nothing_can_be_written},
        {"makes_20000_communicators", makes_20000_communicators},
        {"has_rows_with_a_name_too_many", has_rows_with_a_name_too_many},
        {"aborts", aborts},
        {"fails", fails}, {"leaves_in_a_handler", leaves_in_a_handler}, {"forks_in_c", forks_in_c},
        {"leaves_while_threads_call", leaves_while_threads_call},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(what, parts[i].name) == 0)
            parts[i].does();
    if (strcmp(what, "spawns") == 0)
        spawns(argv[0]);
    MPI_Finalize();
    return 0;
}
