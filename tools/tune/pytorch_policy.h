/*
 * What PyTorch's caching allocator would hold for the same requests, to compare with: its policy as its
 * source has it (c10/cuda/CUDACachingAllocator.cpp, release 2.5, without expandable segments and with its
 * default settings), written anew. All requests are in one stream and freed memory can be used at once, which
 * is the best case for it.
 */
#ifndef GP_TOOLS_TUNE_PYTORCH_POLICY_H
#define GP_TOOLS_TUNE_PYTORCH_POLICY_H

#include "tools/replay/workload.h"

typedef struct gp_pytorch_figures {
  uint64_t held; /* most that it had from the driver, and what no pool serves; several devices added */
  uint64_t calls;
  double cost_ns; /* of these, as gp_offline_cost */
} gp_pytorch_figures_t;

/* Returns 0 or ENOMEM. */
int gp_pytorch_policy(gp_pytorch_figures_t *ret_figures, const gp_workload_t *workload);

#endif
