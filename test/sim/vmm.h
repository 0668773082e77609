/*
 * Virtual memory management: what physical memory (vmm_physical.c) and its mappings (vmm.c) share.
 */
#ifndef SIM_VMM_H
#define SIM_VMM_H

#include "sim.h"

typedef struct sim_physical {
  sim_device_t *device; /* charged for it; NULL: host memory */
  uint64_t size;
  sim_file_t file; /* that is the memory, once it is exported or if it was imported */
  bool imported;   /* from another process, which is charged for it */
  unsigned refs;   /* handles and mappings */
  CUmemAllocationProp prop;
  struct sim_physical *prev, *next;
} sim_physical_t;

/* Bytes of a device in physical memory that is mapped only where no owner has any. */
uint64_t sim_vmm_unowned(const sim_device_t *device);
sim_physical_t *sim_vmm_physical(CUmemGenericAllocationHandle handle); /* NULL: no such handle */
void sim_vmm_unref(sim_physical_t *physical);
/* The mappings of the memory are of the file from now on. False: the system refuses. */
bool sim_vmm_move(const sim_physical_t *physical, const sim_file_t *file);
/* One more reference to `handle` if it still stands for `physical` or for nothing, else to a new one. */
CUmemGenericAllocationHandle sim_vmm_retain(CUmemGenericAllocationHandle handle, sim_physical_t *physical);

#endif
