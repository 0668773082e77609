#include "tools/machine/record_look.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "format/heap_counts.h"
#include "format/layout.h"

#define HEAPS_PLACE  (offsetof(gp_record_header_t, sections) + GP_SECTION_HEAPS * sizeof(gp_section_place_t))
#define LENGTH_BYTES 8 /* of the description, before its text */
#define READS        8 /* an operation in the middle of two readings is rare, of eight it is none */

static size_t read_at(int fd, void *buffer, size_t bytes, uint64_t offset)
{
  ssize_t got;
  if (offset > INT64_MAX - bytes)
    return 0;
  do
    got = pread(fd, buffer, bytes, (off_t)offset);
  while (got < 0 && errno == EINTR);
  return got < 0 ? 0 : (size_t)got;
}

static void read_description(int fd, gp_record_look_t *look)
{
  uint64_t length = 0, offset = look->header.sections[GP_SECTION_DESCRIPTION].offset;
  size_t got = 0;
  if (offset && read_at(fd, &length, sizeof(length), offset) == LENGTH_BYTES &&
      length <= GP_DESCRIPTION_BYTES)
    got = read_at(
        fd, look->text, length < sizeof(look->text) ? length : sizeof(look->text) - 1, offset + LENGTH_BYTES);
  look->text[got] = '\0';
  look->description = (gp_description_t){look->text, got};
}

gp_look_result_t gp_record_look(int fd, gp_record_look_t *ret_look)
{
  gp_record_header_t *header = &ret_look->header;
  ret_look->text[0] = '\0';
  ret_look->description = (gp_description_t){ret_look->text, 0};
  ret_look->device_bytes = 0;
  if (read_at(fd, header, sizeof(*header), 0) != sizeof(*header) ||
      memcmp(header->magic, GP_RECORD_MAGIC, sizeof(header->magic)) != 0 ||
      header->byte_order != GP_RECORD_BYTE_ORDER)
    return GP_LOOK_NOTHING;
  header->library_version[sizeof(header->library_version) - 1] = '\0';
  if (header->layout_hash != gp_layout_hash())
    return GP_LOOK_OTHER_BUILD;
  read_description(fd, ret_look);
  uint64_t used = header->sections[GP_SECTION_DEVICES].used;
  ret_look->device_bytes = used < GP_MAX_DEVICES * sizeof(gp_device_record_t)
                               ? (size_t)used
                               : GP_MAX_DEVICES * sizeof(gp_device_record_t);
  return GP_LOOK_DONE;
}

/* What holds whenever no operation is under way (format/stats.h, pool/check.c). */
static bool is_settled(const gp_stats_t *stats)
{
  bool good = stats->active_bytes.current == stats->allocated_bytes.current + stats->deferred_bytes.current &&
              stats->allocation.allocated == stats->cache_hits + stats->cache_misses;
#define GAUGE(name, ...)                                                                                     \
  good &= stats->name.current == stats->name.allocated - stats->name.freed &&                                \
          stats->name.current <= stats->name.peak && stats->name.current <= INT64_MAX;
#include "format/stats.def"
  return good;
}

static bool read_device(int fd, const gp_record_look_t *look, int ordinal, gp_device_record_t *ret_device)
{
  uint64_t place = (uint64_t)ordinal * sizeof(*ret_device);
  return place + sizeof(*ret_device) <= look->device_bytes &&
         read_at(fd, ret_device, sizeof(*ret_device),
             look->header.sections[GP_SECTION_DEVICES].offset + place) == sizeof(*ret_device) &&
         ret_device->is_known == 1;
}

/* Adds what heaps of threads have counted. False: one of them was telling the device just then. */
static bool add_heaps(int fd, int ordinal, gp_stats_t *stats)
{
  gp_section_place_t heaps;
  gp_heap_counts_t counts;
  bool is_settled = true;

  if (read_at(fd, &heaps, sizeof(heaps), HEAPS_PLACE) != sizeof(heaps))
    return true;
  for (uint64_t i = 0; i < GP_HEAPS_MAX && (i + 1) * sizeof(counts) <= heaps.used; i++) {
    if (read_at(fd, &counts, sizeof(counts), heaps.offset + i * sizeof(counts)) != sizeof(counts))
      break;
    if (counts.device != (uint32_t)ordinal + 1)
      continue;
    is_settled &= atomic_load_explicit(&counts.fold, memory_order_relaxed) == GP_HEAP_FOLD_NONE;
    gp_stats_add_heap(stats, &counts);
  }
  return is_settled;
}

/* Heaps tell the device's statistics only while these change, too: so these are read before and after. */
bool gp_record_look_device(
    int fd, const gp_record_look_t *look, int ordinal, gp_device_record_t *ret_device, bool *ret_is_settled)
{
  gp_device_record_t after;
  gp_stats_t own;
  *ret_is_settled = false;
  for (int i = 0; i < READS && !*ret_is_settled; i++) {
    if (!read_device(fd, look, ordinal, ret_device))
      return false;
    own = ret_device->stats;
    *ret_is_settled = add_heaps(fd, ordinal, &ret_device->stats);
    if (!read_device(fd, look, ordinal, &after))
      return false;
    *ret_is_settled &= memcmp(&own, &after.stats, sizeof(own)) == 0 && is_settled(&ret_device->stats);
  }
  if (!*ret_is_settled)
    ret_device->stats = own; /* sums of two moments may be below 0 */
  gp_stats_join_peaks(&ret_device->stats);
  return true;
}
