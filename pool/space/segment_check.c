/* Checks what segment_record.h and cut_bins.h promise about segments, for gp_engine_check. */
#include "pool/device_record.h"
#include "pool/space/segment.h"

static bool check_idle(const gp_block_t *block)
{
  const gp_cut_entry_t *entry = &block->in_cut;
  bool is_listed = block->order.next != &block->order;
  bool good = gp_expect(is_listed == gp_segment_is_whole(block),
      "idle whole segment against the device's list", block->address, block->size);

  if (block->segment->is_closed)
    return good;
  return gp_expect(entry->address == block->address && entry->size == block->size &&
                       entry->free_epoch == block->free_epoch,
             "idle part and its entry differ", block->address, entry->address) &&
         good;
}

static bool check_bound(const gp_block_t *block, const gp_block_t *before)
{
  const gp_cut_entry_t *entry = &block->in_cut;
  bool good = gp_expect(!block->freed_in || (entry->address == block->address && entry->size == block->size &&
                                                entry->free_epoch == block->freed_as),
      "bound part and its entry differ", block->address, entry->address);
  good &= gp_expect(!block->freed_in || !block->segment->is_closed,
      "part of a closed segment is with a stream", block->address, 0);
  return gp_expect(!before || before->state != GP_STATE_BOUND || !block->freed_in ||
                       before->freed_in != block->freed_in,
             "neighbours of one stream", block->address, 0) &&
         good;
}

bool gp_segment_check(const gp_context_t *context)
{
  const gp_segment_t *segment = NULL; /* of the block before */
  uint64_t end = 0;                   /* where the block before ended */
  bool was_idle = false;
  size_t segments = 0, listed = 0, entries = 0, counted;
  uint64_t bytes = 0, counted_bytes;
  bool good = true;

  GP_LIST_EACH(&context->blocks, const gp_block_t, all, block) {
    bool is_first = block->segment != segment;
    if (is_first && segment)
      good &=
          gp_expect(end == segment->address + segment->size, "segment is not covered", segment->address, end);
    segment = block->segment;
    if (!segment)
      continue;
    bool is_idle = block->state == GP_STATE_IDLE;
    segments += is_first;
    good &= gp_expect(
        block->address == (is_first ? segment->address : end), "gap in a segment", block->address, end);
    good &= gp_expect(!is_first || segment->first == block, "first block of a segment", block->address, 0);
    good &= gp_expect(is_first || !was_idle || !is_idle, "idle neighbours", block->address, 0);
    if (is_idle)
      good &= check_idle(block);
    if (block->state == GP_STATE_BOUND)
      good &= check_bound(block, gp_segment_below(block));
    if (is_idle && !segment->is_closed) {
      entries++;
      bytes += block->size;
    }
    end = block->address + block->size;
    was_idle = is_idle;
  }
  if (segment)
    good &=
        gp_expect(end == segment->address + segment->size, "segment is not covered", segment->address, end);
  GP_LIST_EACH(&context->segments, const gp_segment_t, link, each)
    listed += each->context == context;
  good &= gp_expect(segments == listed, "segments of the context", segments, listed);
  good &= gp_expect(gp_cut_bins_check(&context->cut, &counted, &counted_bytes), "bins of cut memory", 0, 0);
  return gp_expect(
             entries == counted && bytes == counted_bytes, "idle parts in the bins", bytes, counted_bytes) &&
         good;
}
