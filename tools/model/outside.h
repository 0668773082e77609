/*
 * Limits on the memory of a process from outside: NVIDIA's MPS, and MIG, as far as the snapshot shows.
 */
#ifndef GP_TOOLS_MODEL_OUTSIDE_H
#define GP_TOOLS_MODEL_OUTSIDE_H

#include <stdbool.h>

#include "tools/read/snapshot.h"

#define GP_OUTSIDE_MPS_LIMIT "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"

/* An environment variable of the process (process.environment); "": not set, or unknown. */
const char *gp_outside_variable(const gp_snapshot_t *snapshot, const char *name);

/*
 * The most bytes of device that a list such as CUDA_MPS_PINNED_DEVICE_MEM_LIMIT, "0=1G,1=512M", allows.
 * False: the list has no limit for the device, or is malformed. is_only: device is the only one in use.
 * Then a key that is not a number (a device's UUID) stands for it, if the list has no other key.
 */
bool gp_outside_mps_limit(const char *list, int device, bool is_only, uint64_t *ret_bytes);

/* The variable that selects a part of a GPU (MIG) for the process; NULL: none. Static. */
const char *gp_outside_mig(const gp_snapshot_t *snapshot);

#endif
