/*
 * Calls of functions that free memory and that the tables do not know. The driver's free must not get an
 * address that the pool holds: it may be that of a whole segment, or of memory that the program has already
 * freed. So this module answers such a call if its first argument is such an address.
 */
#ifndef GP_INTERPOSE_ROUTES_UNKNOWN_FREES_H
#define GP_INTERPOSE_ROUTES_UNKNOWN_FREES_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/routes/classes.h"
#include "pool/engine.h"

/*
 * The function that a trampoline must jump to instead of the driver's, with the caller's
 * arguments. NULL: the driver's, since the pool does not hold the memory, or no longer. name: the
 * function's name. Any thread.
 */
void *gp_unknown_free_answer(gp_engine_t *engine, gp_frees_t frees, uint64_t address, const char *name);

#endif
