#include "pool/limits/oom_pieces.h"

#include "pool/engine_record.h"
#include "pool/space/chunks.h"

/* A segment during a walk of its blocks by address. */
typedef struct walk {
  const gp_segment_t *segment; /* NULL: none */
  uint64_t unused;             /* its bytes without a holder */
  uint64_t run;                /* the unused bytes right before the present block, without a gap */
  uint64_t end;                /* of the run */
  uint64_t largest_run;
  bool is_held; /* the program, or another holder, has a part of it */
} walk_t;

/* In mapped memory whole chunks can go back. */
static void end_run(walk_t *walk)
{
  if (walk->segment && walk->segment->range)
    walk->unused -= gp_chunks_bytes_within(walk->segment->range, walk->end - walk->run, walk->run);
  walk->run = 0;
}

static void end_segment(walk_t *walk, gp_oom_t *oom)
{
  end_run(walk);
  if (!walk->segment || (!walk->is_held && !walk->segment->range))
    return; /* all of it can go back */
  oom->quiet_in_pieces += walk->unused;
  if (!walk->segment->is_closed && walk->largest_run > oom->quiet_largest)
    oom->quiet_largest = walk->largest_run;
}

static void take_block(walk_t *walk, const gp_block_t *block)
{
  if (block->state == GP_STATE_LIVE || block->state == GP_STATE_RETAINED) {
    walk->is_held = true;
    end_run(walk);
    return;
  }
  if (block->state == GP_STATE_UNMAPPED || block->state == GP_STATE_MAPPING) {
    end_run(walk);
    return;
  }
  walk->end = block->address + block->size;
  walk->unused += block->size;
  walk->run += block->size;
  if (walk->run > walk->largest_run)
    walk->largest_run = walk->run;
}

void gp_oom_count_pieces(const gp_device_t *device, gp_oom_t *oom)
{
  gp_assert_internal(gp_lock_is_held(&device->lock));
  oom->in_pieces = gp_device_stats(device)->inactive_split_bytes.current -
                   (device->bound_bytes - device->bound_releasable);
  GP_LIST_EACH(gp_device_contexts(device), const gp_context_t, device_link, context) {
    walk_t walk = {.segment = NULL};
    GP_LIST_EACH(&context->blocks, const gp_block_t, all, block) {
      if (block->segment != walk.segment) {
        end_segment(&walk, oom);
        walk = (walk_t){.segment = block->segment};
      }
      if (block->segment)
        take_block(&walk, block);
    }
    end_segment(&walk, oom);
  }
}
