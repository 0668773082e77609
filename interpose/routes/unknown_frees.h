/*
 * Calls of functions that free memory, and that the tables do not know. The driver's free must not get an
 * address that the pool holds: it may be that of a whole segment, or of memory that the program has freed
 * already. So such a call is answered here, where its first argument is one.
 */
#ifndef GP_INTERPOSE_ROUTES_UNKNOWN_FREES_H
#define GP_INTERPOSE_ROUTES_UNKNOWN_FREES_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/routes/classes.h"
#include "pool/engine.h"

/*
 * What a trampoline is to jump to in the place of the driver's function, with the caller's arguments; NULL:
 * to that function, since the pool does not hold the memory, or does not any more. name: the function's. Any
 * thread.
 */
void *gp_unknown_free_answer(gp_engine_t *engine, gp_frees_t frees, uint64_t address, const char *name);

#endif
