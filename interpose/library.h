/*
 * The life of the preload library in its process: it starts at the first hooked call, stands aside when it
 * must, falls silent in a forked child, and reports at exit. It has no constructor.
 */
#ifndef GP_INTERPOSE_LIBRARY_H
#define GP_INTERPOSE_LIBRARY_H

#include "pool/engine.h"

/*
 * For hooks, which begin a call of the program with it: the engine, started by the first call; NULL: forward
 * the call to the driver (GPUPOOL_DISABLE, a forked child, no memory for our records, a call from within the
 * start). After a call GP_REAL is bound if the process has a driver.
 */
gp_engine_t *gp_library_engine(void);

/* From now on every call is forwarded; memory already handed out stays ours to free. Say why before. */
void gp_library_stop_pooling(void);

#endif
