/*
 * A stream, and the table of them: what reuse/streams.c, reuse/epoch/ and reuse/without_epoch.c share.
 * engine->contexts_lock guards all of it, but for what is atomic, and for the fence.
 */
#ifndef GP_POOL_REUSE_STREAM_RECORD_H
#define GP_POOL_REUSE_STREAM_RECORD_H

#include "pool/reuse/epoch_facts.h"
#include "pool/reuse/work_flags.h"
#include "pool/state.h"

struct gp_stream {
  gp_list_t link; /* in context->streams, or in the table's list of free ones */
  gp_context_t *context;
  uint64_t handle;
  _Atomic uint64_t id; /* never used again; 0: in the free list */
  _Atomic uint64_t completed;
  gp_work_flag_t *flag; /* its place in gp_work_flags, or own_flag */
  gp_work_flag_t own_flag;
  uint64_t end_epoch; /* 0: it exists */
  uint64_t
      sync_epoch; /* of the last synchronization of the context that may clear the flag, with its token */
  uint32_t sync_token;
  const gp_submitter_t *submitter; /* of a thread's default stream: which thread's, ... */
  uint64_t submitter_owner;        /* ... while the submitter is still that thread's */
  atomic_bool asked; /* a thread asks the driver about it, see stream_fences.c: it owns the fence ... */
  void *fence;       /* ... which the driver made; NULL: not yet ... */
  gp_context_t *fence_context; /* ... in this context ... */
  gp_stream_fact_t fence_fact; /* ... and what it will tell; stream is NULL: it is not recorded */
};

struct gp_stream_table {
  gp_address_map_t by_handle; /* created ones */
  gp_list_t free;
  uint64_t last_id;
  uint64_t default_epoch; /* with default_token, 0: none; see epoch/stream_facts.c */
  uint32_t default_token;
};

#endif
