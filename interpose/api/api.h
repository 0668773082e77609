/* Code that the functions of gpupool.h share. This folder is the top layer of the library: it may include all
 * of interpose/ and trace/, and no other folder includes it. */
#ifndef GP_INTERPOSE_API_API_H
#define GP_INTERPOSE_API_API_H

#include "interpose/api/gpupool.h"
#include "pool/engine.h"
#include "base/lock.h"

#define GP_API __attribute__((visibility("default")))

/* Guards the records of the API functions (scopes, statistics at the last reset). A thread that holds this
 * lock may read the engine, but must not release memory: a release may wait for the driver, and other threads
 * would wait for the lock. */
extern gp_lock_t gp_api_lock;

/*
 * Returns true if the library was preloaded. False means that the program, or PyTorch, opened it like any
 * other library: the program's calls do not reach it, and the pool must not start, because it would miss
 * captures and synchronizations. Any thread.
 */
bool gp_api_is_preloaded(void);

/* Stores the engine in *ret_engine; the first call starts it. If the result is not GPUPOOL_OK, *ret_engine is
 * unchanged, and the API function returns that result to the program. The caller holds no lock. */
gpupool_result_t gp_api_engine(gp_engine_t **ret_engine);

/* Calls gp_api_engine. If *device is GPUPOOL_CURRENT, replaces it with the current device's ordinal. Returns
 * GPUPOOL_INVALID if the device does not exist. */
gpupool_result_t gp_api_device(gp_engine_t **ret_engine, int *device);

#endif
