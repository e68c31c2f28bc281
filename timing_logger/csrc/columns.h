/* The values of a row besides its instants, as the writers in C hold them: timing_logger/record.py has the columns. */
#ifndef TIMING_LOGGER_COLUMNS_H
#define TIMING_LOGGER_COLUMNS_H

#include <stdint.h>

enum { N_NAMES = 8, N_NUMBERS = 6 };
enum { LAYER_NAME, OPERATION, PHASE, CLOCK, GROUP, THREAD, STATUS, STREAM };
enum { ITERATION, EPOCH, SIZE, GROUP_SIZE, SEQ, PEER };

#define HAS_END (1u << N_NUMBERS) /* the bits below say which of the numbers there are */

#endif
