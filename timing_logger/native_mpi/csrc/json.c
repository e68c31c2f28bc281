#include "json.h"

#include <stdlib.h>
#include <string.h>

#include "csv_line.h"

void json_next(struct json_list *list) { fputs(list->n++ ? ",\n  " : "\n  ", list->file); }

void json_key(struct json_list *object, const char *key)
{
    json_next(object);
    json_text(object->file, key);
    fputs(": ", object->file);
}

void json_all(FILE *file, json_entries *tell, const char *brackets)
{
    struct json_list list = {file, 0};
    fputc(brackets[0], file);
    if (tell != NULL)
        tell(&list);
    fputc(brackets[1], file);
}

void json_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (; text != NULL && *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        if ((unsigned char) *text >= 0x20)
            fputc((unsigned char) *text < 0x7f ? *text : '?', file); /* it may be in any encoding */
    }
    fputc('"', file);
}

void json_escaped(FILE *file, const char *text)
{
    fputc('"', file);
    for (const char *at = text; at != NULL && *at; at++) {
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

void json_integer(FILE *file, int64_t value) { fprintf(file, "%lld", (long long) value); }

void json_optional(FILE *file, struct json_optional value)
{
    if (value.is_known)
        json_integer(file, value.value);
    else
        json_null(file);
}

void json_real(FILE *file, double value)
{
    char text[2 * CSV_NUMBER_BYTES];
    *csv_real(text, value) = 0;
    fputs(text, file);
}

void json_bool(FILE *file, bool value) { fputs(value ? "true" : "false", file); }

void json_null(FILE *file) { fputs("null", file); }
