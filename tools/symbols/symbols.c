#include "tools/symbols/symbols.h"

#include <stdio.h>
#include <stdlib.h>

#include "tools/array.h"
#include "tools/hash_index.h"
#include "tools/read/json_scan.h"
#include "tools/shorten.h"
#include "tools/symbols/frame_parts.h"
#include "tools/symbols/symbols_open.h"
#include "tools/tool.h"

/*
 * A cache of names that were already found. The snapshots of many ranks have the same modules. Reading the
 * debug information of one module takes longer than everything else for a small snapshot.
 */

typedef struct answer {
  char build_id[GP_BUILD_ID_TEXT_BYTES];
  uint64_t path;        /* hash of the module's path; a collision does no harm, because build-ids decide */
  uint64_t offset;      /* offset of the address in the module */
  gp_symbol_t *symbols; /* the functions at the address, as in gp_symbol_query_t */
  size_t count;
} answer_t;

/* A module for which no file was found. There are few such modules. */
typedef struct missing {
  answer_t key; /* key of the module's first address */
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

/* Makes the key of an address in the module. Returns false if the module has no build-id, because it cannot
 * be distinguished from other builds. */
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

/* Copies the symbols and their texts. Returns NULL if memory runs out. */
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

/* Answers the queries if the cache contains all of them. Otherwise leaves them as is and returns false. */
static bool symbols_cache_find(const gp_snapshot_module_t *module, gp_symbol_query_t *queries, size_t count)
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

/* Adds copies of the answers to the cache, which lives until the process ends. Skips answers for a module
 * without a build-id, and answers for which memory runs out. All calls must use the same sysroot and debug
 * folder. One thread at a time. */
static void symbols_cache_keep(
    const gp_snapshot_module_t *module, const gp_symbol_query_t *queries, size_t count)
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

/* Adds to the cache a module for which no file has names, and the reason. Skips modules without build-id. */
static void symbols_cache_keep_missing(const gp_snapshot_module_t *module, const char *why)
{
  answer_t key;
  char *copy = key_of(module, module->bias, &key) && !find_missing(&key) ? strdup(why) : NULL;
  missing_t *item = copy ? GP_ARRAY_ADD(missing, missing_count) : NULL;
  if (item)
    *item = (missing_t){key, module->is_rebuilt, copy};
  else
    free(copy);
}

/* Returns true if symbols_cache_keep_missing was called for the module. Then sets *ret_why and the module's
 * is_rebuilt to the cached values. */
static bool symbols_cache_is_missing(gp_snapshot_module_t *module, char *ret_why, size_t capacity)
{
  answer_t key;
  const missing_t *item = key_of(module, module->bias, &key) ? find_missing(&key) : NULL;
  if (!item)
    return false;
  module->is_rebuilt = item->is_rebuilt;
  (void)snprintf(ret_why, capacity, "%s", item->why);
  return true;
}

/* The frames that replace one frame: [first, first + count) of the new list. */
typedef struct place {
  size_t first;
  size_t count;
} place_t;

static int compare_queries(const void *a, const void *b)
{
  const gp_symbol_query_t *left = a;
  const gp_symbol_query_t *right = b;
  return (left->address > right->address) - (left->address < right->address);
}

static void free_queries(gp_symbol_query_t *queries, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < queries[i].count; k++) {
      free(queries[i].symbols[k].function);
      free(queries[i].symbols[k].file);
    }
    free(queries[i].symbols);
  }
  free(queries);
}

static bool wants_name(const gp_snapshot_frame_t *frame)
{
  return frame->module >= 0 && !frame->function[0];
}

/* Makes a query for each frame without a name, sorted by module. The queries of module m are [first[m],
 * first[m + 1]). `first` has module_count + 1 zeroed elements. Returns NULL if memory runs out. */
static gp_symbol_query_t *gather(const gp_snapshot_t *snapshot, size_t *first)
{
  size_t total = 0;

  for (size_t i = 0; i < snapshot->frame_count; i++) {
    if (wants_name(&snapshot->frames[i]))
      first[snapshot->frames[i].module]++;
  }
  for (size_t m = 0; m <= snapshot->module_count; m++) {
    total += first[m];
    first[m] = total; /* end of the module's queries; the loop below fills backwards from here */
  }
  gp_symbol_query_t *queries = calloc(total + 1, sizeof(*queries));
  for (size_t i = 0; queries && i < snapshot->frame_count; i++) {
    const gp_snapshot_frame_t *frame = &snapshot->frames[i];
    if (wants_name(frame))
      queries[--first[frame->module]] = (gp_symbol_query_t){.address = frame->address, .frame = i};
  }
  return queries;
}

/* Makes a text valid UTF-8, which a snapshot requires. Names come from files, which may contain any bytes. */
static void make_utf8(char *text)
{
  for (unsigned char *p = (unsigned char *)text; p && *p;) {
    size_t length = gp_json_utf8_length(p);
    if (length == 0)
      *p = '?';
    p += length ? length : 1;
  }
}

/* Replaces NULL texts by "". If memory runs out, removes the query's answer. */
static void complete(gp_symbol_query_t *query)
{
  bool good = true;
  for (size_t k = 0; k < query->count; k++) {
    gp_symbol_t *symbol = &query->symbols[k];
    if (!symbol->function)
      symbol->function = strdup("");
    if (!symbol->file)
      symbol->file = strdup("");
    good = good && symbol->function && symbol->file;
    make_utf8(symbol->function);
    make_utf8(symbol->file);
  }
  for (size_t k = 0; !good && k < query->count; k++) {
    free(query->symbols[k].function);
    free(query->symbols[k].file);
  }
  if (!good)
    query->count = 0;
}

/* If the query has an answer, fills `frames`, which replace `frame`, and moves the texts out of the query. */
static void fill_frames(
    gp_snapshot_frame_t *frames, const gp_snapshot_frame_t *frame, gp_symbol_query_t *query)
{
  if (query->count == 0)
    return;
  for (size_t k = 0; k < query->count; k++) {
    frames[k] = *frame;
    frames[k].function = query->symbols[k].function;
    frames[k].file = query->symbols[k].file;
    frames[k].line = query->symbols[k].line;
    frames[k].is_inline = k + 1 < query->count;
  }
  free(frame->function);
  free(frame->file);
  query->count = 0;
}

/* Computes places[i] for each frame. Returns the number of frames in the new list. */
static size_t lay_out(
    const gp_snapshot_t *snapshot, const gp_symbol_query_t *queries, size_t query_count, place_t *places)
{
  size_t count = 0;

  for (size_t i = 0; i < snapshot->frame_count; i++)
    places[i].count = 1;
  for (size_t q = 0; q < query_count; q++) {
    if (queries[q].count > 1)
      places[queries[q].frame].count = queries[q].count;
  }
  for (size_t i = 0; i < snapshot->frame_count; i++) {
    places[i].first = count;
    count += places[i].count;
  }
  return count;
}

/* Makes the stacks' lists of frames, in which every frame is replaced. If memory runs out, returns NULL and
 * sets *ret_first to NULL. */
static int *expand_stacks(const gp_snapshot_stacks_t *stacks, const place_t *places, size_t **ret_first)
{
  size_t total = 0, used = 0;

  for (size_t k = 0; stacks->count > 0 && k < stacks->first[stacks->count]; k++)
    total += places[stacks->frame_indexes[k]].count;
  int *indexes = malloc((total + 1) * sizeof(*indexes));
  size_t *first = malloc((stacks->count + 1) * sizeof(*first));
  if (!indexes || !first) {
    free(indexes);
    free(first);
    return NULL;
  }
  for (size_t i = 0; i < stacks->count; i++) {
    first[i] = used;
    for (size_t k = stacks->first[i]; k < stacks->first[i + 1]; k++) {
      const place_t *place = &places[stacks->frame_indexes[k]];
      for (size_t j = 0; j < place->count; j++)
        indexes[used++] = (int)(place->first + j);
    }
  }
  first[stacks->count] = used;
  *ret_first = first;
  return indexes;
}

/* Puts all answers into the snapshot. If memory runs out, puts none. */
static void apply(gp_snapshot_t *snapshot, gp_symbol_query_t *queries, size_t query_count)
{
  for (size_t q = 0; q < query_count; q++)
    complete(&queries[q]);
  place_t *places = calloc(snapshot->frame_count, sizeof(*places));
  size_t count = places ? lay_out(snapshot, queries, query_count, places) : 0;
  gp_snapshot_frame_t *frames = count > 0 && count <= INT32_MAX ? calloc(count, sizeof(*frames)) : NULL;
  size_t *first = NULL;
  int *indexes = frames ? expand_stacks(&snapshot->stacks, places, &first) : NULL;

  if (indexes) {
    for (size_t i = 0; i < snapshot->frame_count; i++)
      frames[places[i].first] = snapshot->frames[i];
    for (size_t q = 0; q < query_count; q++)
      fill_frames(&frames[places[queries[q].frame].first], &snapshot->frames[queries[q].frame], &queries[q]);
    free(snapshot->frames);
    free(snapshot->stacks.first);
    free(snapshot->stacks.frame_indexes);
    snapshot->frames = frames;
    snapshot->frame_count = count;
    snapshot->stacks.first = first;
    snapshot->stacks.frame_indexes = indexes;
  } else {
    free(frames);
  }
  free(places);
}

/* Answers the queries of a module. Opens its file only if the cache lacks an answer. Returns false if no file
 * has the names. */
static bool find_names(gp_snapshot_module_t *module, uint64_t start_time_us,
    const gp_symbols_options_t *options, gp_symbol_query_t *queries, size_t count, char *ret_why,
    size_t capacity)
{
  if (symbols_cache_find(module, queries, count))
    return true;
  if (symbols_cache_is_missing(module, ret_why, capacity))
    return false;
  bool good = gp_symbols_of_module(
      module, start_time_us, options, queries, count, ret_why, capacity, &module->is_rebuilt);
  if (good)
    symbols_cache_keep(module, queries, count);
  else
    symbols_cache_keep_missing(module, ret_why);
  return good;
}

void gp_symbols_resolve(gp_snapshot_t *snapshot, const gp_symbols_options_t *options)
{
  static const gp_symbols_options_t no_options;
  static bool is_told;
  uint64_t start_time_us = 0;
  char why[512];

  if (!options)
    options = &no_options;
  size_t *first = calloc(snapshot->module_count + 1, sizeof(*first));
  gp_symbol_query_t *queries = first ? gather(snapshot, first) : NULL;
  if (queries && first[snapshot->module_count] > 0 && !gp_symbols_are_available()) {
    if (!is_told)
      gp_message("functions have no names here: that needs %s", gp_symbols_need());
    is_told = true;
    free_queries(queries, first[snapshot->module_count]);
    queries = NULL;
  }
  if (!queries) {
    free(first);
    return;
  }
  const cJSON *process = cJSON_GetObjectItemCaseSensitive(snapshot->root, "process");
  if (process)
    (void)gp_snapshot_uint(process, "start_time_us", &start_time_us); /* else 0: before any file */
  for (size_t m = 0; m < snapshot->module_count; m++) {
    gp_symbol_query_t *of_module = &queries[first[m]];
    size_t count = first[m + 1] - first[m];
    if (count == 0)
      continue;
    qsort(of_module, count, sizeof(*of_module), compare_queries);
    if (find_names(&snapshot->modules[m], start_time_us, options, of_module, count, why, sizeof(why)))
      continue;
    if (options->problem)
      options->problem(options->arg, &snapshot->modules[m], why);
  }
  size_t query_count = first[snapshot->module_count];
  if (query_count > 0)
    apply(snapshot, queries, query_count);
  free_queries(queries, query_count);
  free(first);
}

#define NAMED_MODULES 3

/* Returns true if names for the module's frames would help the reader. Names in the C and C++ libraries would
 * not, because these libraries allocate no GPU memory themselves. */
static bool matters(const gp_snapshot_t *snapshot, size_t module)
{
  for (size_t i = 0; i < snapshot->frame_count; i++) {
    if (snapshot->frames[i].module != (int)module || snapshot->frames[i].function[0])
      continue;
    const gp_snapshot_frame_kind_t kind = gp_frame_kind_of(snapshot, (int)i, NULL);
    if (kind.group != GP_FRAME_GROUP_START && kind.group != GP_FRAME_GROUP_CXX)
      return true;
  }
  return false;
}

bool gp_symbols_describe_rebuilt(const gp_snapshot_t *snapshot, char *buffer, size_t capacity)
{
  char names[NAMED_MODULES * 72 + 32] = "";
  size_t count = 0, used = 0, shown = 0;

  buffer[0] = '\0';
  for (size_t m = 0; m < snapshot->module_count; m++)
    count += snapshot->modules[m].is_rebuilt && matters(snapshot, m);
  for (size_t m = 0; m < snapshot->module_count && shown < NAMED_MODULES; m++) {
    if (!snapshot->modules[m].is_rebuilt || !matters(snapshot, m))
      continue;
    shown++;
    used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%.64s",
        shown == 1       ? ""
        : shown == count ? " and "
                         : ", ",
        gp_base_name(snapshot->modules[m].path));
  }
  if (count > shown)
    (void)snprintf(names + used, sizeof(names) - used, " and %zu more", count - shown);
  if (count)
    (void)snprintf(buffer, capacity,
        "Functions of %s have no names: the program ran with %s than %s here. gpupool symbolize --sysroot takes names from a copy of %s.",
        names, count == 1 ? "another build" : "other builds", count == 1 ? "is" : "are",
        count == 1 ? "that" : "those");
  return count > 0;
}
