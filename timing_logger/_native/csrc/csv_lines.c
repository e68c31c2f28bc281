#include "csv_lines.h"

#include <string.h>

#define NS_PER_S 1000000000LL
#define NS_PER_MS 1000000LL
enum { NUMBER_BYTES = 21, NUMBERS_OF_A_LINE = 12, COMMAS_AND_POINTS = 48 };

static const char DIGITS[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                             "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                             "8081828384858687888990919293949596979899";

/* The second that was written last: consecutive records mostly share it. */
typedef struct {
    int64_t unix_s;
    char text[20]; /* 2026-02-06T14:30:45 */
} WholeSecond;

static char *put_digits(char *out, uint64_t value, int n_digits)
{
    for (int i = n_digits - 2; i >= 0; i -= 2) {
        memcpy(out + i, DIGITS + 2 * (value % 100), 2);
        value /= 100;
    }
    if (n_digits % 2)
        out[0] = (char)('0' + value % 10);
    return out + n_digits;
}

static char *put_integer(char *out, int64_t value)
{
    char digits[NUMBER_BYTES];
    char *end = digits + sizeof digits, *begin = end;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    for (; rest >= 100; rest /= 100)
        memcpy(begin -= 2, DIGITS + 2 * (rest % 100), 2);
    if (rest >= 10)
        memcpy(begin -= 2, DIGITS + 2 * rest, 2);
    else
        *--begin = (char)('0' + rest);
    if (value < 0)
        *--begin = '-';
    memcpy(out, begin, (size_t)(end - begin));
    return out + (end - begin);
}

static char *put_optional(char *out, const Slot *slot, int which)
{
    if (slot->has & (1u << which))
        out = put_integer(out, slot->numbers[which]);
    *out++ = ',';
    return out;
}

static char *put_cell(char *out, const Cell *cells, uint16_t name)
{
    memcpy(out, cells[name].text, cells[name].n_bytes);
    out += cells[name].n_bytes;
    *out++ = ',';
    return out;
}

static char *put_seconds(char *out, int64_t ns)
{
    out = put_integer(out, ns / NS_PER_S);
    *out++ = '.';
    return put_digits(out, (uint64_t)(ns % NS_PER_S), 9);
}

/* Days since 1970 to a date of the Gregorian calendar: Howard Hinnant, "chrono-Compatible Low-Level Date
 * Algorithms", civil_from_days, for days that are not negative. */
static void set_second(WholeSecond *second, int64_t unix_s)
{
    int64_t days = unix_s / 86400 + 719468;
    int64_t of_era = days % 146097;
    int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t from_march = (5 * day_of_year + 2) / 153;
    int64_t day = day_of_year - (153 * from_march + 2) / 5 + 1;
    int64_t month = from_march < 10 ? from_march + 3 : from_march - 9;
    int64_t year = year_of_era + days / 146097 * 400 + (month <= 2);
    int64_t of_day = unix_s % 86400;
    char *out = second->text;
    out = put_digits(out, (uint64_t)year, 4);
    *out++ = '-';
    out = put_digits(out, (uint64_t)month, 2);
    *out++ = '-';
    out = put_digits(out, (uint64_t)day, 2);
    *out++ = 'T';
    out = put_digits(out, (uint64_t)(of_day / 3600), 2);
    *out++ = ':';
    out = put_digits(out, (uint64_t)(of_day / 60 % 60), 2);
    *out++ = ':';
    put_digits(out, (uint64_t)(of_day % 60), 2);
    second->unix_s = unix_s;
}

static char *put_timestamp(char *out, WholeSecond *second, int64_t unix_ns)
{
    if (unix_ns / NS_PER_S != second->unix_s)
        set_second(second, unix_ns / NS_PER_S);
    memcpy(out, second->text, 19);
    out[19] = '.';
    out = put_digits(out + 20, (uint64_t)(unix_ns % NS_PER_S / 1000), 6);
    *out++ = ',';
    return out;
}

/* elapsed_ms, start_counter and end_counter; without an end only the start is filled. */
static char *put_interval(char *out, const Slot *slot)
{
    int64_t elapsed_ns = slot->end_ns - slot->start_ns;
    if (slot->has & HAS_END) {
        out = put_integer(out, elapsed_ns / NS_PER_MS);
        *out++ = '.';
        out = put_digits(out, (uint64_t)(elapsed_ns % NS_PER_MS), 6);
    }
    *out++ = ',';
    out = put_seconds(out, slot->start_ns);
    *out++ = ',';
    if (slot->has & HAS_END)
        out = put_seconds(out, slot->end_ns);
    *out++ = ',';
    return out;
}

size_t csv_most_bytes(const Cells *cells, size_t n_records)
{
    return n_records * (NUMBERS_OF_A_LINE * NUMBER_BYTES + COMMAS_AND_POINTS + N_NAMES * (size_t)cells->longest);
}

size_t csv_lines(const Ring *ring, const Cells *cells, uint64_t first, size_t n_records,
                 int64_t wall_offset_ns, char *out)
{
    WholeSecond second = {.unix_s = -1};
    char *const begin = out;
    for (uint64_t position = first; position < first + n_records; position++) {
        const Slot *slot = &ring->slots[position % ring->n_slots];
        out = put_timestamp(out, &second, slot->start_ns + wall_offset_ns);
        out = put_optional(out, slot, ITERATION);
        out = put_optional(out, slot, EPOCH);
        out = put_cell(out, cells->plain, slot->names[LAYER_NAME]);
        out = put_cell(out, cells->upper, slot->names[OPERATION]);
        out = put_cell(out, cells->plain, slot->names[PHASE]);
        out = put_optional(out, slot, SIZE);
        out = put_interval(out, slot);
        out = put_cell(out, cells->plain, slot->names[CLOCK]);
        out = put_cell(out, cells->plain, slot->names[GROUP]);
        out = put_optional(out, slot, GROUP_SIZE);
        out = put_optional(out, slot, SEQ);
        out = put_optional(out, slot, PEER);
        out = put_cell(out, cells->plain, slot->names[THREAD]);
        out = put_cell(out, cells->plain, slot->names[STATUS]);
        out = put_cell(out, cells->plain, slot->names[STREAM]);
        out[-1] = '\n';
    }
    return (size_t)(out - begin);
}
