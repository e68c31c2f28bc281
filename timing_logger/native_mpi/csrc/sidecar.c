/* The sidecar: a process as timing_logger/schema/sidecar.py has it, besides its rows. It is replaced as a whole. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "descriptors.h"
#include "door.h"
#include "native.h"
#include "part.h"
#include "run_info.h"

#define MOST_TOLD 100

static char log_dir[PART_PATH_BYTES], path[PART_PATH_BYTES + 80], host[256], boot[160];
static char mpi_version[MPI_MAX_LIBRARY_VERSION_STRING + 1];
static int of_rank, of_world;
static dev_t own_device; /* of the sidecar that this process wrote last */
static ino_t own_inode;
static int64_t started_unix_ns;
static struct anchor first_anchor;

struct anchor read_anchor(void)
{
    struct anchor best = {0, 0, INT64_MAX};
    for (int i = 0; i < 5; i++) {
        struct timespec unix_time;
        int64_t before = now_ns();
        clock_gettime(CLOCK_REALTIME, &unix_time);
        int64_t after = now_ns(), uncertainty = (after - before + 1) / 2;
        if (uncertainty < best.uncertainty_ns)
            best = (struct anchor){(before + after) / 2, unix_time.tv_sec * INT64_C(1000000000) + unix_time.tv_nsec,
                                   uncertainty};
    }
    return best;
}

static FILE *lines_of_system(const char *name)
{
    int descriptor = door_read_of_system(name);
    return descriptor < 0 ? NULL : fdopen(descriptor, "r");
}

/* The origin of the clock, as this_process.boot_id says it: a time namespace moves it. */
static void read_boot(void)
{
    char line[256];
    FILE *file = lines_of_system("/proc/sys/kernel/random/boot_id");
    if (file == NULL)
        return;
    if (fgets(line, 64, file) != NULL)
        snprintf(boot, sizeof boot, "%.*s", (int) strcspn(line, "\n"), line);
    fclose(file);
    file = lines_of_system("/proc/self/timens_offsets");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char clock[32], seconds[32], nanoseconds[32];
        if (sscanf(line, "%31s %31s %31s", clock, seconds, nanoseconds) == 3 && strcmp(clock, "monotonic") == 0 &&
            (strcmp(seconds, "0") != 0 || strcmp(nanoseconds, "0") != 0))
            snprintf(boot + strlen(boot), sizeof boot - strlen(boot), "+%ss%sns", seconds, nanoseconds);
    }
    if (file != NULL)
        fclose(file);
}

void sidecar_name(char *name, size_t room)
{
    snprintf(name, room, "%.*s.meta.json", (int) strlen(file_name) - 4, file_name);
}

void move_sidecar(void)
{
    char name[80];
    sidecar_name(name, sizeof name);
    snprintf(path, sizeof path, "%s/%s", log_dir, name);
    own_inode = 0;
}

bool sidecar_is_anothers(void)
{
    struct stat about;
    return lstat(path, &about) == 0 && !is_file(&about, own_device, own_inode);
}

/* Among which processes the pid is one, as this_process.pid_namespace says it; 0 if unknown. */
static unsigned long long pid_namespace(void)
{
    struct stat about;
    return stat("/proc/self/ns/pid", &about) == 0 ? about.st_ino : 0;
}

struct anchor sidecar_anchor(void) { return first_anchor; }

void begin_sidecar(const char *folder, int rank, int world_size)
{
    int length;
    snprintf(log_dir, sizeof log_dir, "%s", folder);
    read_identity();
    gethostname(host, sizeof host - 1);
    real.Get_library_version((word) mpi_version, (word) &length);
    mpi_version[strcspn(mpi_version, ",\n")] = 0;
    for (char *tab = mpi_version; (tab = strchr(tab, '\t')) != NULL;)
        *tab = ' ';
    of_rank = rank;
    of_world = world_size;
}

void open_sidecar(void)
{
    move_sidecar();
    read_boot();
    first_anchor = read_anchor();
    started_unix_ns = first_anchor.unix_ns;
}

/* -- what it says ------------------------------------------------------------------------------------------------- */

static struct json_optional known(int64_t value) { return (struct json_optional){value != BLANK, value}; }

static struct clock_anchor clock_anchor_of(struct anchor anchor)
{
    return (struct clock_anchor){.perf_counter_ns = anchor.counter_ns, .unix_ns = anchor.unix_ns,
                                 .uncertainty_ns = anchor.uncertainty_ns};
}

/* The wall clock may have been set since. */
static void tell_anchors(struct json_list *list)
{
    struct anchor now = read_anchor();
    int64_t moved_ns = (now.unix_ns - now.counter_ns) - (first_anchor.unix_ns - first_anchor.counter_ns);
    add_clock_anchor(list, clock_anchor_of(first_anchor));
    if (moved_ns > 1000000 || moved_ns < -1000000)
        add_clock_anchor(list, clock_anchor_of(now));
}

static void tell_options(struct json_list *object)
{
    json_key(object, "hang_after");
    json_real(object->file, (double) hang_after_ns / 1e9);
}

static void tell_part(const struct part *part, void *list)
{
    add_file_part(list, (struct file_part){.file = part->name, .rows = part->rows, .bytes = part->bytes,
                                           .lost = part->lost, .why = part->why});
}

static void tell_parts(struct json_list *list) { for_each_part(tell_part, list); }

static void tell_open_call(const struct call *call, void *context)
{
    struct json_list *list = context;
    if (list->n < MOST_TOLD)
        add_open_call_info(list, (struct open_call_info){
            .thread = call->thread, .operation = call->operation, .group = call->group->text,
            .group_size = known(call->group->size), .seq = known(call->seq),
            .peer = known(call->peer < 0 ? BLANK : call->peer), .message_size_bytes = known(call->bytes),
            .start_counter_ns = known(call->start_ns)});
}

static void tell_open_calls(struct json_list *list)
{
    int64_t before_ns = now_ns() - hang_after_ns;
    for_each_thread(tell_open_call, before_ns, list);
    for_each_request(tell_open_call, before_ns, list);
}

static void tell_group(const struct group *group, int64_t issued, int64_t completed, void *list)
{
    add_group_progress(list, (struct group_progress){.group = group->text, .size = group->size, .issued = issued,
                                                     .completed = completed});
}

static void tell_groups(struct json_list *list) { for_each_standing(tell_group, list); }

static void tell_one_untimed(const char *name, long n, void *object)
{
    json_key(object, name);
    json_integer(((struct json_list *) object)->file, n);
}

static void tell_untimed(struct json_list *object) { for_each_untimed(tell_one_untimed, object); }

static void tell_versions(struct json_list *object)
{
    json_key(object, "mpi");
    json_text(object->file, mpi_version);
}

static struct counters counters_in(enum state state)
{
    int64_t accepted = n_accepted(), in_files = written;
    int64_t dropped = state == RUNNING ? n_dropped() + lost : accepted - in_files;
    return (struct counters){.accepted = accepted, .written = in_files, .dropped = dropped,
                             .pending = accepted - in_files - dropped};
}

static struct crash_protection crash_protection(void)
{
    const char *why_not = "";
    if (!ring_path()[0])
        why_not = "neither /dev/shm nor the folder for temporary files is in memory and has room for 80 MB";
    else if (lacks_names)
        why_not = "the ring has no room for another name of a communicator, and a kill loses the rows of further ones";
    return (struct crash_protection){.on = !why_not[0], .reason = why_not};
}

static void add_bytes(const struct part *part, void *sum) { *(int64_t *) sum += part->bytes; }

static struct run_info run_info(enum state state)
{
    int64_t n_bytes = 0;
    struct counters counters = counters_in(state);
    for_each_part(add_bytes, &n_bytes);
    return (struct run_info){
        .file = file_name, .rank = of_rank, .incarnation = incarnation, .world_size = known(of_world),
        .options = tell_options, .core = "native-mpi",
        .run_id = run_id(), .launch_id = launch_id(), .world = world(),
        .host = host, .boot_id = boot, .pid = getpid(), .pid_namespace = pid_namespace(), .versions = tell_versions,
        .started_unix_ns = started_unix_ns, .updated_unix_ns = read_anchor().unix_ns, .closed = state == CLOSED,
        .clock_anchors = tell_anchors,
        .counters = counters, .behind_s = counters.pending > 0 ? behind_s() : 0, .logger_cpu_ns = writer_cpu_ns(),
        .written_bytes = n_bytes, .parts = tell_parts, .last_error = last_error,
        .crash_protection = crash_protection(), .ring_path = ring_path(),
        .open_calls = tell_open_calls, .groups = tell_groups, .untimed = tell_untimed,
        .last_progress_counter_ns = progressed_ns,
    };
}

/* -- the file ----------------------------------------------------------------------------------------------------- */

/* Write the text to a new file, unless the program closes our descriptor meanwhile: then it may be another file's. */
static bool write_draft(const char *draft, const char *text, size_t n_bytes, struct stat *about)
{
    door_remove(draft); /* left by a process that was killed, whose number this thread has */
    int descriptor = door_make(draft, 0);
    if (descriptor < 0)
        return false;
    struct stat held;
    bool is_whole = fstat(descriptor, about) == 0;
    descriptor = moved_up(descriptor);
    while (is_whole && n_bytes > 0) {
        is_whole = fstat(descriptor, &held) == 0 && is_file(&held, about->st_dev, about->st_ino);
        ssize_t n = is_whole ? write(descriptor, text, n_bytes) : 0;
        if (n < 0 && errno != EINTR)
            is_whole = false;
        text += n > 0 ? n : 0;
        n_bytes -= n > 0 ? n : 0;
    }
    close_own(descriptor, about->st_dev, about->st_ino);
    return is_whole;
}

static void put_in_place(const char *text, size_t n_bytes)
{
    char draft[sizeof path + 20];
    struct stat about;
    if (sidecar_is_anothers() || snprintf(draft, sizeof draft, "%s.%d.tmp", path, gettid()) >= (int) sizeof draft)
        return;
    if (!write_draft(draft, text, n_bytes, &about) || !door_replace(path, draft)) {
        door_remove(draft);
        return;
    }
    own_device = about.st_dev;
    own_inode = about.st_ino;
    progress++;
}

void write_sidecar(enum state state)
{
    char *text = NULL;
    size_t n_bytes = 0;
    FILE *file = open_memstream(&text, &n_bytes);
    if (file == NULL)
        return;
    struct run_info said = run_info(state);
    write_run_info(file, &said);
    if (fclose(file) == 0)
        put_in_place(text, n_bytes);
    free(text);
}
