/* Values as JSON. The program may have chosen another decimal point, and its names may be in any encoding. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A list or object, to which each entry is added in its turn. */
struct json_list {
    FILE *file;
    int n;
};

typedef void json_entries(struct json_list *list);

struct json_optional {
    bool is_known;
    int64_t value;
};

/* What comes before the next entry. */
void json_next(struct json_list *list);
void json_key(struct json_list *object, const char *key);
/* All entries between these brackets; `tell` adds them, NULL none. */
void json_all(FILE *file, json_entries *tell, const char *brackets);
void json_text(FILE *file, const char *text); /* "" for NULL */
/* A text that is escaped as in a cell. */
void json_escaped(FILE *file, const char *text);
void json_integer(FILE *file, int64_t value);
void json_optional(FILE *file, struct json_optional value);
void json_real(FILE *file, double value);
void json_bool(FILE *file, bool value);
void json_null(FILE *file);

#endif
