/*
 * A search: a batch of blocks whose watched bytes are copied to the host and compared with the pattern of
 * GPUPOOL_CHECK. damage.c calls these functions in this order. They take the device's lock themselves; the
 * caller holds no lock, and owns the search.
 */
#ifndef GP_POOL_SERVE_DAMAGE_SEARCH_H
#define GP_POOL_SERVE_DAMAGE_SEARCH_H

#include "pool/engine_record.h"
#include "pool/space/size_classes.h"

#define GP_SEARCH_ITEMS 32
#define GP_SEARCH_BYTES (UINT64_C(768) << 10)

typedef enum gp_search_part {
  GP_SEARCH_RED_ZONE, /* red zone of a quarantined block, which is then filled under `stale` */
  GP_SEARCH_LIVE,     /* red zone of a live block whose context ends */
  GP_SEARCH_SAMPLE,   /* sample of a filled block */
  GP_SEARCH_ALL,      /* `length` bytes of a filled block from `offset` on (stale=full) */
} gp_search_part_t;

/* One range of a block in a search. `at` is the position of its copied bytes in the buffer. */
typedef struct gp_search_item {
  uint64_t address, requested, block_id;
  uint64_t offset, length;
  size_t at;
  gp_search_part_t part;
  bool is_last;    /* no later item belongs to the same block */
  bool is_dropped; /* the rest of the block will not be searched: the block has to be searched again */
  gp_damage_t damage;
} gp_search_item_t;

typedef struct gp_search {
  struct gp_search *next;
  uint64_t stream; /* driver's handle; the stream and the buffer end with the context */
  uint8_t *buffer; /* page-locked host memory */
  size_t used, count;
  gp_search_item_t items[GP_SEARCH_ITEMS];
  gp_search_item_t rest; /* part of the last block for the next batch; length 0: none */
  bool is_failed;        /* the driver refused a copy or a fill */
  bool fills;            /* blocks whose red zone is searched are filled */
} gp_search_t;

/* The blocks that a search takes in addition to quarantined blocks that are not filled yet. */
typedef struct gp_search_wish {
  const gp_fit_t *fit; /* one filled block that could serve this request; NULL: see `all` */
  bool is_cut;
  bool all;
  bool live; /* red zones of live blocks, and no quarantined blocks */
} gp_search_wish_t;

/* Chooses the blocks of the next batch and marks them (is_searched). */
void gp_search_collect(
    gp_engine_t *engine, gp_search_t *search, gp_context_t *arena, const gp_search_wish_t *wish);

/* Submits the copies of a batch, each followed by the fill of its block if there is one. Returns the driver's
 * code. */
int gp_search_submit(gp_engine_t *engine, gp_context_t *context, const gp_search_t *search);

/* Compares the copy of an item with the pattern, and describes the bytes that differ in item->damage. */
void gp_search_compare(const gp_engine_t *engine, const gp_search_t *search, gp_search_item_t *item);

/* Records the result for an item of a block, if the block still exists. */
void gp_search_conclude(
    gp_engine_t *engine, const gp_search_t *search, gp_search_item_t *item, bool is_sound);

#endif
