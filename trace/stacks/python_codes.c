#include "trace/stacks/python_codes.h"

#include <assert.h>
#include <string.h>

#include "base/assert.h"
#include "base/pages.h"
#include "format/stack_log.h"

#define SLOTS (GP_CODES_MAX * 2) /* half of them stay empty, so every search ends */

/* Of longer ones a part is kept: names and paths end there, lines behind it are not known. */
#define TEXT_BYTES_MAX  4096u
#define TABLE_BYTES_MAX (256u * 1024)

static_assert(GP_CODES_MAX <= 1u << (64 - GP_CODE_INDEX_BIT), "an index beside an address");

bool gp_codes_init(gp_codes_t *codes, gp_region_t *region)
{
  gp_codes_t made = {.region = region};

  made.log = gp_region_section(region, GP_SECTION_CODES, &made.log_bytes);
  made.slots = gp_pages_map(SLOTS * sizeof(*made.slots), false);
  made.hints = gp_pages_map(GP_CODE_HINTS * sizeof(*made.hints), false);
  made.facts = gp_pages_map(GP_CODES_MAX * sizeof(*made.facts), false);
  if (!made.slots || !made.hints || !made.facts) {
    gp_codes_fini(&made);
    return false;
  }
  gp_lock_init(&made.lock, GP_RANK_STACKS);
  *codes = made;
  return true;
}

void gp_codes_fini(gp_codes_t *codes)
{
  gp_pages_unmap(codes->slots, SLOTS * sizeof(*codes->slots));
  gp_pages_unmap(codes->hints, GP_CODE_HINTS * sizeof(*codes->hints));
  gp_pages_unmap(codes->facts, GP_CODES_MAX * sizeof(*codes->facts));
  *codes = (gp_codes_t){0};
}

static inline uint64_t load(const uint8_t *at, size_t bytes)
{
  uint64_t word = 0;
  memcpy(&word, at, bytes);
  return word;
}

static inline uint64_t digest_of(const uint8_t *at, size_t length, uint64_t hash)
{
  size_t left = length;

  for (; left > 16; left -= 16, at += 16)
    hash = gp_digest_fold(load(at, 8) ^ GP_DIGEST_SEED, load(at + 8, 8) ^ hash);
  if (left >= 8)
    return gp_digest_fold(load(at, 8) ^ length, load(at + left - 8, 8) ^ hash);
  if (left >= 4)
    return gp_digest_fold(load(at, 4) ^ length, load(at + left - 4, 4) ^ hash);
  return left ? gp_digest_fold(
                    (uint64_t)at[0] << 16 | (uint64_t)at[left / 2] << 8 | at[left - 1], hash ^ ~length)
              : hash;
}

static inline uint64_t digest_of_text(const gp_python_t *python, uintptr_t text, uint64_t hash)
{
  gp_python_text_t got = gp_python_text(python, text);
  return digest_of(got.characters, got.length * got.character, hash + got.character);
}

static inline int32_t first_line_of(const gp_python_t *python, uintptr_t code)
{
  return *(const int32_t *)(code + python->code_first_line);
}

uint64_t gp_codes_read_file(const gp_python_t *python, uintptr_t text, gp_code_file_t *file)
{
  *file = (gp_code_file_t){text, digest_of_text(python, text, GP_DIGEST_SEED)};
  return file->digest;
}

/* Never 0. */
static uint64_t digest_of_code(const gp_python_t *python, uintptr_t code, gp_code_file_t *file)
{
  uintptr_t table = gp_python_word(code + python->code_table);
  uint64_t line = (uint32_t)first_line_of(python, code);

  /* Two chains, because each step of one waits for the one before. */
  uint64_t name_digest =
      digest_of_text(python, gp_python_word(code + python->code_name), gp_codes_file(python, code, file));
  uint64_t table_digest =
      digest_of(gp_python_bytes(python, table), gp_python_size(python, table), line + GP_DIGEST_SEED);
  return gp_digest_fold(name_digest, table_digest) | 1;
}

static gp_code_slot_t *find(gp_codes_t *codes, uint64_t digest, uint64_t *ret_there)
{
  for (uint32_t i = (uint32_t)(digest >> 32);; i++) {
    gp_code_slot_t *slot = &codes->slots[i & (SLOTS - 1)];
    *ret_there = atomic_load_explicit(&slot->digest, memory_order_acquire);
    if (!*ret_there || *ret_there == digest)
      return slot;
  }
}

/* Appends the text in UTF-8, as much as has room. A lone surrogate stays one: no reader takes it for text. */
static uint32_t copy_text(const gp_python_t *python, uintptr_t text, char *to)
{
  gp_python_text_t got = gp_python_text(python, text);
  uint32_t used = 0;

  for (size_t i = 0; i < got.length && used + 4 <= TEXT_BYTES_MAX; i++) {
    uint32_t c = 0;
    memcpy(&c, got.characters + i * got.character, got.character);
    if (c < 0x80) {
      to[used++] = (char)c;
      continue;
    }
    unsigned more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3; /* bytes that follow */
    to[used++] = (char)((0xff00u >> (more + 1) & 0xffu) | c >> 6 * more);
    while (more-- > 0)
      to[used++] = (char)(0x80 | (c >> 6 * more & 0x3f));
  }
  return used;
}

/* Copies the code object to the end of the log. Returns its index. */
static uint32_t append(gp_codes_t *codes, const gp_python_t *python, uintptr_t code, gp_code_file_t *file)
{
  gp_code_log_t *log = codes->log;
  uintptr_t table = gp_python_word(code + python->code_table);
  size_t table_length = gp_python_size(python, table);

  if (table_length > TABLE_BYTES_MAX)
    table_length = TABLE_BYTES_MAX;
  if (!gp_region_grow(codes->region, GP_SECTION_CODES, sizeof(*log)))
    return GP_FRAME_CODE_NONE;
  uint32_t index = atomic_load_explicit(&log->code_count, memory_order_relaxed);
  uint32_t used = atomic_load_explicit(&log->byte_count, memory_order_relaxed);
  gp_code_record_t *record = (gp_code_record_t *)(log->data + used);
  if (!gp_region_grow(codes->region, GP_SECTION_CODES,
          sizeof(*log) + used + sizeof(*record) + 2 * (size_t)TEXT_BYTES_MAX + table_length + 8))
    return GP_FRAME_CODE_NONE;
  record->first_line = first_line_of(python, code);
  record->line_format = python->line_format;
  record->name_length = copy_text(python, gp_python_word(code + python->code_name), record->text);
  record->file_length =
      copy_text(python, gp_python_word(code + python->code_file), record->text + record->name_length);
  record->table_length = (uint32_t)table_length;
  memcpy(
      record->text + record->name_length + record->file_length, gp_python_bytes(python, table), table_length);
  record->record_bytes =
      (uint32_t)((sizeof(*record) + record->name_length + record->file_length + table_length + 7) &
                 ~(size_t)7);
  codes->facts[index] = (gp_code_facts_t){.record = record,
      .first_line = first_line_of(python, code),
      .table_length = record->table_length,
      .table = record->text + record->name_length + record->file_length,
      .file = gp_codes_file(python, code, file),
      .name_hash = gp_python_hash(python, gp_python_word(code + python->code_name)),
      .table_hash = gp_python_hash(python, table)};
  atomic_store_explicit(&log->code_count, index + 1, memory_order_relaxed);
  atomic_store_explicit(&log->byte_count, used + record->record_bytes, memory_order_release);
  return index;
}

static __attribute__((noinline)) uint32_t intern_slowly(
    gp_codes_t *codes, const gp_python_t *python, uintptr_t code, gp_code_file_t *file, uint64_t digest)
{
  uint32_t index = GP_FRAME_CODE_NONE;
  uint64_t there;

  gp_lock_take(&codes->lock);
  gp_code_slot_t *slot = find(codes, digest, &there);
  if (there) { /* another thread has added it since */
    index = slot->index;
  } else if (codes->slot_count < GP_CODES_MAX) {
    index = slot->index = append(codes, python, code, file);
    codes->slot_count++;
    atomic_store_explicit(&slot->digest, digest, memory_order_release);
  }
  gp_lock_release(&codes->lock);
  return index;
}

uint32_t gp_codes_intern(gp_codes_t *codes, const gp_python_t *python, uintptr_t code, gp_code_file_t *file)
{
  uint64_t digest = digest_of_code(python, code, file), there;
  gp_code_slot_t *slot = find(codes, digest, &there);
  uint32_t index = there ? slot->index : intern_slowly(codes, python, code, file, digest);

  if (index != GP_FRAME_CODE_NONE)
    atomic_store_explicit(gp_codes_hint(codes, code), gp_codes_make_hint(code, index), memory_order_release);
  return index;
}
