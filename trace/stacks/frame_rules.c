#include "trace/stacks/frame_rules.h"

#include <stdbool.h>
#include <string.h>

#include "base/loader_walk.h"
#include "trace/stacks/bounds.h"

/* The head of .eh_frame_hdr as linkers write it, and its table: the beginning of each function and its
 * entry in .eh_frame, both relative to the head, sorted by address. */
typedef struct table_row {
  int32_t code;
  int32_t entry;
} table_row_t;

typedef struct table {
  uint8_t version;      /* 1 */
  uint8_t pointer_form; /* of the pointer that follows: 0x1b, relative to its place, four bytes */
  uint8_t count_form;   /* 0x03, four bytes */
  uint8_t row_form;     /* 0x3b, relative to the table, four bytes */
  int32_t eh_frame;
  uint32_t count;
  table_row_t rows[];
} table_t;

typedef struct search {
  void *const *addresses;
  size_t count;
  gp_frame_rule_t *rules;
  gp_loader_counts_t counts;
} search_t;

static bool is_usual(const table_t *table, uint64_t bytes)
{
  return bytes >= sizeof(*table) && table->version == 1 && table->pointer_form == 0x1b &&
         table->count_form == 0x03 && table->row_form == 0x3b &&
         (bytes - sizeof(*table)) / sizeof(table->rows[0]) >= table->count;
}

/* The entry of the last function that begins at `code` or before; NULL: none. */
static const uint8_t *find_entry(const table_t *table, uintptr_t code)
{
  intptr_t distance = (intptr_t)(code - (uintptr_t)table);
  uint32_t low = 0, high = table->count;

  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (table->rows[middle].code <= distance)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 ? (const uint8_t *)table + table->rows[low - 1].entry : NULL;
}

static bool holds(const struct dl_phdr_info *info, uintptr_t code)
{
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type == PT_LOAD && code - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
      return true;
  }
  return false;
}

static const table_t *table_of(const struct dl_phdr_info *info)
{
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    const table_t *table = (const void *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr);
    if (segment->p_type == PT_GNU_EH_FRAME)
      return is_usual(table, segment->p_memsz) ? table : NULL;
  }
  return NULL;
}

bool gp_frame_rules_longest(const struct dl_phdr_info *info, uintptr_t *ret_start, uintptr_t *ret_end)
{
  const table_t *table = table_of(info);
  uintptr_t longest = 0;

  for (uint32_t i = 1; table && i < table->count; i++) {
    uintptr_t start = (uintptr_t)table + (uintptr_t)(intptr_t)table->rows[i - 1].code;
    uintptr_t end = (uintptr_t)table + (uintptr_t)(intptr_t)table->rows[i].code;
    if (end - start <= longest || !holds(info, start))
      continue;
    longest = end - start;
    *ret_start = start;
    *ret_end = end;
  }
  return longest > 0;
}

static int look_in(struct dl_phdr_info *info, size_t size, void *arg)
{
  search_t *search = arg;
  const table_t *table = NULL;
  bool has_looked = false;

  if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
    search->counts = (gp_loader_counts_t){info->dlpi_adds, info->dlpi_subs};
  gp_bounds_t bounds = gp_bounds_of(info);
  for (size_t i = 0; i < search->count; i++) {
    uintptr_t code = (uintptr_t)search->addresses[i] - 1; /* within the call, not behind it */
    if (code < bounds.start || code >= bounds.end || !holds(info, code))
      continue;
    if (!has_looked)
      table = table_of(info);
    has_looked = true;
    const uint8_t *entry = table ? find_entry(table, code) : NULL;
    if (entry)
      search->rules[i] = gp_cfi_rule(entry, code);
  }
  return 0;
}

gp_loader_counts_t gp_frame_rules_find(void *const *addresses, size_t count, gp_frame_rule_t *ret_rules)
{
  search_t search = {.addresses = addresses, .count = count, .rules = ret_rules};

  for (size_t i = 0; i < count; i++)
    ret_rules[i] = (gp_frame_rule_t){.cfa = GP_CFA_UNKNOWN};
  (void)gp_loader_walk(look_in, &search);
  return search.counts;
}
