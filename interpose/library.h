/*
 * The life of the preload library in its process: it starts at the first hooked call, stands aside when it
 * must, falls silent in a forked child, and reports at exit. It has no constructor.
 */
#ifndef GP_INTERPOSE_LIBRARY_H
#define GP_INTERPOSE_LIBRARY_H

#include <stdint.h>

#include <stdbool.h>

#include "pool/engine.h"

/*
 * For hooks, which begin a call of the program with it: the engine, started by the first call; NULL: forward
 * the call to the driver (GPUPOOL_DISABLE, a forked child, no memory for our records, a call from within the
 * start). After a call GP_REAL is bound if the process has a driver.
 */
gp_engine_t *gp_library_engine(void);

/* The same where the engine itself is calling, in the middle of a call of the program: who asked stays known.
 */
gp_engine_t *gp_library_calling_engine(void);

/* From now on every call is forwarded; memory already handed out stays ours to free. Say why before. */
void gp_library_stop_pooling(void);

/*
 * Whether the reuse mode that is asked for has to know all work (GPUPOOL_REUSE=epoch or single). Does not
 * start the library, so that a look-up may ask.
 */
bool gp_library_wants_work(void);

#endif
