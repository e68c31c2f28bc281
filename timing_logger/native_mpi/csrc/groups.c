/* Communicators, windows and files: how the rows call them, and how many operations each rank has begun in them. Both
   belong to the communicator, where MPI keeps them as an attribute. MPI's files have no attributes, so a table has the
   groups of files and windows. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "native.h"

static int keyval;
static struct group *groups;
static _Atomic(struct group *) to_free;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int forget_group(MPI_Comm comm, int key, void *group, void *extra)
{
    (void) comm, (void) key, (void) extra;
    drop_group(group);
    return MPI_SUCCESS;
}

static int leave_out_of_copies(MPI_Comm comm, int key, void *extra, void *value, void *copy, int *is_copied)
{
    (void) comm, (void) key, (void) extra, (void) value, (void) copy;
    *is_copied = 0;
    return MPI_SUCCESS;
}

void begin_groups(void)
{
    real.Comm_create_keyval((word) leave_out_of_copies, (word) forget_group, (word) &keyval, 0);
}

/* -- names ------------------------------------------------------------------------------------------------------ */

static struct name {
    char *text;
    int times;
    struct name *next;
} *names[1024];

/* A second communicator of one name is called "name #2". */
static char *unique(const char *text, int *number)
{
    uint32_t hash = 2166136261u;
    for (const char *at = text; *at; at++)
        hash = (hash ^ (unsigned char) *at) * 16777619u;
    struct name **bucket = &names[hash % 1024], *found = *bucket;
    while (found != NULL && strcmp(found->text, text) != 0)
        found = found->next;
    if (found == NULL) {
        found = calloc(1, sizeof *found);
        found->text = strdup(text);
        found->next = *bucket;
        *bucket = found;
    }
    *number = ++found->times;
    if (found->times == 1)
        return strdup(text);
    char *numbered = malloc(strlen(text) + 16);
    sprintf(numbered, "%s #%d", text, found->times);
    return numbered;
}

struct members {
    int n, *ranks;
};

/* "0-2,5" for the ranks 0, 1, 2 and 5 of the world; "?" for one that is not in it. Frees the members. */
static void write_ranges(FILE *text, struct members members)
{
    const int *ranks = members.ranks;
    for (int i = 0, last; i < members.n; i = last + 1) {
        last = i;
        while (last + 1 < members.n && ranks[last] >= 0 && ranks[last + 1] == ranks[last] + 1)
            last++;
        if (i > 0)
            fputc(',', text);
        if (ranks[i] < 0)
            fputc('?', text);
        else if (last == i)
            fprintf(text, "%d", ranks[i]);
        else
            fprintf(text, "%d-%d", ranks[i], ranks[last]);
    }
    free(members.ranks);
}

/* "ranks 0-2|3", and what has them; frees the members. */
static char *ranks_name(struct members one, struct members other, const char *what)
{
    char *name;
    size_t length;
    FILE *text = open_memstream(&name, &length);
    fputs("ranks ", text);
    write_ranges(text, one);
    if (other.ranks != NULL) {
        fputc('|', text);
        write_ranges(text, other);
    }
    fputs(what, text);
    fclose(text);
    return name;
}

/* Frees the group. */
static struct members world_ranks_of(MPI_Group of)
{
    MPI_Group of_world;
    int n;
    real.Comm_group((word) WORLD, (word) &of_world);
    real.Group_size((word) of, (word) &n);
    int *all = malloc((n + 1) * sizeof *all), *found = malloc((n + 1) * sizeof *found);
    for (int i = 0; i < n; i++)
        all[i] = i;
    real.Group_translate_ranks((word) of, n, (word) all, (word) of_world, (word) found);
    for (int i = 0; i < n; i++)
        found[i] = found[i] == MPI_UNDEFINED ? -1 : found[i];
    real.Group_free((word) &of);
    real.Group_free((word) &of_world);
    free(all);
    return (struct members){n, found};
}

static struct members world_ranks(MPI_Comm comm, bool remote)
{
    MPI_Group of;
    (remote ? real.Comm_remote_group : real.Comm_group)((word) comm, (word) &of);
    return world_ranks_of(of);
}

static bool is_after(struct members one, struct members other)
{
    for (int i = 0; i < one.n && i < other.n; i++)
        if (one.ranks[i] != other.ranks[i])
            return one.ranks[i] > other.ranks[i];
    return one.n > other.n;
}

/* The name of a communicator without one of its own: its members' ranks in the world. */
static char *members_name(MPI_Comm comm, bool is_inter)
{
    struct members own = world_ranks(comm, false), others = {0, NULL};
    if (!is_inter)
        return ranks_name(own, others, "");
    others = world_ranks(comm, true);
    return is_after(own, others) ? ranks_name(others, own, "") : ranks_name(own, others, "");
}

static struct cell name_of(MPI_Comm comm, bool is_inter)
{
    char given[MPI_MAX_OBJECT_NAME + 1] = "";
    int length = 0;
    real.Comm_get_name((word) comm, (word) given, (word) &length);
    char *name = length > 0 ? strdup(given) : members_name(comm, is_inter);
    pthread_mutex_lock(&lock);
    int number;
    char *only = unique(name, &number);
    pthread_mutex_unlock(&lock);
    free(name);
    struct cell cell = cell_of(only);
    free(only);
    return cell;
}

static void set_name(struct group *group, struct cell name)
{
    group->text = name.text;
    group->cell = name.quoted;
    group->number = number_of_cell(name.text, name.quoted);
}

/* -- groups ------------------------------------------------------------------------------------------------------ */

static struct group *made(MPI_Comm comm)
{
    struct group *group = calloc(1, sizeof *group);
    int is_inter = 0, remote = 0;
    real.Comm_test_inter((word) comm, (word) &is_inter);
    real.Comm_size((word) comm, (word) &group->own_size);
    real.Comm_rank((word) comm, (word) &group->rank);
    if (is_inter)
        real.Comm_remote_size((word) comm, (word) &remote);
    group->size = group->own_size + remote;
    group->blocks = is_inter ? remote : group->own_size;
    group->neighbors = -1;
    set_name(group, name_of(comm, is_inter));
    group->users = 1;
    pthread_mutex_lock(&lock);
    group->next = groups;
    groups = group;
    pthread_mutex_unlock(&lock);
    return group;
}

struct group *group_of(MPI_Comm comm)
{
    struct group *group = NULL;
    int is_there = 0;
    if (comm == NO_COMM)
        return NULL;
    if (real.Comm_get_attr((word) comm, keyval, (word) &group, (word) &is_there) != MPI_SUCCESS)
        return NULL;
    if (!is_there) {
        group = made(comm);
        real.Comm_set_attr((word) comm, keyval, (word) group);
    }
    return group;
}

void rename_group(MPI_Comm comm)
{
    struct group *group = group_of(comm);
    if (group == NULL || group->collectives > 0 || group->messages != NULL)
        return;
    int is_inter = 0;
    real.Comm_test_inter((word) comm, (word) &is_inter);
    set_name(group, name_of(comm, is_inter)); /* a reader may still hold the old one */
}

void keep_group(struct group *group) { group->users++; }

void drop_group(struct group *group)
{
    if (--group->users > 0)
        return;
    group->next_to_free = to_free;
    while (!atomic_compare_exchange_weak(&to_free, &group->next_to_free, group))
        ;
}

static void free_group(struct group *group)
{
    pthread_mutex_lock(&lock);
    for (struct group **at = &groups; *at != NULL; at = &(*at)->next)
        if (*at == group) {
            *at = group->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (group->number < 0) { /* else the lines of its rows need them */
        free(group->text);
        free(group->cell);
    }
    free((void *) group->messages);
    free(group);
}

void free_groups(void)
{
    for (struct group *group = atomic_exchange(&to_free, NULL), *next; group != NULL; group = next) {
        next = group->next_to_free;
        free_group(group);
    }
}

void for_each_group(void (*tell)(const struct group *, void *), void *context)
{
    pthread_mutex_lock(&lock);
    for (struct group *group = groups; group != NULL; group = group->next)
        tell(group, context);
    pthread_mutex_unlock(&lock);
}

/* -- windows and files ------------------------------------------------------------------------------------------ */

#define HANDLES 256

static struct handle {
    enum kind kind;
    word of;
    struct group *group;
    struct handle *next;
} *handles[HANDLES];

static struct handle **handle_at(enum kind kind, word of)
{
    struct handle **at = &handles[((uint64_t) of * UINT64_C(0x9E3779B97F4A7C15)) >> 56];
    while (*at != NULL && ((*at)->kind != kind || (*at)->of != of))
        at = &(*at)->next;
    return at;
}

static struct group *idle_group(const char *text)
{
    struct group *first = NULL;
    for (struct group *group = groups; group != NULL; group = group->next)
        if (group->idle && strcmp(group->ranks, text) == 0 && (first == NULL || group->nth < first->nth))
            first = group;
    return first;
}

/* A group of this name that no window and no file has. */
static struct group *taken(char *text, int size)
{
    struct group *group = idle_group(text);
    if (group != NULL) {
        free(text);
        group->idle = false;
        return group;
    }
    group = calloc(1, sizeof *group);
    *group = (struct group){.size = size, .own_size = size, .blocks = size, .neighbors = -1, .users = 1, .ranks = text};
    char *only = unique(text, &group->nth);
    set_name(group, cell_of(only));
    free(only);
    group->next = groups;
    groups = group;
    return group;
}

struct group *group_of_handle(enum kind kind, word of)
{
    if (of == (kind == A_WINDOW ? (word) NO_WIN : (word) NO_FILE))
        return NULL;
    pthread_mutex_lock(&lock);
    struct handle *known = *handle_at(kind, of);
    struct group *group = known == NULL ? NULL : known->group;
    pthread_mutex_unlock(&lock);
    if (group != NULL)
        return group;
    MPI_Group ranks;
    if ((kind == A_WINDOW ? real.Win_get_group : real.File_get_group)(of, (word) &ranks) != MPI_SUCCESS)
        return NULL;
    struct members members = world_ranks_of(ranks);
    char *name = ranks_name(members, (struct members){0, NULL}, kind == A_WINDOW ? " window" : " file");
    struct handle *handle = malloc(sizeof *handle);
    pthread_mutex_lock(&lock);
    struct handle **at = handle_at(kind, of);
    if (*at == NULL) {
        *handle = (struct handle){kind, of, taken(name, members.n), NULL};
        *at = handle;
    } else { /* another thread was faster */
        free(name);
        free(handle);
    }
    group = (*at)->group;
    pthread_mutex_unlock(&lock);
    return group;
}

void handle_ends(enum kind kind, word of)
{
    pthread_mutex_lock(&lock);
    struct handle **at = handle_at(kind, of), *handle = *at;
    if (handle != NULL)
        *at = handle->next;
    pthread_mutex_unlock(&lock);
    free(handle);
}

void leave_idle(struct group *group)
{
    pthread_mutex_lock(&lock);
    group->idle = true;
    pthread_mutex_unlock(&lock);
}

/* How many ranks this one sends to in a topology. */
int neighbors(struct group *group, MPI_Comm comm)
{
    int topology = MPI_UNDEFINED, n = 0, from, weighted;
    if (group->neighbors >= 0)
        return group->neighbors;
    real.Topo_test((word) comm, (word) &topology);
    if (topology == MPI_CART) {
        real.Cartdim_get((word) comm, (word) &n);
        n *= 2;
    } else if (topology == MPI_GRAPH) {
        real.Graph_neighbors_count((word) comm, group->rank, (word) &n);
    } else if (topology == MPI_DIST_GRAPH) {
        real.Dist_graph_neighbors_count((word) comm, (word) &from, (word) &n, (word) &weighted);
    }
    return group->neighbors = n;
}

static atomic_long *messages_of(struct group *group)
{
    atomic_long *found = group->messages;
    if (found == NULL) {
        atomic_long *fresh = calloc(2 * (size_t) group->blocks, sizeof *fresh);
        if (atomic_compare_exchange_strong(&group->messages, &found, fresh))
            return fresh;
        free(fresh);
    }
    return found;
}

/* Count a message to, from, or both: the number of the sent one, else of the received one. */
int64_t next_message(struct group *group, int to, int from)
{
    atomic_long *counts = messages_of(group);
    int64_t seq = BLANK;
    if (from >= 0 && from < group->blocks)
        seq = counts[group->blocks + from]++;
    if (to >= 0 && to < group->blocks)
        seq = counts[to]++;
    return seq;
}
