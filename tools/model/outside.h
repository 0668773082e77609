/*
 * What limits the memory of a process from outside: NVIDIA's MPS, and MIG, as far as the snapshot shows.
 */
#ifndef GP_TOOLS_MODEL_OUTSIDE_H
#define GP_TOOLS_MODEL_OUTSIDE_H

#include <stdbool.h>

#include "tools/read/snapshot.h"

#define GP_OUTSIDE_MPS_LIMIT "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"

/* The value of an environment variable of the process (process.environment); "": not set, or not known. */
const char *gp_outside_variable(const gp_snapshot_t *snapshot, const char *name);

/*
 * The most bytes that a list as that of CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, "0=1G,1=512M", lets a process have
 * of device. false: it has no limit for the device, or is malformed. Where is_only, the only device in use, a
 * key that is no number (the UUID of a device) stands for it if the list has no other key.
 */
bool gp_outside_mps_limit(const char *list, int device, bool is_only, uint64_t *ret_bytes);

/* The variable that selects a part of a GPU (MIG) for the process; NULL: none does. Static. */
const char *gp_outside_mig(const gp_snapshot_t *snapshot);

#endif
