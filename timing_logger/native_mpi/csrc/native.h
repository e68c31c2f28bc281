/* What the files of this library share: a call goes from wrappers.c to calls.c, as a row into rows.c, and from
   there to output.c, which the writer thread of lifecycle.c calls. */
#ifndef NATIVE_H
#define NATIVE_H

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An argument as it is handed on: MPI's are all integers, handles or pointers, which take one register each.
   So a call reaches MPI as it came, even if the program uses another MPI than this library was built for. */
typedef intptr_t word;

#include "real.h"

/* An instant on both clocks: that of the rows, and the wall clock. */
struct anchor {
    int64_t counter_ns, unix_ns, uncertainty_ns;
};

#define BLANK INT64_MIN /* a number that the row does not state */
#define NOBODY (-1)     /* MPI_PROC_NULL, or no such parameter */
#define ANYBODY (-2)    /* MPI_ANY_SOURCE, until the message has come */
#define EXPORTED __attribute__((visibility("default")))

/* -- real.c: the MPI that the program uses ------------------------------------------------------------- */

#ifdef OPEN_MPI /* its handles are addresses in its library, which this one is not linked with */
extern struct constants {
    void *world, *comm_null, *request_null, *byte, *win_null, *file_null;
} constants;
#define WORLD ((MPI_Comm) constants.world)
#define NO_COMM ((MPI_Comm) constants.comm_null)
#define NO_REQUEST ((MPI_Request) constants.request_null)
#define BYTE ((MPI_Datatype) constants.byte)
#define NO_WIN ((MPI_Win) constants.win_null)
#define NO_FILE ((MPI_File) constants.file_null)
#else
#define WORLD MPI_COMM_WORLD
#define NO_COMM MPI_COMM_NULL
#define NO_REQUEST MPI_REQUEST_NULL
#define BYTE MPI_BYTE
#define NO_WIN MPI_WIN_NULL
#define NO_FILE MPI_FILE_NULL
#endif

/* Find MPI's own functions from the place that called the first of ours. */
void find_real(const void *caller);
/* Where to look for a function that this library has as well. */
void *library_of(const void *caller, const char *function);
/* Say in a file of the log folder why a process is not timed: its own output is left as it is. */
void note_problem(const char *reason);
MPI_Comm comm_f2c(word comm);
MPI_Datatype type_f2c(word datatype);
MPI_Request request_f2c(word request);
MPI_Win win_f2c(word win);
MPI_File file_f2c(word file);
bool is_fortran_in_place(word buffer);
bool is_fortran_ignored(word status);

/* -- groups.c: communicators, windows and files ----------------------------------------------------------------------------- */

struct group {
    char *text;        /* its name, escaped */
    char *cell;        /* the same as a cell of CSV */
    int number;        /* the name's number in the ring; -1 if there was no room for it */
    int size;          /* the ranks of both groups of an intercommunicator */
    int rank;          /* this process's */
    int own_size;      /* the ranks of this process's group */
    int blocks;        /* the blocks of a buffer with one block a rank: the ranks of the remote group, or all */
    int neighbors;     /* how many it sends to in a topology; -1 until it is asked for */
    atomic_long collectives;
    _Atomic(atomic_long *) messages; /* to each rank, then from each rank */
    atomic_int users;  /* the communicator, and the operations that are under way */
    char *ranks;       /* of a window or file: its name without the number behind it */
    int nth;           /* which of this name it is */
    bool idle;         /* no window or file has it now */
    struct group *next, *next_to_free;
};

void begin_groups(void);
/* The group of a communicator, which the first call makes; NULL for the null communicator. */
struct group *group_of(MPI_Comm comm);
void rename_group(MPI_Comm comm);
void keep_group(struct group *group);
void drop_group(struct group *group);
int neighbors(struct group *group, MPI_Comm comm);
int64_t next_message(struct group *group, int to, int from);
/* A window's or file's group is named after its ranks: "ranks 0-3 file". The next file of the same ranks takes over
   the first name that is idle, with its counts: a program may open thousands. */
enum kind { A_WINDOW, A_FILE };
/* The group of a handle, which the first call takes; NULL for the null handle. */
struct group *group_of_handle(enum kind kind, word handle);
/* Forget whose group this is. */
void handle_ends(enum kind kind, word handle);
/* Leave the name to the next window or file. */
void leave_idle(struct group *group);
/* Free the groups that nobody uses any more: called by the writer, which may look at any group. */
void free_groups(void);
/* Call `tell` for each live group, under the lock of their list. */
void for_each_group(void (*tell)(const struct group *, void *), void *context);

/* -- calls.c: what is timed --------------------------------------------------------------------------------- */

struct call {
    const char *operation, *thread;
    struct group *group;
    int64_t start_ns, bytes, seq;
    int to, from, peer;
    bool is_collective, only_receives;
};

struct thread {
    const char *cell;       /* its name, as a cell of CSV */
    struct call call;       /* the one that it is in; MPI's own calls in it are not timed */
    atomic_long since_ns;   /* when it began; 0 outside of any */
    bool inside;
    atomic_bool in_use;
    struct thread *next;
};

extern atomic_bool recording, paused;

int64_t now_ns(void);
/* Whether the calling thread's call is handed on untimed. */
bool passes(const void *caller);
struct call *collective(const char *operation, MPI_Comm comm);
struct call *collective_of(const char *operation, struct group *group);
/* A call that some ranks of a group make. */
struct call *unnumbered(const char *operation, struct group *group, int peer);
struct call *message(const char *operation, MPI_Comm comm, int to, int from);
struct call *receive(const char *operation, MPI_Comm comm, int from);
void set_root(struct call *call, int root, bool root_sends);
void enter(struct call *call);
/* End the calling thread's call, write its row, and return `code`. */
int leave(struct call *call, int code);
/* Whether only the status tells from which rank a message came, or how many bytes. */
bool learns_from_status(const struct call *call);
/* `status` is that of a call that learns from it, else NULL. */
int leave_message(struct call *call, int code, const MPI_Status *status);
int64_t bytes_of(const MPI_Status *status);
int leave_read(struct call *call, int code, const MPI_Status *status);
/* The row is the first of the communicator that the call made. */
int leave_as_first(struct call *call, int code, MPI_Comm made);
int leave_probe(struct call *call, int code, bool found, const MPI_Status *status);
/* End the calling thread's call without a row. */
int64_t leave_silently(void);
/* End the calling thread's call, if it is in one, as MPI itself is about to end the process. */
void fail_call(const char *status);
/* Write a row of a call that never returns. */
void write_abort(MPI_Comm comm);
struct call *wait_call(const struct call *of);
void write_row(const struct call *call, const char *operation, int64_t start_ns, int64_t end_ns,
               const char *status, const char *thread);
struct row row_of(const struct call *call, const char *operation, int64_t start_ns, int64_t end_ns,
                  const char *status, const char *thread);
const char *status_name(int code);
int64_t bytes(int64_t count, MPI_Datatype datatype);
int64_t count_at(word counts, int i, int count_bytes);
int64_t total(word counts, int n, int count_bytes);
bool is_root(const struct group *group, int root);
/* Count a call that may wait for other ranks and makes no row, by a constant name. */
void count_untimed(const char *name);
void for_each_untimed(void (*tell)(const char *name, long n, void *), void *context);
void for_each_thread(void (*tell)(const struct call *, void *), int64_t before_ns, void *context);

/* -- requests.c: what goes on in the background ------------------------------------------------------------- */

int issued(struct call *call, int code, MPI_Request request);
int prepared(struct call *call, int code, MPI_Request request);
int matched(struct call *call, int code, bool found, word message, const MPI_Status *status);
/* The call of a receive of the message that a matched probe found; NULL if none of ours found it. */
struct call *receive_matched(const char *operation, word message);
void lose_requests(void);
void for_each_request(void (*tell)(const struct call *, void *), int64_t before_ns, void *context);

void forget(MPI_Request request);
void cancelled(MPI_Request request);

/* -- rows.c: rows on their way to the writer ------------------------------------------------------------------ */

struct row {
    int64_t start_ns, end_ns, bytes, seq;
    const char *operation, *status, *thread;
    struct group *group;
    int peer;
};

/* Make the ring of this process, of which the first timing file is this one; false if there is no memory. */
bool begin_rows(const char *timing_file, struct anchor started);
/* Remove its file: all that it held is written. */
void end_rows(void);
/* The path of its file; "" if there is none. */
const char *ring_path(void);
/* The number of a name, which is escaped, and of its cell; both stay. -1 if there is no room for it. */
int number_of_cell(const char *text, const char *quoted);
void put(const struct row *row);
/* Take the oldest rows as lines into so much room, and move `*out` behind these. Returns how many lines there are. */
enum { NO_ROWS = -1, NO_ROOM = -2 };
int take_lines(char **out, size_t room, int64_t wall_offset_ns);
/* What was taken is in a file. */
void release_rows(void);
/* Have the ring say where the process stands. */
void note_standing(int64_t now_ns, int64_t progressed_ns);
void wait_for_rows(int64_t timeout_ns);
void wake_writer(void);
/* Whether there was a name for which the ring has no room: a kill loses the rows that have one. */
extern atomic_bool lacks_names;
int64_t n_accepted(void);
int64_t n_dropped(void);

/* -- output.c: the timing file -------------------------------------------------------------------------------- */

struct part;
/* Create the first free file of this rank; false if there is none. */
bool create_file(const char *folder, int rank);
/* Where the first part of it is. */
void path_of_file(char *path, size_t room);
/* Write all rows that are there; false if that is not possible for now. */
bool write_rows(void);
void close_file(void);
void for_each_part(void (*tell)(const struct part *, void *), void *context);
extern atomic_long written, lost; /* `lost`: written into files that are gone */
extern char file_name[64], last_error[256]; /* the name of the first part */

/* -- cells.c ------------------------------------------------------------------------------------------------------ */

/* A name, escaped, and as a cell of CSV. */
struct cell {
    char *text, *quoted;
};
struct cell cell_of(const char *name);

/* -- lifecycle.c -------------------------------------------------------------------------------------------------- */

/* Start the writer before MPI begins. */
void prepare_timing(void);
void begin_timing(void);
void end_timing(bool closed);
/* The same, where the program ends all ranks: there is a row for that. */
void abort_timing(MPI_Comm comm);
/* The most that a row has waited by now, if any waits, in s. */
double behind_s(void);
int64_t writer_cpu_ns(void);
extern atomic_long progress; /* moves whenever the disk has taken something */
extern int incarnation;

/* -- threads.c ---------------------------------------------------------------------------------------------------- */

/* Start a thread that takes no signals, and whose descriptors are its own, none of the program's among them. */
bool start_thread(pthread_t *thread, void (*runs)(void));

/* -- identity.c ---------------------------------------------------------------------------------------------------- */

void read_identity(void);
const char *run_id(void);
const char *launch_id(void);
const char *world(void); /* "" for the ranks that were started first */

/* -- sidecar.c -------------------------------------------------------------------------------------------------- */

/* Ask MPI and the environment what the sidecar says of this process ... */
void begin_sidecar(const char *folder, int rank, int world_size);
/* ... and see where it is to be, beside the timing file. */
void open_sidecar(void);
/* ENDED: what is not written by now never is, and the program did not come to its own end. CLOSED: it did. */
enum state { RUNNING, ENDED, CLOSED };
struct anchor sidecar_anchor(void);
void write_sidecar(enum state state);
void sidecar_name(char *name, size_t room);
/* Whether the file names of this process are another's by now. */
bool sidecar_is_anothers(void);
/* Follow the timing file to its new name. */
void move_sidecar(void);
struct anchor read_anchor(void);

/* -- standing.c -------------------------------------------------------------------------------------------------- */

extern int64_t hang_after_ns; /* after so long, an open call is told of */
extern int64_t progressed_ns; /* when the writer last saw a new row */

void begin_standing(void);
/* How many collectives were begun and completed in each group where there were any. */
void for_each_standing(void (*tell)(const struct group *, int64_t issued, int64_t completed, void *), void *context);
/* Write rows and a sidecar about the calls that have been open for too long, once for each. */
void look_for_hangs(void);
/* Write a row about each call that was open before, unless there is one. */
void write_open_calls(int64_t before_ns);

#endif
