#include "tools/symbols/symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/read/json_scan.h"
#include "tools/shorten.h"
#include "tools/symbols/frame_parts.h"
#include "tools/symbols/symbols_cache.h"
#include "tools/symbols/symbols_module.h"
#include "tools/tool.h"

/* The frames that replace a frame: [first, first + count) of the new list. */
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

/* Makes a query for each frame without a name, sorted by module: queries [first[m], first[m + 1]) are of
 * module m. first has module_count + 1 elements, zeroed. NULL: no memory. */
static gp_symbol_query_t *gather(const gp_snapshot_t *snapshot, size_t *first)
{
  size_t total = 0;

  for (size_t i = 0; i < snapshot->frame_count; i++) {
    if (wants_name(&snapshot->frames[i]))
      first[snapshot->frames[i].module]++;
  }
  for (size_t m = 0; m <= snapshot->module_count; m++) {
    total += first[m];
    first[m] = total; /* the end; the loop below fills backwards from here */
  }
  gp_symbol_query_t *queries = calloc(total + 1, sizeof(*queries));
  for (size_t i = 0; queries && i < snapshot->frame_count; i++) {
    const gp_snapshot_frame_t *frame = &snapshot->frames[i];
    if (wants_name(frame))
      queries[--first[frame->module]] = (gp_symbol_query_t){.address = frame->address, .frame = i};
  }
  return queries;
}

/* Names come from files, which may hold any bytes; a snapshot is UTF-8. */
static void make_utf8(char *text)
{
  for (unsigned char *p = (unsigned char *)text; p && *p;) {
    size_t length = gp_json_utf8_length(p);
    if (length == 0)
      *p = '?';
    p += length ? length : 1;
  }
}

/* Replaces NULL texts. A query without memory for its texts loses its answer. */
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

/* Fills the frames [0, count) that replace frame, if it has an answer. Moves texts from the query. */
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

/* Computes places[i] for each frame; returns the number of new frames. */
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

/* Makes the stacks' lists with every frame replaced. NULL: no memory; *ret_first is NULL, too. */
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

/* Puts all answers into the snapshot, or none. */
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

/* Opens a module's file only if no snapshot before had the same module. False: no file has its names. */
static bool find_names(gp_snapshot_module_t *module, uint64_t start_time_us,
    const gp_symbols_options_t *options, gp_symbol_query_t *queries, size_t count, char *ret_why,
    size_t capacity)
{
  if (gp_symbols_cache_find(module, queries, count))
    return true;
  if (gp_symbols_cache_is_missing(module, ret_why, capacity))
    return false;
  bool good = gp_symbols_of_module(
      module, start_time_us, options, queries, count, ret_why, capacity, &module->is_rebuilt);
  if (good)
    gp_symbols_cache_keep(module, queries, count);
  else
    gp_symbols_cache_keep_missing(module, ret_why);
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
    (void)gp_snapshot_uint(process, "start_time_us", &start_time_us); /* else 0: no file is that old */
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

/* Names in it would tell more than those of the C and C++ libraries, which ask for no memory of their own. */
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
