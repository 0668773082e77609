/*
 * Memory that processes share (ipc.c), for memory.c.
 */
#ifndef SIM_IPC_H
#define SIM_IPC_H

#include "sim.h"

void sim_ipc_forget(
    const sim_block_t *block); /* of an exported block: its handles open nothing from here on */
void sim_ipc_unmap(const sim_block_t *block); /* of an opened one: its addresses go back to the arena */

#endif
