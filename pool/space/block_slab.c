#include "pool/space/block_slab.h"

#include "pool/engine_record.h"

#include "base/pages.h"

#define SLAB_RECORDS 256

/* A slot for a block. Its alignment is two cache lines, which processors fetch together, so that the blocks
 * of two threads share none. The block type itself is not aligned, because list macros treat the head of a
 * list as a member of a block. */
typedef struct place {
  _Alignas(2 * GP_CACHE_LINE) gp_block_t block;
} place_t;

struct gp_slab {
  struct gp_slab *next;
  place_t places[SLAB_RECORDS];
};

void gp_block_slab_init(gp_engine_t *engine)
{
  gp_lock_init(&engine->slab_lock, GP_RANK_SLAB);
}

/* The caller of put, add_slab and take holds slab_lock. */

static void put(gp_engine_t *engine, gp_block_t *block)
{
  gp_assert_internal(gp_lock_is_held(&engine->slab_lock));
  block->in_bin.next = engine->free_records ? &engine->free_records->in_bin : NULL;
  engine->free_records = block;
}

static bool add_slab(gp_engine_t *engine)
{
  struct gp_slab *slab = gp_pages_map(sizeof(*slab), false);
  if (!slab)
    return false;
  slab->next = engine->slabs;
  engine->slabs = slab;
  for (int i = SLAB_RECORDS - 1; i >= 0; i--)
    put(engine, &slab->places[i].block);
  return true;
}

static gp_block_t *take(gp_engine_t *engine)
{
  gp_assert_internal(gp_lock_is_held(&engine->slab_lock));
  if (!engine->free_records && !add_slab(engine))
    return NULL;
  gp_block_t *block = engine->free_records;
  engine->free_records = block->in_bin.next ? gp_block_of_entry(block->in_bin.next) : NULL;
  return block;
}

gp_block_t *gp_block_slab_take(gp_engine_t *engine)
{
  gp_lock_take(&engine->slab_lock);
  gp_block_t *block = take(engine);
  gp_lock_release(&engine->slab_lock);
  if (!block)
    return NULL;
  block->bin = NULL;
  block->segment = NULL;
  gp_assert_internal(atomic_load(&block->home) == NULL);
  block->stream = 0;
  block->freed_in = NULL;
  block->free_epoch = 0;
  block->freed_bytes = NULL;
  block->refs = 0;
  block->observer_cookie = (gp_cookie_t){0, 0};
  block->tainted = false;
  block->exact = false;
  block->red_zone = 0;
  gp_list_init(&block->all);
  gp_list_init(&block->order);
  return block;
}

void gp_block_slab_give(gp_engine_t *engine, gp_block_t *block)
{
  gp_lock_take(&engine->slab_lock);
  put(engine, block);
  gp_lock_release(&engine->slab_lock);
}

void gp_block_slab_fini(gp_engine_t *engine)
{
  while (engine->slabs) {
    struct gp_slab *next = engine->slabs->next;
    gp_pages_unmap(engine->slabs, sizeof(*engine->slabs));
    engine->slabs = next;
  }
  engine->free_records = NULL;
  gp_assert_internal(gp_lock_is_free(&engine->slab_lock));
}
