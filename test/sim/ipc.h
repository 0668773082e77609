/*
 * Memory that processes share (ipc.c).
 */
#ifndef SIM_IPC_H
#define SIM_IPC_H

#include "sim.h"

/* No padding: equal handles have equal bytes. */
typedef struct {
  uint64_t process, file, inode; /* the exporter, its descriptor, and which file it stands for */
  uint64_t arena_bytes, offset;  /* where the allocation begins in the file */
  uint64_t bytes, id;
} sim_ipc_handle_t;

bool sim_ipc_export(sim_ipc_handle_t *ret, sim_block_t *block); /* false: the arena has no file */
/* Its handles open nothing from here on. */
void sim_ipc_forget(const sim_block_t *block);

/* Gives a new block the memory, addresses in the host's arena, and an id. */
CUresult sim_ipc_open(sim_block_t *block, const sim_ipc_handle_t *handle);
void sim_ipc_unmap(const sim_block_t *block); /* of an opened one: its addresses go back to the arena */

#endif
