/*
 * What the functions of gpupool.h have in common. This folder is the top of the library: it may include all
 * of interpose/ and trace/, and nothing includes it.
 */
#ifndef GP_INTERPOSE_API_API_H
#define GP_INTERPOSE_API_API_H

#include "interpose/api/gpupool.h"
#include "pool/engine.h"
#include "pool/util/lock.h"

#define GP_API __attribute__((visibility("default")))

/*
 * Guards what the functions keep of their own. While it is held the engine may be read, but no memory given
 * back: a request of the user may wait for the driver, and the others for it.
 */
extern gp_lock_t gp_api_lock;

/*
 * A program, or PyTorch, may have opened the library as any other. Then the program's calls do not come here,
 * and a pool that does not see its captures and synchronizations must not begin: false. Any thread.
 */
bool gp_api_is_preloaded(void);

/*
 * The engine, which the first call starts. Not GPUPOOL_OK: *ret_engine is untouched, and this is what the
 * function returns. Called with no lock held.
 */
gpupool_result_t gp_api_engine(gp_engine_t **ret_engine);

/* The same, and *device becomes the ordinal of a device that there is; GPUPOOL_INVALID: there is none of that
 * ordinal. */
gpupool_result_t gp_api_device(gp_engine_t **ret_engine, int *device);

#endif
