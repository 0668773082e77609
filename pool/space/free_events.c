#include "pool/space/free_events.h"

#include <stdlib.h>

#include "pool/device_record.h"

#define MOST_EVENTS 4096u /* most events of a context; further frees get no event */

gp_free_event_t *gp_free_event_take(gp_context_t *context)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  gp_free_event_t *event = context->spare_events;
  if (event) {
    context->spare_events = event->next;
  } else {
    event = context->event_count < MOST_EVENTS ? calloc(1, sizeof(*event)) : NULL;
    if (!event)
      return NULL;
    event->context = context;
    context->event_count++;
  }
  event->uses = 1;
  return event;
}

void gp_free_event_drop(gp_free_event_t *event)
{
  gp_context_t *context = event->context;

  gp_assert_internal(gp_lock_is_held(&context->device->lock) && event->uses > 0);
  if (--event->uses > 0)
    return;
  event->next = context->spare_events;
  context->spare_events = event;
}

static void cover(gp_block_t *block, uint64_t address, uint64_t size, gp_free_event_t *event)
{
  gp_freed_bytes_t *bytes = malloc(sizeof(*bytes));

  if (!bytes) /* the bytes stay uncovered, so no request gets them early */
    return;
  *bytes = (gp_freed_bytes_t){.next = block->freed_bytes, .address = address, .size = size, .event = event};
  block->freed_bytes = bytes;
  event->uses++;
}

void gp_free_events_cover(gp_block_t *block, gp_free_event_t *event)
{
  gp_assert_internal(gp_lock_is_held(&block->context->device->lock));
  gp_assert_internal(
      block->context == event->context || block->context == &event->context->device->async_context);
  cover(block, block->address, block->size, event);
}

bool gp_free_events_are_complete(const gp_block_t *block)
{
  uint64_t covered = 0;

  for (const gp_freed_bytes_t *bytes = block->freed_bytes; bytes; bytes = bytes->next)
    covered += bytes->size;
  gp_assert_internal(covered <= block->size);
  return covered == block->size;
}

void gp_free_events_join(gp_block_t *block, gp_block_t *neighbour)
{
  gp_freed_bytes_t **end = &block->freed_bytes;

  while (*end)
    end = &(*end)->next;
  *end = neighbour->freed_bytes;
  neighbour->freed_bytes = NULL;
}

static void release(gp_freed_bytes_t *bytes)
{
  gp_free_event_drop(bytes->event);
  free(bytes);
}

void gp_free_events_split(gp_block_t *block, gp_block_t *rest)
{
  gp_freed_bytes_t *all = block->freed_bytes, *next;

  block->freed_bytes = NULL;
  for (gp_freed_bytes_t *bytes = all; bytes; bytes = next) {
    next = bytes->next;
    gp_block_t *owner = bytes->address < rest->address ? block : rest;
    uint64_t end = bytes->address + bytes->size;
    if (owner == block && end > rest->address) {
      cover(rest, rest->address, end - rest->address, bytes->event);
      bytes->size = rest->address - bytes->address;
    }
    bytes->next = owner->freed_bytes;
    owner->freed_bytes = bytes;
  }
}

void gp_free_events_forget(gp_block_t *block)
{
  gp_freed_bytes_t *next;

  for (gp_freed_bytes_t *bytes = block->freed_bytes; bytes; bytes = next) {
    next = bytes->next;
    release(bytes);
  }
  block->freed_bytes = NULL;
}

/* Drops the events of a context from a block that outlives the context. */
static void forget_those_of(gp_block_t *block, const gp_context_t *context)
{
  for (gp_freed_bytes_t **link = &block->freed_bytes; *link;) {
    gp_freed_bytes_t *bytes = *link;
    if (bytes->event->context != context) {
      link = &bytes->next;
      continue;
    }
    *link = bytes->next;
    release(bytes);
  }
}

void gp_free_events_fini(gp_context_t *context)
{
  gp_assert_internal(gp_lock_is_held(&context->device->lock));
  GP_LIST_EACH(&context->blocks, gp_block_t, all, block)
    gp_free_events_forget(block);
  GP_LIST_EACH(&context->device->async_context.blocks, gp_block_t, all, block)
    forget_those_of(block, context);
  while (context->spare_events) {
    gp_free_event_t *event = context->spare_events;
    context->spare_events = event->next;
    free(event);
    context->event_count--;
  }
}
