#include "tools/symbols/symbols_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/array.h"
#include "tools/hash_index.h"
#include "tools/symbols/symbols_open.h"

typedef struct answer {
  char build_id[GP_BUILD_ID_TEXT_BYTES];
  uint64_t path;        /* its hash: the build-id alone decides which names are right */
  uint64_t offset;      /* of the address in the module */
  gp_symbol_t *symbols; /* as of gp_symbol_query_t */
  size_t count;
} answer_t;

/* A module without a file. There are few. */
typedef struct missing {
  answer_t key; /* of its first address */
  bool is_rebuilt;
  char *why;
} missing_t;

static missing_t *missing;
static size_t missing_count;
static answer_t *answers;
static size_t answer_count;
static gp_hash_index_t by_place;

static uint64_t hash_answer(const answer_t *answer)
{
  return gp_hash_bytes(gp_hash_text(answer->path, answer->build_id), &answer->offset, sizeof(answer->offset));
}

static uint64_t hash_of(const void *self, size_t item)
{
  (void)self;
  return hash_answer(&answers[item]);
}

static bool is_answer(const void *self, size_t item, const void *key)
{
  const answer_t *wanted = key;
  (void)self;
  return answers[item].offset == wanted->offset && answers[item].path == wanted->path &&
         strcmp(answers[item].build_id, wanted->build_id) == 0;
}

/* The key of an address of the module; false: the module cannot be told from another build. */
static bool key_of(const gp_snapshot_module_t *module, uint64_t address, answer_t *ret_key)
{
  size_t length = strlen(module->build_id);
  if (length == 0 || length >= sizeof(ret_key->build_id))
    return false;
  *ret_key = (answer_t){.path = gp_hash_text(GP_HASH_FIRST, module->path), .offset = address - module->bias};
  memcpy(ret_key->build_id, module->build_id, length + 1);
  return true;
}

static const answer_t *find(const gp_snapshot_module_t *module, uint64_t address)
{
  answer_t key;
  if (!key_of(module, address, &key))
    return NULL;
  size_t at = gp_hash_index_find(&by_place, hash_answer(&key), is_answer, NULL, &key);
  return at == SIZE_MAX ? NULL : &answers[at];
}

static void free_symbols(gp_symbol_t *symbols, size_t count)
{
  for (size_t i = 0; symbols && i < count; i++) {
    free(symbols[i].function);
    free(symbols[i].file);
  }
  free(symbols);
}

/* NULL without memory. */
static gp_symbol_t *copy_symbols(const gp_symbol_t *symbols, size_t count)
{
  gp_symbol_t *copies = calloc(count + 1, sizeof(*copies));
  bool good = copies;
  for (size_t i = 0; good && i < count; i++) {
    copies[i].line = symbols[i].line;
    copies[i].function = symbols[i].function ? strdup(symbols[i].function) : NULL;
    copies[i].file = symbols[i].file ? strdup(symbols[i].file) : NULL;
    good = !copies[i].function == !symbols[i].function && !copies[i].file == !symbols[i].file;
  }
  if (good)
    return copies;
  free_symbols(copies, count);
  return NULL;
}

bool gp_symbols_cache_find(const gp_snapshot_module_t *module, gp_symbol_query_t *queries, size_t count)
{
  size_t done = 0;

  for (size_t i = 0; i < count; i++) {
    if (!find(module, queries[i].address))
      return false;
  }
  for (; done < count; done++) {
    const answer_t *answer = find(module, queries[done].address);
    queries[done].symbols = copy_symbols(answer->symbols, answer->count);
    queries[done].count = answer->count;
    if (!queries[done].symbols)
      break;
  }
  if (done == count)
    return true;
  for (size_t i = 0; i <= done; i++) {
    free_symbols(queries[i].symbols, queries[i].symbols ? queries[i].count : 0);
    queries[i].symbols = NULL;
    queries[i].count = 0;
  }
  return false;
}

void gp_symbols_cache_keep(const gp_snapshot_module_t *module, const gp_symbol_query_t *queries, size_t count)
{
  answer_t key;

  for (size_t i = 0; i < count && key_of(module, queries[i].address, &key); i++) {
    if (!gp_hash_index_reserve(&by_place, hash_of, NULL))
      return;
    uint32_t *slot = gp_hash_index_slot(&by_place, hash_answer(&key), is_answer, NULL, &key);
    key.count = queries[i].count;
    key.symbols = *slot ? NULL : copy_symbols(queries[i].symbols, queries[i].count);
    if (!key.symbols)
      continue;
    answer_t *answer = GP_ARRAY_ADD(answers, answer_count);
    if (!answer) {
      free_symbols(key.symbols, key.count);
      return;
    }
    *answer = key;
    gp_hash_index_put(&by_place, slot, answer_count - 1);
  }
}

static const missing_t *find_missing(const answer_t *key)
{
  for (size_t i = 0; i < missing_count; i++) {
    if (missing[i].key.path == key->path && strcmp(missing[i].key.build_id, key->build_id) == 0)
      return &missing[i];
  }
  return NULL;
}

void gp_symbols_cache_keep_missing(const gp_snapshot_module_t *module, const char *why)
{
  answer_t key;
  char *copy = key_of(module, module->bias, &key) && !find_missing(&key) ? strdup(why) : NULL;
  missing_t *item = copy ? GP_ARRAY_ADD(missing, missing_count) : NULL;
  if (item)
    *item = (missing_t){key, module->is_rebuilt, copy};
  else
    free(copy);
}

bool gp_symbols_cache_is_missing(gp_snapshot_module_t *module, char *ret_why, size_t capacity)
{
  answer_t key;
  const missing_t *item = key_of(module, module->bias, &key) ? find_missing(&key) : NULL;
  if (!item)
    return false;
  module->is_rebuilt = item->is_rebuilt;
  (void)snprintf(ret_why, capacity, "%s", item->why);
  return true;
}
