#include "tools/tune/prewarm_list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/space/size_classes.h"
#include "base/block_list.h"
#include "base/size.h"

#define ENTRY_BYTES 40 /* of the text of one size */

typedef struct sizes {
  uint64_t bytes;
  uint64_t count;
} sizes_t;

static int by_bytes(const void *a, const void *b)
{
  uint64_t first = ((const sizes_t *)a)->bytes, second = ((const sizes_t *)b)->bytes;
  return (first < second) - (first > second);
}

static int by_sum(const void *a, const void *b)
{
  const sizes_t *first = a, *second = b;
  uint64_t sums[] = {first->bytes * first->count, second->bytes * second->count};
  return sums[0] != sums[1] ? (sums[0] < sums[1]) - (sums[0] > sums[1]) : by_bytes(a, b);
}

/* GPUPOOL_PREWARM makes such memory. */
static bool is_prewarmed(const gp_block_view_t *view)
{
  return view->context != 0 && view->segment_size <= GP_BLOCK_LIST_BYTES;
}

/* Adds the sizes of a device's blocks to list[0..*count), which has room for them. Small requests that share
 * a segment become as many of a size that share it, too. */
static void add_device(sizes_t *list, size_t *count, const gp_block_view_t *views, size_t view_count)
{
  size_t first = *count;
  uint64_t segment = 0; /* its blocks come one after the other */

  for (size_t i = 0; i < view_count; i++) {
    if (!is_prewarmed(&views[i]) || (views[i].is_cut && views[i].segment_address == segment))
      continue;
    segment = views[i].is_cut ? views[i].segment_address : 0;
    if (views[i].is_cut)
      list[(*count)++] = (sizes_t){GP_DRIVER_SHARED_MAX, views[i].segment_size / GP_DRIVER_SHARED_MAX};
    else
      list[(*count)++] = (sizes_t){views[i].size, 1};
  }
  qsort(list + first, *count - first, sizeof(*list), by_bytes);
  size_t end = first;
  for (size_t i = first; i < *count; i++) {
    if (end > first && list[end - 1].bytes == list[i].bytes)
      list[end - 1].count += list[i].count;
    else
      list[end++] = list[i];
  }
  *count = end;
}

/* Leaves each size once, with the largest count. */
static size_t join_devices(sizes_t *list, size_t count)
{
  size_t end = 0;

  qsort(list, count, sizeof(*list), by_bytes);
  for (size_t i = 0; i < count; i++) {
    if (end == 0 || list[end - 1].bytes != list[i].bytes)
      list[end++] = list[i];
    else if (list[i].count > list[end - 1].count)
      list[end - 1].count = list[i].count;
  }
  return end;
}

static void print_size(uint64_t bytes, char *text, size_t capacity)
{
  if (bytes % GP_MIB == 0)
    snprintf(text, capacity, "%" PRIu64 "MiB", bytes / GP_MIB);
  else if (bytes % GP_KIB == 0)
    snprintf(text, capacity, "%" PRIu64 "KiB", bytes / GP_KIB);
  else
    snprintf(text, capacity, "%" PRIu64, bytes);
}

static void print_entry(const sizes_t *entry, char text[ENTRY_BYTES])
{
  print_size(entry->bytes, text, ENTRY_BYTES);
  size_t length = strlen(text);
  if (entry->count > 1)
    snprintf(text + length, ENTRY_BYTES - length, "*%" PRIu64,
        entry->count < GP_BLOCK_LIST_COUNT ? entry->count : GP_BLOCK_LIST_COUNT);
}

/* How many of the entries, in their order, the option and the text can hold. */
static size_t count_that_fit(const sizes_t *list, size_t count, size_t capacity)
{
  char entry[ENTRY_BYTES];
  size_t used = 0, fit = 0;

  for (; fit < count && fit < GP_BLOCK_LIST_ENTRIES; fit++) {
    print_entry(&list[fit], entry);
    used += strlen(entry) + 1; /* with a comma, or the end */
    if (used > capacity)
      break;
  }
  return fit;
}

static bool print_list(const gp_final_blocks_t *blocks, sizes_t *list, char *text, size_t capacity)
{
  size_t count = 0, used = 0;

  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++)
    add_device(list, &count, blocks->views[device], blocks->counts[device]);
  count = join_devices(list, count);
  qsort(list, count, sizeof(*list), by_sum);
  count = count_that_fit(list, count, capacity);
  qsort(list, count, sizeof(*list),
      by_bytes); /* the pool leaves out what does not fit, so the large ones first */
  for (size_t i = 0; i < count; i++) {
    if (i > 0)
      text[used++] = ',';
    print_entry(&list[i], text + used);
    used += strlen(text + used);
  }
  return count > 0;
}

/* All memory of the device that is cut or mapped. */
static uint64_t amount_of(const gp_block_view_t *views, size_t count)
{
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; i++)
    bytes += views[i].context != 0 ? views[i].size : 0;
  return bytes < GP_BLOCK_LIST_BYTES ? bytes : GP_BLOCK_LIST_BYTES;
}

bool gp_prewarm_list(const gp_final_blocks_t *blocks, bool is_cut, char *text, size_t capacity)
{
  size_t count = 0;
  uint64_t most = 0;

  for (int device = 0; device < GP_SNAPSHOT_DEVICES; device++) {
    uint64_t amount = amount_of(blocks->views[device], blocks->counts[device]);
    most = amount > most ? amount : most;
    count += blocks->counts[device];
  }
  if (is_cut && most > 0)
    print_size(most, text, capacity);
  if (is_cut)
    return most > 0;
  sizes_t *list = calloc(count + 1, sizeof(*list));
  bool good = list && print_list(blocks, list, text, capacity);
  free(list);
  return good;
}
