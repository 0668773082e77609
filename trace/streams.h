/*
 * Stream handles by small indexes, in order of first appearance. A handle is not an identity (the driver uses
 * the values again), so an index says no more than the handle did.
 */
#ifndef GP_TRACE_STREAMS_H
#define GP_TRACE_STREAMS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define GP_STREAMS_MAX   4096
#define GP_STREAMS_SLOTS (4 * GP_STREAMS_MAX) /* a power of two */

/* Zeroed memory plus gp_streams_init. handles[] below count never change. */
typedef struct gp_streams {
  pthread_mutex_t mutex;
  _Atomic uint32_t count;
  uint64_t handles[GP_STREAMS_MAX];
  _Atomic uint16_t slots[GP_STREAMS_SLOTS]; /* index + 1, open addressing; 0: empty */
} gp_streams_t;

int gp_streams_init(gp_streams_t *streams);
void gp_streams_fini(gp_streams_t *streams);

/* The index of a handle; -1 if it is new and the table is full. Locks only for a new handle. Safe from any
 * thread. */
int16_t gp_streams_intern(gp_streams_t *streams, uint64_t handle);

#endif
