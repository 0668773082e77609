#include "format/layout.h"

#include <assert.h>

#include "format/actions.h"
#include "format/chunk.h"
#include "format/details.h"
#include "format/device.h"
#include "format/heap_counts.h"
#include "format/live_slot.h"
#include "format/marks.h"
#include "format/oom.h"
#include "format/record.h"
#include "format/recording.h"
#include "format/stack_log.h"

/* Checks at compile time that layout.def lists all members of each structure, and that there is no
 * padding. */
#define STRUCT(type)         static_assert(sizeof(type) == 0
#define MEMBER(type, member) +sizeof(((type *)0)->member)
#define STRUCT_END(type)     , #type " is listed whole, and has no padding");
#include "format/layout.def"

static const gp_layout_entry_t entries[] = {
    {"GP_LAYOUT_REVISION", GP_LAYOUT_REVISION, 0},
#define CODE(code)           {#code, code, 0},
#define STRUCT(type)         {#type, 0, sizeof(type)},
#define MEMBER(type, member) {#member, offsetof(type, member), sizeof(((type *)0)->member)},
#define STRUCT_END(type)
#include "format/layout.def"
};

const gp_layout_entry_t *gp_layout_entries(size_t *ret_count)
{
  *ret_count = sizeof(entries) / sizeof(entries[0]);
  return entries;
}

static uint64_t add_byte(uint64_t hash, uint8_t byte)
{
  return (hash ^ byte) * UINT64_C(0x100000001b3);
}

static uint64_t add_number(uint64_t hash, uint64_t number)
{
  for (int i = 0; i < 64; i += 8)
    hash = add_byte(hash, (uint8_t)(number >> i));
  return hash;
}

uint64_t gp_layout_hash_of(const gp_layout_entry_t *list, size_t count)
{
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < count; i++) {
    for (const char *c = list[i].name; *c; c++)
      hash = add_byte(hash, (uint8_t)*c);
    hash = add_byte(hash, 0); /* separates the name from the value */
    hash = add_number(hash, list[i].value);
    hash = add_number(hash, list[i].bytes);
  }
  return hash;
}

uint64_t gp_layout_hash(void)
{
  return gp_layout_hash_of(entries, sizeof(entries) / sizeof(entries[0]));
}
