/* The common parts of the functions of gpupool.h. This folder is the top of the library: it may include all
 * of interpose/ and trace/, and nothing includes it. */
#ifndef GP_INTERPOSE_API_API_H
#define GP_INTERPOSE_API_API_H

#include "interpose/api/gpupool.h"
#include "pool/engine.h"
#include "base/lock.h"

#define GP_API __attribute__((visibility("default")))

/* Guards the functions' own records. A thread that holds it may read the engine, but not give memory back:
 * that may wait for the driver, and other threads would wait for the lock. */
extern gp_lock_t gp_api_lock;

/*
 * The library was preloaded. False: the program, or PyTorch, has opened it like any other library. Then the
 * program's calls do not reach it, and the pool must not begin, since it would not see captures and
 * synchronizations. Any thread.
 */
bool gp_api_is_preloaded(void);

/* The engine, which the first call starts. If the result is not GPUPOOL_OK, *ret_engine is untouched, and
 * the function returns the result to the program. The caller holds no lock. */
gpupool_result_t gp_api_engine(gp_engine_t **ret_engine);

/* The same, and sets *device to the ordinal of an existing device; GPUPOOL_INVALID:
 * there is no such device. */
gpupool_result_t gp_api_device(gp_engine_t **ret_engine, int *device);

#endif
