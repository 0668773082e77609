/*
 * Block records: taken from slabs, recycled, and returned to the host with the engine only, so that a free
 * that races with the end of its block never reads memory that is gone.
 */
#include <stdlib.h>

#include "pool/state.h"

#define SLAB_RECORDS 256

struct gp_slab {
  struct gp_slab *next;
  gp_block_t records[SLAB_RECORDS];
};

static bool add_slab(gp_engine_t *engine)
{
  struct gp_slab *slab = calloc(1, sizeof(*slab));
  if (!slab)
    return false;
  slab->next = engine->slabs;
  engine->slabs = slab;
  for (int i = SLAB_RECORDS - 1; i >= 0; i--) {
    slab->records[i].bin_next = engine->free_records;
    engine->free_records = &slab->records[i];
  }
  return true;
}

gp_block_t *gp_record_take(gp_engine_t *engine)
{
  gp_block_t *block = NULL;

  gp_lock_take(&engine->records_lock);
  if (engine->free_records || add_slab(engine)) {
    block = engine->free_records;
    engine->free_records = block->bin_next;
  }
  gp_lock_release(&engine->records_lock);
  if (!block)
    return NULL;
  block->bin_next = NULL;
  block->bin_previous = NULL;
  block->refs = 0;
  block->observer_cookie = 0;
  block->tainted = false;
  block->exact = false;
  gp_list_init(&block->all);
  gp_list_init(&block->order);
  gp_list_init(&block->release.link);
  return block;
}

void gp_record_give(gp_engine_t *engine, gp_block_t *block)
{
  gp_lock_take(&engine->records_lock);
  block->bin_next = engine->free_records;
  engine->free_records = block;
  gp_lock_release(&engine->records_lock);
}

void gp_records_fini(gp_engine_t *engine)
{
  while (engine->slabs) {
    struct gp_slab *next = engine->slabs->next;
    free(engine->slabs);
    engine->slabs = next;
  }
  engine->free_records = NULL;
}
