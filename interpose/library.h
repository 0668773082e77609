/*
 * The life of the preload library in its process: the first hooked call starts it; in a forked child it does
 * nothing; at exit it reports. It has no constructor. Uses everything below the hooks, and trace/.
 */
#ifndef GP_INTERPOSE_LIBRARY_H
#define GP_INTERPOSE_LIBRARY_H

#include "pool/engine.h"

/*
 * The engine, which the first call starts. A hook calls this first, with no lock held. NULL: the hook
 * forwards the call to the driver (GPUPOOL_DISABLE, a forked child, no host memory for the records, a call
 * from within the start). Binds GP_REAL if the process has a driver. Any thread.
 */
gp_engine_t *gp_library_engine(void);

/* The engine's recorder and its snapshot writer, after gp_library_engine has returned. Both are NULL if the
 * host had no memory for a record. Any thread. */
struct gp_recorder *gp_library_recorder(void);
struct gp_snapshot_writer *gp_library_snapshots(void);

/* The recorder once the library has started, and NULL in a child. Starts nothing. Any thread. */
struct gp_recorder *gp_library_started_recorder(void);

/* GPUPOOL_NVTX, from where all settings come. Any thread, also before the start. */
bool gp_library_records_nvtx(void);

/* The engine if it answers for NVML: GPUPOOL_NVML says so, and the library has started. Starts nothing. Any
 * thread. */
gp_engine_t *gp_library_nvml_engine(void);

/*
 * Which calls the library may serve in the runtime's place (hooks/runtime_calls.h). None with
 * GPUPOOL_RUNTIME_HOOKS=0 or where a tool watches the process's CUDA calls, and none whose stack is
 * recorded, so that stacks always show the runtime. For callers that got an engine.
 */
typedef struct gp_runtime_share {
  uint64_t most_bytes; /* largest served allocation; 0: serves none */
  bool frees;
} gp_runtime_share_t;

const gp_runtime_share_t *gp_library_runtime_share(void);

/* From now on every call is forwarded; the pool still frees the memory that it has handed out. The caller
 * logs the reason first. Any thread, also before the start. */
void gp_library_stop_pooling(void);

#endif
