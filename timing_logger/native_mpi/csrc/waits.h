/* What the wrappers of waiting functions share: they differ by how a language passes requests and statuses. */
#ifndef WAITS_H
#define WAITS_H

#include "native.h"

#define CALLER __builtin_return_address(0)

struct binding {
    MPI_Request (*request_at)(word requests, int i);
    MPI_Status (*status_at)(word statuses, int i);
    int (*index_at)(word indices, int i); /* from 0 */
    bool (*is_ignored)(word statuses);
};
extern const struct binding in_c, in_fortran;

/* What a call waits for: the operations of those of its requests that have rows. */
struct waited {
    const struct binding *binding;
    word requests, told; /* `told`: the program's statuses, or our own where it wants none and a row needs them */
    int n;
    struct pending **pending; /* NULL for a request without a row; behind them there is room for n statuses */
    struct call *call;
    bool is_told;
};

#define COUNT_AT(counts, i) count_at(counts, i, COUNT_BYTES)

/* Of an array of datatypes, as this binding passes them. */
#define BYTES_OF_TYPES(counts, types, n)                                                                           \
    ({                                                                                                             \
        int64_t sum = 0;                                                                                           \
        for (int i = 0, last = (n); i < last; i++)                                                                 \
            sum += bytes(COUNT_AT(counts, i), TYPE_AT(types, i));                                     \
        sum;                                                                                                       \
    })

struct waited begin_wait(const struct binding *binding, word requests, int n, word statuses);
int end_wait(struct waited *waited, int code, int n_completed, word indices);
void all_started(const struct binding *binding, word requests, int n, int64_t start_ns);
MPI_Status status_f2c(word status);

#endif
