/* Names as cells of CSV. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"

#define MOST_CHARACTERS 1024 /* as MAX_TEXT_CHARS in record.py */

/* The name, as timing_logger.schema.cells.escape_text has it, except that what is not ASCII is escaped as well, which readers
   undo alike. A name of many ranks is cut. */
static char *escaped(const char *name)
{
    int n_characters = 0;
    char *text = malloc(10 * strlen(name) + 10), *out = text;
    for (const unsigned char *at = (const unsigned char *) name; *at; at++) {
        if (++n_characters == MOST_CHARACTERS) {
            out += sprintf(out, "\\u2026");
            break;
        }
        bool leads = at == (const unsigned char *) name && strchr("=+-@", *at) != NULL;
        if (*at == '\\' || leads) {
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
    *out = 0;
    return text;
}

static char *quoted(const char *text)
{
    char *cell = malloc(2 * strlen(text) + 3), *out = cell;
    bool quotes = strpbrk(text, ",\"") != NULL;
    if (quotes)
        *out++ = '"';
    for (; *text; text++) {
        if (*text == '"')
            *out++ = '"';
        *out++ = *text;
    }
    if (quotes)
        *out++ = '"';
    *out = 0;
    return cell;
}

struct cell cell_of(const char *name)
{
    char *text = escaped(name);
    return (struct cell){text, quoted(text)};
}
