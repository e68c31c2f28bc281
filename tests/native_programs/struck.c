/* Records from two threads until faults strike: struck NOTES RUN_MS [FAULT AFTER_MS]...
 *
 * Of the judge see tests/faults/campaign/native_mpi.py.
 *
 * NOTES is a file of 64-bit numbers, shared with the judge. The calls of each thread are numbered, and the
 * instant in ns at which each returned is noted: negative if the process had begun to end by then.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RECORDERS = 3, MOST = 1 << 20, EXIT_CODE = 7 };

static volatile int64_t *notes;
static volatile int stop, ending;
static MPI_Comm comms[RECORDERS];
static int64_t per_s = 10000;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static void record(int who, int number)
{
    MPI_Barrier(comms[who]);
    int64_t returned_ns = now_ns();
    if (number < MOST)
        notes[who * MOST + number] = ending ? -returned_ns : returned_ns;
}

static void *record_until_the_end(void *who)
{
    int64_t began_ns = now_ns();
    for (int number = 0; !stop && number < MOST; number++) {
        record((int) (long) who, number);
        while (!stop && (int64_t) number * 1000000000LL / per_s > now_ns() - began_ns)
            usleep(100);
    }
    return NULL;
}

/* -- faults ------------------------------------------------------------------------------------------------ */

static void fork_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        usleep(2000);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (status)
        fprintf(stderr, "PAIRS: a child ended with status %d\n", status);
}

static void nothing(int number) { (void) number; }

static void take_signals(void)
{
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGURG, &action, NULL);
    for (int i = 0; i < 50; i++) {
        kill(getpid(), SIGURG);
        usleep(200);
    }
}

static void *record_a_few(void *first)
{
    for (int i = 0; i < 20; i++)
        record(2, (int) (long) first + i);
    return NULL;
}

static volatile int short_calls;

static void end_threads(void)
{
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        long first = __atomic_fetch_add(&short_calls, 20, __ATOMIC_SEQ_CST);
        pthread_create(&thread, NULL, record_a_few, (void *) first);
        pthread_join(thread, NULL);
    }
}

static void fill_queue(void)
{
    for (int i = 0; i < 100000; i++)
        record(2, __atomic_fetch_add(&short_calls, 1, __ATOMIC_SEQ_CST));
}

static const char *folder(void)
{
    const char *found = getenv("TIMING_LOGGER_NATIVE_MPI");
    return found ? found : ".";
}

static void unlink_file(void)
{
    char path[4096], kept[4200];
    snprintf(path, sizeof path, "%s/timing-rank0.csv", folder());
    snprintf(kept, sizeof kept, "%s/../unlinked/%lld.csv", folder(), (long long) now_ns());
    if (link(path, kept) == 0)
        unlink(path);
}

static void remove_folder(void)
{
    char command[4200];
    unlink_file();
    snprintf(command, sizeof command, "rm -rf '%s'", folder());
    if (system(command))
        fprintf(stderr, "the folder cannot be removed\n");
}

static void open_mine(int which)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/../mine-%d", folder(), which);
    int mine = open(path, O_WRONLY | O_CREAT, 0644);
    if (write(mine, "mine\n", 5) != 5)
        fprintf(stderr, "PAIRS: my file takes nothing\n");
}

/* Opens a file of its own, which would have the number of the next file of anybody; closes what others have open on timing
 * files, as a program that closes all descriptors does, and opens others in their place. */
static void close_descriptors(void)
{
    char target[4096], name[64];
    open_mine(0);
    for (int fd = 3; fd < 4160; fd++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(name, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = 0;
        if (strstr(target, "timing-rank")) {
            close(fd);
            open_mine(fd);
        }
    }
}

static void limit_size(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = 20000;
    setrlimit(RLIMIT_FSIZE, &limit);
}

static void sub_process(void)
{
    if (system("true"))
        fprintf(stderr, "PAIRS: a child ended badly\n");
}

static void go_on(void) { sleep(10); }

static void end_by_exit(void) { ending = 1; exit(EXIT_CODE); }
static void end_by_exit_at_once(void) { ending = 1; _exit(EXIT_CODE); }
static void end_by_abort(void) { ending = 1; abort(); }
static void end_by_mpi_abort(void) { ending = 1; MPI_Abort(MPI_COMM_WORLD, EXIT_CODE); }
static void end_by_sigterm(void) { ending = 1; kill(getpid(), SIGTERM); sleep(10); }
static void end_by_sigint(void) { ending = 1; kill(getpid(), SIGINT); sleep(10); }
static void end_by_exec(void) { ending = 1; execl("/bin/sh", "sh", "-c", "exit 7", (char *) NULL); }

static const struct fault {
    const char *name;
    void (*make)(void);
} faults[] = {
    {"fork", fork_child}, {"signal handler", take_signals}, {"thread exit", end_threads},
    {"full queue", fill_queue}, {"unlinked file", unlink_file}, {"removed folder", remove_folder},
    {"closed descriptors", close_descriptors}, {"size limit", limit_size}, {"sub-process", sub_process},
    {"SIGKILL", go_on}, {"exit", end_by_exit}, {"_exit", end_by_exit_at_once}, {"abort", end_by_abort},
    {"MPI_Abort", end_by_mpi_abort}, {"SIGTERM", end_by_sigterm}, {"SIGINT", end_by_sigint}, {"exec", end_by_exec},
};

struct strike {
    const struct fault *fault;
    useconds_t after_us;
};

static void *strike(void *given)
{
    struct strike *one = given;
    usleep(one->after_us);
    one->fault->make();
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, fd = open(argv[1], O_RDWR);
    notes = mmap(NULL, sizeof *notes * RECORDERS * MOST, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (getenv("PER_S"))
        per_s = atoll(getenv("PER_S"));
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    for (int i = 0; i < RECORDERS; i++) {
        char name[16];
        MPI_Comm_dup(MPI_COMM_SELF, &comms[i]);
        snprintf(name, sizeof name, "who%d", i);
        MPI_Comm_set_name(comms[i], name);
    }
    pthread_t recording[2], striking[2];
    struct strike strikes[2];
    int n_faults = 0;
    for (long i = 0; i < 2; i++)
        pthread_create(&recording[i], NULL, record_until_the_end, (void *) i);
    for (int i = 3; i + 1 < argc && n_faults < 2; i += 2)
        for (size_t known = 0; known < sizeof faults / sizeof *faults; known++)
            if (strcmp(faults[known].name, argv[i]) == 0) {
                strikes[n_faults] = (struct strike) {&faults[known], (useconds_t) (atof(argv[i + 1]) * 1000)};
                pthread_create(&striking[n_faults], NULL, strike, &strikes[n_faults]);
                n_faults++;
            }
    usleep((useconds_t) (atof(argv[2]) * 1000));
    for (int i = 0; i < n_faults; i++)
        pthread_join(striking[i], NULL);
    stop = 1;
    for (int i = 0; i < 2; i++)
        pthread_join(recording[i], NULL);
    MPI_Finalize();
    return EXIT_CODE;
}
