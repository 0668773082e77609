/*
 * The life cycle of the preload library in its process. The first hooked call starts the library; in a forked
 * child the library does nothing; at exit it writes reports. It has no constructor. This module uses
 * everything below the hooks, and trace/.
 */
#ifndef GP_INTERPOSE_LIBRARY_H
#define GP_INTERPOSE_LIBRARY_H

#include "pool/engine.h"

/*
 * Returns the engine; the first call starts it. A hook calls this first, with no lock held. If it returns
 * NULL, the hook forwards the call to the driver (GPUPOOL_DISABLE, a forked child, no host memory for the
 * records, or a call from within the start). Binds GP_REAL if the process has a driver. Any thread.
 */
gp_engine_t *gp_library_engine(void);

/* Return the engine's recorder and its snapshot writer; call them after gp_library_engine has returned. Both
 * return NULL if there was no host memory for a record. Any thread. */
struct gp_recorder *gp_library_recorder(void);
struct gp_snapshot_writer *gp_library_snapshots(void);

/* Returns the recorder if the library has started. Returns NULL otherwise, and in a forked child. Never
 * starts the library. Any thread. */
struct gp_recorder *gp_library_started_recorder(void);

/* Returns true if GPUPOOL_NVTX=1 is set in the environment or a settings file, and the library is not
 * disabled. Any thread, also before the start. */
bool gp_library_records_nvtx(void);

/* Returns the engine if GPUPOOL_NVML=limit is set and the library has started, else NULL. Never starts the
 * library. Any thread. */
gp_engine_t *gp_library_nvml_engine(void);

/*
 * The calls that the library may serve in the runtime's place (hooks/runtime_calls.h). It serves none with
 * GPUPOOL_RUNTIME_HOOKS=0, or if a tool watches the process's CUDA calls. It serves no call whose stack is
 * recorded, so that stacks always show the runtime. For callers that got an engine.
 */
typedef struct gp_runtime_share {
  uint64_t most_bytes; /* largest served allocation; 0: serves none */
  bool frees;
} gp_runtime_share_t;

const gp_runtime_share_t *gp_library_runtime_share(void);

/* Forwards every call from now on; the pool still frees the memory that the program got from it. The caller
 * logs the reason first. Any thread, also before the start. */
void gp_library_stop_pooling(void);

#endif
