/*
 * Libraries by which other devices than the GPU reach GPU memory: network cards, disks, the host's own
 * mapping.
 */
#ifndef GP_INTERPOSE_HOOKS_RDMA_H
#define GP_INTERPOSE_HOOKS_RDMA_H

#include "pool/engine.h"

/*
 * Looks for such a library in the process, and ends the order of a single stream (pool/reuse/single_stream.h)
 * when there is one: those devices keep to no stream. Takes the loader's lock, and the host may wait. If
 * nothing was loaded since the last look, that was all; so it may be called at each call that is rare or
 * slow.
 */
void gp_rdma_look(gp_engine_t *engine);

#endif
