/* The timing file: one line of CSV for each row, in the columns of timing_logger/record.py. Only the writer thread
   writes it, in whole lines. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "csv_line.h"
#include "header.h"
#include "native.h"

#define BUFFER_BYTES (1 << 18)
#define LONGEST_LINE 4096

int64_t written, written_bytes;
char file_name[64], last_error[256];
int incarnation;

static int descriptor = -1;
static char buffer[BUFFER_BYTES];
static int filled, rows_filled;
static struct anchor anchor;

/* -- the file -------------------------------------------------------------------------------------------------- */

static void note_error(const char *what)
{
    snprintf(last_error, sizeof last_error, "%s: %s", what, strerror(errno));
}

/* A name is free if neither the timing file nor its sidecar is there: an earlier run keeps both. */
static bool claims(const char *folder)
{
    char path[4096], sidecar[4096];
    snprintf(path, sizeof path, "%s/%s", folder, file_name);
    snprintf(sidecar, sizeof sidecar, "%s/%.*s.meta.json", folder, (int) strlen(file_name) - 4, file_name);
    if (access(sidecar, F_OK) == 0)
        return false;
    descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    return descriptor >= 0;
}

bool create_file(const char *folder, int rank)
{
    for (incarnation = 1; incarnation < 10000; incarnation++) {
        if (incarnation == 1)
            snprintf(file_name, sizeof file_name, "timing-rank%d.csv", rank);
        else
            snprintf(file_name, sizeof file_name, "timing-rank%d.run%d.csv", rank, incarnation);
        if (claims(folder)) {
            anchor = read_anchor();
            filled = sprintf(buffer, "%s", CSV_HEADER);
            return true;
        }
        if (errno != EEXIST && errno != ENOENT && errno != 0)
            break;
    }
    return false;
}

/* Write what is in the buffer, or keep it for later: never part of a line. */
static bool flush_buffer(void)
{
    int done = 0;
    while (done < filled) {
        ssize_t n = write(descriptor, buffer + done, filled - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            note_error("write failed");
            if (done > 0 && ftruncate(descriptor, written_bytes) != 0) { /* rows are in the file: do not repeat them */
                memmove(buffer, buffer + done, filled - done);
                filled -= done;
                written_bytes += done;
            }
            return false;
        }
        done += n;
    }
    written += rows_filled;
    written_bytes += filled;
    filled = rows_filled = 0;
    return true;
}

void close_file(void)
{
    if (descriptor >= 0)
        close(descriptor);
    descriptor = -1;
}

/* -- cells -------------------------------------------------------------------------------------------------------- */

/* A name as a cell of CSV that stays one line and runs as no formula: timing_logger.record.escape_text, except that
   what is not ASCII is escaped as well, which readers undo alike. */
char *cell_of(const char *name)
{
    char *cell = malloc(10 * strlen(name) + 3), *out = cell;
    bool quotes = strpbrk(name, ",\"") != NULL;
    if (quotes)
        *out++ = '"';
    for (const unsigned char *at = (const unsigned char *) name; *at; at++) {
        bool leads = at == (const unsigned char *) name && strchr("=+-@", *at) != NULL;
        if (*at == '"') {
            *out++ = '"', *out++ = '"';
        } else if (*at == '\\' || leads) {
            *out++ = '\\', *out++ = *at;
        } else if (*at >= 0x20 && *at < 0x7f) {
            *out++ = *at;
        } else {
            uint32_t code = *at;
            int more = code >= 0xf0 ? 3 : code >= 0xe0 ? 2 : code >= 0xc0 ? 1 : 0;
            code = more == 3 ? code & 7 : more == 2 ? code & 15 : more == 1 ? code & 31 : code;
            for (; more > 0 && (at[1] & 0xc0) == 0x80; more--)
                code = code << 6 | (*++at & 0x3f);
            out += sprintf(out, code < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned) code);
        }
    }
    if (quotes)
        *out++ = '"';
    *out = 0;
    return cell;
}

/* -- lines ------------------------------------------------------------------------------------------------------ */

static Cell cell(const char *text) { return (Cell){text, (uint32_t) strlen(text)}; }

static char *line(char *out, const struct row *row)
{
    static WholeSecond second = {.unix_s = -1};
    const int64_t numbers[N_NUMBERS] = {[SIZE] = row->bytes, [GROUP_SIZE] = row->group->size, [SEQ] = row->seq,
                                        [PEER] = row->peer};
    const Cell blank = {"", 0}, host = {"host", 4}, operation = cell(row->operation), group = cell(row->group->cell),
               thread = cell(row->thread), status = cell(row->status);
    uint32_t has = 1u << GROUP_SIZE | (row->bytes != BLANK) << SIZE | (row->seq != BLANK) << SEQ |
                   (row->peer >= 0) << PEER | (row->end_ns != BLANK ? HAS_END : 0);
    const CsvRow values = {row->start_ns, row->end_ns, numbers, has, {
        [LAYER_NAME] = &blank, [OPERATION] = &operation, [PHASE] = &blank, [CLOCK] = &host, [GROUP] = &group,
        [THREAD] = &thread, [STATUS] = &status, [STREAM] = &blank}};
    return csv_line(out, &second, anchor.unix_ns - anchor.counter_ns, &values);
}

void write_rows(void)
{
    struct row row;
    struct anchor now = read_anchor();
    int64_t moved_ns = (now.unix_ns - now.counter_ns) - (anchor.unix_ns - anchor.counter_ns);
    if (moved_ns > 1000000 || moved_ns < -1000000) /* the wall clock was set */
        anchor = now;
    for (;;) {
        if (filled > BUFFER_BYTES - LONGEST_LINE && !flush_buffer())
            return;
        if (!take(&row))
            break;
        if (row.operation == NULL) {
            free_group(row.group);
            continue;
        }
        filled = line(buffer + filled, &row) - buffer;
        rows_filled++;
    }
    flush_buffer();
}
