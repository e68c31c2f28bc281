/* The sidecar: what timing_logger/run_info.py reads of a process besides its rows. It is replaced as a whole. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "descriptors.h"
#include "native.h"
#include "part.h"

#define HANG_AFTER_S 60
#define MOST_TOLD 100

static char log_dir[PART_PATH_BYTES], path[PART_PATH_BYTES + 80], host[256], boot[160];
static char mpi_version[MPI_MAX_LIBRARY_VERSION_STRING + 1];
static int of_rank, of_world;
static dev_t own_device; /* of the sidecar that this process wrote last */
static ino_t own_inode;
static int64_t started_unix_ns, progress_ns, seen, hang_after_ns;
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

/* The origin of the clock, as run_info.boot_id says it: a time namespace moves it. */
static void read_boot(void)
{
    char line[256];
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file == NULL)
        return;
    if (fgets(line, 64, file) != NULL)
        snprintf(boot, sizeof boot, "%.*s", (int) strcspn(line, "\n"), line);
    fclose(file);
    file = fopen("/proc/self/timens_offsets", "r");
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

/* Among which processes the pid is one, as run_info.pid_namespace says it; 0 if unknown. */
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
    const char *asked = getenv("TIMING_LOGGER_HANG_AFTER");
    hang_after_ns = (int64_t) ((asked == NULL ? HANG_AFTER_S : atof(asked)) * 1e9);
    of_rank = rank;
    of_world = world_size;
}

void open_sidecar(void)
{
    move_sidecar();
    read_boot();
    first_anchor = read_anchor();
    started_unix_ns = first_anchor.unix_ns;
    progress_ns = first_anchor.counter_ns;
}

/* -- JSON -------------------------------------------------------------------------------------------------------- */

struct list {
    FILE *file;
    int n;
};

static void quoted(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        if ((unsigned char) *text >= 0x20)
            fputc((unsigned char) *text < 0x7f ? *text : '?', file); /* it may be in any encoding */
    }
    fputc('"', file);
}

static void named(FILE *file, const char *key, const char *text)
{
    fprintf(file, " \"%s\": ", key);
    quoted(file, text);
    fputs(",\n", file);
}

static void number_or_null(FILE *file, const char *key, int64_t value)
{
    if (value == BLANK)
        fprintf(file, "\"%s\": null, ", key);
    else
        fprintf(file, "\"%s\": %lld, ", key, (long long) value);
}

/* A name that is escaped as in a cell. */
static void name_in_json(FILE *file, const char *text)
{
    fputc('"', file);
    for (const char *at = text; *at; at++) {
        if (at[0] == '\\' && (at[1] == 'u' || at[1] == 'U')) { /* JSON writes the first alike */
            fputs(at[1] == 'u' ? "\\" : "?", file);
            at += at[1] == 'u' ? 0 : 9;
            continue;
        }
        if (at[0] == '\\')
            at++;
        if (*at == '"' || *at == '\\')
            fputc('\\', file);
        fputc(*at, file);
    }
    fputc('"', file);
}

static void tell_open_call(const struct call *call, void *context)
{
    struct list *list = context;
    if (list->n++ >= MOST_TOLD)
        return;
    FILE *file = list->file;
    fprintf(file, "%s{\"thread\": \"%s\", \"operation\": \"%s\", \"layer_name\": \"\", \"iteration\": null, "
            "\"epoch\": null, \"group\": ", list->n > 1 ? ",\n  " : "\n  ", call->thread, call->operation);
    name_in_json(file, call->group->text);
    fputs(", ", file);
    number_or_null(file, "group_size", call->group->size);
    number_or_null(file, "seq", call->seq);
    number_or_null(file, "peer", call->peer < 0 ? BLANK : call->peer);
    number_or_null(file, "message_size_bytes", call->bytes);
    fprintf(file, "\"start_counter_ns\": %lld}", (long long) call->start_ns);
}

struct first_open {
    const struct group *group;
    int64_t seq;
};

static void look_for_first_open(const struct call *call, void *context)
{
    struct first_open *first = context;
    if (call->group == first->group && call->is_collective && call->seq != BLANK && call->seq < first->seq)
        first->seq = call->seq;
}

struct standing_told {
    void (*tell)(const struct group *, int64_t, int64_t, void *);
    void *context;
};

static void look_at_group(const struct group *group, void *context)
{
    struct standing_told *told = context;
    struct first_open first = {group, group->collectives};
    int64_t n_issued = group->collectives;
    if (n_issued == 0)
        return;
    for_each_thread(look_for_first_open, INT64_MAX, &first);
    for_each_request(look_for_first_open, INT64_MAX, &first);
    told->tell(group, n_issued, first.seq, told->context);
}

void for_each_standing(void (*tell)(const struct group *, int64_t issued, int64_t completed, void *), void *context)
{
    struct standing_told told = {tell, context};
    for_each_group(look_at_group, &told);
}

static void tell_group(const struct group *group, int64_t issued, int64_t completed, void *context)
{
    struct list *list = context;
    fputs(list->n++ ? ",\n  {\"group\": " : "\n  {\"group\": ", list->file);
    name_in_json(list->file, group->text);
    fprintf(list->file, ", \"size\": %d, \"issued\": %lld, \"completed\": %lld}", group->size, (long long) issued,
            (long long) completed);
}

static void tell_anchor(FILE *file, struct anchor anchor)
{
    fprintf(file, "{\"perf_counter_ns\": %lld, \"unix_ns\": %lld, \"uncertainty_ns\": %lld}",
            (long long) anchor.counter_ns, (long long) anchor.unix_ns, (long long) anchor.uncertainty_ns);
}

static void tell_part(const struct part *part, void *context)
{
    struct list *list = context;
    fprintf(list->file, "%s\n  {\"file\": \"%s\", \"rows\": %lld, \"bytes\": %lld, \"lost\": %lld, \"why\": \"%s\"}",
            list->n++ ? "," : "", part->name, (long long) part->rows, (long long) part->bytes, (long long) part->lost,
            part->why);
}

static void add_bytes(const struct part *part, void *sum) { *(int64_t *) sum += part->bytes; }

static void tell_rows(FILE *file, enum state state)
{
    int64_t taken = n_accepted(), in_files = written, gone = state == RUNNING ? n_dropped() + lost : taken - in_files;
    int64_t n_bytes = 0;
    struct list parts = {file, 0};
    for_each_part(add_bytes, &n_bytes);
    fprintf(file, " \"counters\": {\"accepted\": %lld, \"written\": %lld, \"dropped\": %lld, \"pending\": %lld},\n",
            (long long) taken, (long long) in_files, (long long) gone, (long long) (taken - in_files - gone));
    fprintf(file, " \"written_bytes\": %lld,\n \"parts\": [", (long long) n_bytes);
    for_each_part(tell_part, &parts);
    fputs("],\n", file);
}

static void tell_calls(FILE *file, int64_t now_ns)
{
    struct list calls = {file, 0}, groups = {file, 0};
    fputs(" \"open_calls\": [", file);
    for_each_thread(tell_open_call, now_ns - hang_after_ns, &calls);
    for_each_request(tell_open_call, now_ns - hang_after_ns, &calls);
    fputs("],\n \"groups\": [", file);
    for_each_standing(tell_group, &groups);
    fprintf(file, "],\n \"last_progress_counter_ns\": %lld,\n", (long long) progress_ns);
}

static void tell_untimed(const char *name, long n, void *context)
{
    struct list *list = context;
    fprintf(list->file, "%s\"%s\": %ld", list->n++ ? ", " : "", name, n);
}

static void tell_protection(FILE *file)
{
    const char *why_not = "";
    if (!ring_path()[0])
        why_not = "neither /dev/shm nor the folder for temporary files is in memory and has room for 80 MB";
    else if (lacks_names)
        why_not = "the ring has no room for another name of a communicator, and a kill loses the rows of further ones";
    fprintf(file, " \"crash_protection\": {\"on\": %s, \"reason\": \"%s\"},\n", why_not[0] ? "false" : "true", why_not);
    named(file, "ring_path", ring_path());
}

static void tell_all(FILE *file, enum state state)
{
    struct anchor now = read_anchor();
    fputs("{\n \"schema_version\": 1,\n", file);
    named(file, "file", file_name);
    fprintf(file, " \"rank\": %d,\n \"incarnation\": %d,\n \"world_size\": %d,\n", of_rank, incarnation, of_world);
    fprintf(file, " \"labels\": {},\n \"options\": {\"hang_after\": %g},\n", hang_after_ns / 1e9);
    named(file, "core", "native-mpi");
    tell_protection(file);
    named(file, "run_id", run_id());
    named(file, "launch_id", launch_id());
    named(file, "world", world());
    fprintf(file, " \"started_unix_ns\": %lld,\n \"updated_unix_ns\": %lld,\n \"closed\": %s,\n",
            (long long) started_unix_ns, (long long) now.unix_ns, state == CLOSED ? "true" : "false");
    fputs(" \"clock_anchors\": [", file);
    tell_anchor(file, first_anchor);
    int64_t moved_ns = (now.unix_ns - now.counter_ns) - (first_anchor.unix_ns - first_anchor.counter_ns);
    if (moved_ns > 1000000 || moved_ns < -1000000) {
        fputs(", ", file);
        tell_anchor(file, now);
    }
    fputs("],\n", file);
    tell_rows(file, state);
    struct list untimed = {file, 0};
    fputs(" \"untimed\": {", file);
    for_each_untimed(tell_untimed, &untimed);
    fputs("},\n", file);
    named(file, "last_error", last_error);
    tell_calls(file, now.counter_ns);
    named(file, "host", host);
    named(file, "boot_id", boot);
    fprintf(file, " \"pid\": %d,\n \"pid_namespace\": %llu,\n \"versions\": {\"mpi\": ", getpid(), pid_namespace());
    quoted(file, mpi_version);
    fputs("}\n}\n", file);
}

/* -- the file ----------------------------------------------------------------------------------------------------- */

/* Write the text to a new file, unless the program closes our descriptor meanwhile: then it may be another file's. */
static bool write_draft(const char *draft, const char *text, size_t n_bytes, struct stat *about)
{
    unlink(draft); /* left by a process that was killed, whose number this thread has */
    int descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
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
    if (!write_draft(draft, text, n_bytes, &about) || rename(draft, path) != 0) {
        unlink(draft);
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
    tell_all(file, state);
    if (fclose(file) == 0)
        put_in_place(text, n_bytes);
    free(text);
}

/* -- hangs -------------------------------------------------------------------------------------------------------- */

static int64_t told_before_ns; /* open calls that began before have their row */

static void write_open(const struct call *call, void *unused)
{
    (void) unused;
    if (call->start_ns >= told_before_ns)
        write_row(call, call->operation, call->start_ns, BLANK, "inflight", call->thread);
}

void write_open_calls(int64_t before_ns)
{
    for_each_thread(write_open, before_ns, NULL);
    for_each_request(write_open, before_ns, NULL);
    told_before_ns = before_ns;
}

void look_for_hangs(void)
{
    int64_t now = now_ns(), taken = n_accepted();
    if (taken != seen) {
        seen = taken;
        progress_ns = now;
    }
    note_standing(now, progress_ns);
    write_open_calls(now - hang_after_ns);
    if (n_accepted() != taken) { /* a row that tells of a hang is no progress */
        seen = n_accepted();
        write_sidecar(RUNNING);
    }
}
