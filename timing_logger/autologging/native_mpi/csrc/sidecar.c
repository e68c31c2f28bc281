/* The sidecar: what timing_logger/run_info.py reads of a process besides its rows. It is replaced as a whole. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "native.h"

#define HANG_AFTER_S 60
#define MOST_TOLD 100

static char path[4096], draft[4096], host[256], boot[160], mpi_version[MPI_MAX_LIBRARY_VERSION_STRING + 1];
static int of_rank, of_world;
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

void begin_sidecar(const char *folder, int rank, int world_size)
{
    int length;
    snprintf(path, sizeof path, "%s/%.*s.meta.json", folder, (int) strlen(file_name) - 4, file_name);
    snprintf(draft, sizeof draft, "%.3000s.%d.tmp", path, getpid());
    gethostname(host, sizeof host - 1);
    read_boot();
    real.Get_library_version((word) mpi_version, (word) &length);
    mpi_version[strcspn(mpi_version, ",\n")] = 0;
    for (char *tab = mpi_version; (tab = strchr(tab, '\t')) != NULL;)
        *tab = ' ';
    const char *asked = getenv("TIMING_LOGGER_HANG_AFTER");
    hang_after_ns = (int64_t) ((asked == NULL ? HANG_AFTER_S : atof(asked)) * 1e9);
    of_rank = rank;
    of_world = world_size;
    first_anchor = read_anchor();
    started_unix_ns = first_anchor.unix_ns;
    progress_ns = first_anchor.counter_ns;
    write_sidecar(false);
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
            fputc(*text, file);
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

/* The name that a reader makes of the cell. */
static void name_of_cell(FILE *file, const char *cell)
{
    bool is_quoted = *cell == '"';
    fputc('"', file);
    for (const char *at = cell + is_quoted; *at && !(is_quoted && at[1] == 0); at++) {
        if (at[0] == '"' && at[1] == '"')
            at++;
        if (at[0] == '\\' && at[1] == 'u') { /* JSON writes these alike */
            fputc('\\', file);
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
    name_of_cell(file, call->group->cell);
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

static void tell_group(const struct group *group, void *context)
{
    struct list *list = context;
    struct first_open first = {group, group->collectives};
    if (group->collectives == 0)
        return;
    for_each_thread(look_for_first_open, INT64_MAX, &first);
    for_each_request(look_for_first_open, INT64_MAX, &first);
    fputs(list->n++ ? ",\n  {\"group\": " : "\n  {\"group\": ", list->file);
    name_of_cell(list->file, group->cell);
    fprintf(list->file, ", \"size\": %d, \"issued\": %ld, \"completed\": %lld}", group->size, group->collectives,
            (long long) first.seq);
}

static void tell_anchor(FILE *file, struct anchor anchor)
{
    fprintf(file, "{\"perf_counter_ns\": %lld, \"unix_ns\": %lld, \"uncertainty_ns\": %lld}",
            (long long) anchor.counter_ns, (long long) anchor.unix_ns, (long long) anchor.uncertainty_ns);
}

void write_sidecar(bool closed)
{
    FILE *file = fopen(draft, "wex");
    if (file == NULL)
        return;
    struct anchor now = read_anchor();
    int64_t taken = accepted, lost = dropped;
    fputs("{\n \"schema_version\": 1,\n", file);
    named(file, "file", file_name);
    fprintf(file, " \"rank\": %d,\n \"incarnation\": %d,\n \"world_size\": %d,\n", of_rank, incarnation, of_world);
    fprintf(file, " \"labels\": {},\n \"options\": {\"core\": \"native-mpi\", \"hang_after\": %g},\n", hang_after_ns / 1e9);
    fprintf(file, " \"started_unix_ns\": %lld,\n \"updated_unix_ns\": %lld,\n \"closed\": %s,\n",
            (long long) started_unix_ns, (long long) now.unix_ns, closed ? "true" : "false");
    fputs(" \"clock_anchors\": [", file);
    tell_anchor(file, first_anchor);
    int64_t moved_ns = (now.unix_ns - now.counter_ns) - (first_anchor.unix_ns - first_anchor.counter_ns);
    if (moved_ns > 1000000 || moved_ns < -1000000) {
        fputs(", ", file);
        tell_anchor(file, now);
    }
    fprintf(file, "],\n \"counters\": {\"accepted\": %lld, \"written\": %lld, \"dropped\": %lld, \"pending\": %lld},\n",
            (long long) taken, (long long) written, (long long) lost, (long long) (taken - written - lost));
    fprintf(file, " \"written_bytes\": %lld,\n \"parts\": [{\"file\": \"%s\", \"rows\": %lld, \"bytes\": %lld, "
            "\"lost\": 0, \"why\": \"\"}],\n", (long long) written_bytes, file_name, (long long) written,
            (long long) written_bytes);
    named(file, "last_error", last_error);
    struct list calls = {file, 0}, groups = {file, 0};
    fputs(" \"open_calls\": [", file);
    for_each_thread(tell_open_call, now.counter_ns - hang_after_ns, &calls);
    for_each_request(tell_open_call, now.counter_ns - hang_after_ns, &calls);
    fputs("],\n \"groups\": [", file);
    for_each_group(tell_group, &groups);
    fprintf(file, "],\n \"last_progress_counter_ns\": %lld,\n", (long long) progress_ns);
    named(file, "host", host);
    named(file, "boot_id", boot);
    fprintf(file, " \"pid\": %d,\n \"versions\": {\"mpi\": ", getpid());
    quoted(file, mpi_version);
    fputs("}\n}\n", file);
    if (fclose(file) == 0)
        rename(draft, path);
    else
        unlink(draft);
}

/* -- hangs -------------------------------------------------------------------------------------------------------- */

static void write_open(const struct call *call, void *told)
{
    if (call->start_ns >= *(int64_t *) told)
        write_row(call, call->operation, call->start_ns, BLANK, "inflight", call->thread);
}

void look_for_hangs(void)
{
    static int64_t told_before_ns;
    int64_t now = now_ns(), taken = accepted, before_ns = now - hang_after_ns;
    if (taken != seen) {
        seen = taken;
        progress_ns = now;
    }
    for_each_thread(write_open, before_ns, &told_before_ns);
    for_each_request(write_open, before_ns, &told_before_ns);
    told_before_ns = before_ns;
    if (accepted != taken) { /* a row that tells of a hang is no progress */
        seen = accepted;
        write_sidecar(false);
    }
}
