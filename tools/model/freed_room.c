#include "tools/model/freed_room.h"

#include <string.h>

#include "tools/model/saturated.h"
#include "tools/symbols/stack_owners.h"

bool gp_device_is_cut(const gp_snapshot_t *snapshot, int device)
{
  for (size_t i = 0; i < snapshot->segment_count; i++) {
    if (snapshot->segments[i].device == device && snapshot->segments[i].block_count > 1)
      return true;
  }
  return false;
}

static bool is_same(const char *known, const char *text)
{
  return strcmp(known ? known : "", text ? text : "") == 0;
}

/* Owners with the same function differ in their line, or in what they called. */
static bool is_of_owner(
    const gp_snapshot_t *snapshot, const gp_snapshot_block_t *block, const gp_owner_t *owner)
{
  gp_owner_text_t text;
  return gp_stack_owner_text(snapshot, block->stack, &text) && is_same(owner->function, text.function) &&
         is_same(owner->file, text.file) && (owner->line_count > 1 || owner->line == text.line) &&
         (!text.language ||
             (is_same(owner->operation, text.operation) && is_same(owner->through, text.through)));
}

static bool would_be_idle(
    const gp_snapshot_t *snapshot, const gp_snapshot_block_t *block, const gp_owner_t *owner)
{
  return block->state == GP_SNAPSHOT_IDLE ||
         (block->state == GP_SNAPSHOT_ALLOCATED && is_of_owner(snapshot, block, owner));
}

void gp_freed_room_find(
    const gp_snapshot_t *snapshot, int device, const gp_owner_t *owner, gp_freed_room_t *ret_room)
{
  gp_freed_room_t room = {0};

  for (size_t i = 0; i < snapshot->segment_count; i++) {
    const gp_snapshot_segment_t *segment = &snapshot->segments[i];
    uint64_t run = 0;
    bool is_whole = segment->block_count > 0;
    if (segment->device != device)
      continue;
    for (size_t k = segment->first_block; k < segment->first_block + segment->block_count; k++) {
      const gp_snapshot_block_t *block = &snapshot->blocks[k];
      bool is_idle = would_be_idle(snapshot, block, owner);
      run = is_idle ? gp_add_saturated(run, block->size) : 0;
      is_whole &= is_idle;
      if (run > room.largest)
        room.largest = run;
    }
    if (is_whole)
      room.in_wholes = gp_add_saturated(room.in_wholes, segment->size);
  }
  *ret_room = room;
}
