/* A row as a line of CSV: the same bytes as format_records in timing_logger/schema/record.py. Both writers in C, the native
 * core and the library for --native-mpi, have their lines from here. */
#ifndef TIMING_LOGGER_CSV_LINE_H
#define TIMING_LOGGER_CSV_LINE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "row.h"

#define CSV_NS_PER_S 1000000000LL
#define CSV_NS_PER_MS 1000000LL
enum { CSV_NUMBER_BYTES = 26, CSV_NUMBERS_OF_INSTANTS = 6 };

/* The most bytes of a line, besides those of its cells: with commas and points. */
enum { CSV_BYTES_BESIDE_CELLS = (N_NUMBERS + CSV_NUMBERS_OF_INSTANTS) * CSV_NUMBER_BYTES + N_COLUMNS + 4 };

typedef struct {
    const char *text; /* as it stands in the file: escaped, and quoted where necessary */
    uint32_t n_bytes;
} Cell;

typedef struct {
    int64_t start_ns, end_ns;
    const int64_t *numbers; /* N_NUMBERS of them, of which `has` tells which there are */
    uint32_t has;
    const Cell *cells[N_NAMES];
} CsvRow;

/* The second that was written last: consecutive records mostly share it. None so far: unix_s of -1. */
typedef struct {
    int64_t unix_s;
    char text[20]; /* 2026-02-06T14:30:45 */
} WholeSecond;

static const char CSV_DIGIT_PAIRS[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

static inline char *csv_digits(char *out, uint64_t value, int n_digits)
{
    for (int i = n_digits - 2; i >= 0; i -= 2) {
        memcpy(out + i, CSV_DIGIT_PAIRS + 2 * (value % 100), 2);
        value /= 100;
    }
    if (n_digits % 2)
        out[0] = (char)('0' + value % 10);
    return out + n_digits;
}

static inline char *csv_integer(char *out, int64_t value)
{
    char digits[CSV_NUMBER_BYTES];
    char *end = digits + sizeof digits, *begin = end;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    for (; rest >= 100; rest /= 100)
        memcpy(begin -= 2, CSV_DIGIT_PAIRS + 2 * (rest % 100), 2);
    if (rest >= 10)
        memcpy(begin -= 2, CSV_DIGIT_PAIRS + 2 * rest, 2);
    else
        *--begin = (char)('0' + rest);
    if (value < 0)
        *--begin = '-';
    memcpy(out, begin, (size_t)(end - begin));
    return out + (end - begin);
}

/* The fewest digits from which the number comes back, by the steps of cells.amount_cell. The program may have chosen
 * another decimal point. */
static inline char *csv_real(char *out, double value)
{
    if (value >= 0 && value < 9223372036854775808.0 && value == (double)(int64_t)value)
        return csv_integer(out, (int64_t)value);
    char text[40];
    int n_digits = 15;
    do
        snprintf(text, sizeof text, "%.*g", n_digits, value);
    while (strtod(text, NULL) != value && ++n_digits <= 17);
    const char *begin = out;
    for (const char *at = text; *at; at++) {
        if (strchr("0123456789e+-", *at) != NULL)
            *out++ = *at;
        else if (out > begin && out[-1] != '.')
            *out++ = '.';
    }
    return out;
}

static inline char *csv_number(char *out, const CsvRow *row, int which)
{
    double real;
    if (row->has & IS_REAL(which)) {
        memcpy(&real, &row->numbers[which], sizeof real);
        out = csv_real(out, real);
    } else if (row->has & HAS(which)) {
        out = csv_integer(out, row->numbers[which]);
    }
    *out++ = ',';
    return out;
}

static inline char *csv_cell(char *out, const CsvRow *row, int which)
{
    const Cell *cell = row->cells[which];
    memcpy(out, cell->text, cell->n_bytes);
    out += cell->n_bytes;
    *out++ = ',';
    return out;
}

static inline char *csv_seconds(char *out, int64_t ns)
{
    out = csv_integer(out, ns / CSV_NS_PER_S);
    *out++ = '.';
    return csv_digits(out, (uint64_t)(ns % CSV_NS_PER_S), 9);
}

/* Days since 1970 to a date of the Gregorian calendar: Howard Hinnant, "chrono-Compatible Low-Level Date
 * Algorithms", civil_from_days, for days that are not negative. */
static inline void csv_set_second(WholeSecond *second, int64_t unix_s)
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
    out = csv_digits(out, (uint64_t)year, 4);
    *out++ = '-';
    out = csv_digits(out, (uint64_t)month, 2);
    *out++ = '-';
    out = csv_digits(out, (uint64_t)day, 2);
    *out++ = 'T';
    out = csv_digits(out, (uint64_t)(of_day / 3600), 2);
    *out++ = ':';
    out = csv_digits(out, (uint64_t)(of_day / 60 % 60), 2);
    *out++ = ':';
    csv_digits(out, (uint64_t)(of_day % 60), 2);
    second->unix_s = unix_s;
}

static inline char *csv_timestamp(char *out, WholeSecond *second, int64_t unix_ns)
{
    if (unix_ns / CSV_NS_PER_S != second->unix_s)
        csv_set_second(second, unix_ns / CSV_NS_PER_S);
    memcpy(out, second->text, 19);
    out[19] = '.';
    out = csv_digits(out + 20, (uint64_t)(unix_ns % CSV_NS_PER_S / 1000), 6);
    *out++ = ',';
    return out;
}

static inline char *csv_elapsed_ms(char *out, const CsvRow *row)
{
    int64_t elapsed_ns = row->end_ns - row->start_ns;
    if (row->has & HAS_END) {
        out = csv_integer(out, elapsed_ns / CSV_NS_PER_MS);
        *out++ = '.';
        out = csv_digits(out, (uint64_t)(elapsed_ns % CSV_NS_PER_MS), 6);
    }
    *out++ = ',';
    return out;
}

static inline char *csv_start_counter(char *out, const CsvRow *row)
{
    out = csv_seconds(out, row->start_ns);
    *out++ = ',';
    return out;
}

static inline char *csv_end_counter(char *out, const CsvRow *row)
{
    if (row->has & HAS_END)
        out = csv_seconds(out, row->end_ns);
    *out++ = ',';
    return out;
}

/* Writes the line, and returns where it ends. */
static inline char *csv_line(char *out, WholeSecond *second, int64_t wall_offset_ns, const CsvRow *row)
{
    CSV_CELLS(out, second, wall_offset_ns, row)
    out[-1] = '\n';
    return out;
}

#endif
