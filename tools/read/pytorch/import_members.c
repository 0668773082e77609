/*
 * Helpers that read members of dicts. Messages name the place of the dict.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/read/pytorch/import_parts.h"

bool gp_import_no_memory(gp_import_t *import)
{
  return gp_value_tree_fail(&import->tree, 0, "not enough memory to read this");
}

/* Reports an error and its place. Formats places only here, because there are millions of them. */
static bool fail_at(const gp_import_place_t *place, size_t offset, const char *what)
{
  char item[32] = "", inner[32] = "";
  if (place->is_item)
    snprintf(item, sizeof(item), "[%zu]", place->at);
  if (place->inner)
    snprintf(inner, sizeof(inner), "[%zu]", place->inner_at);
  return gp_value_tree_fail(&place->import->tree, offset, "%s%s%s%s%s", place->list, item,
      place->inner ? place->inner : "", inner, what);
}

bool gp_import_fail(const gp_import_place_t *place, const char *name, const char *what)
{
  char text[128];
  snprintf(text, sizeof(text), ": %s %s", name, what);
  return fail_at(place, place->dict->container->at, text);
}

bool gp_import_claim(gp_container_t *container)
{
  bool is_new = container->note == GP_CONTAINER_NEW || container->note == GP_CONTAINER_PART;
  container->note = GP_CONTAINER_READ;
  return is_new;
}

bool gp_import_is_dict(const gp_import_place_t *place)
{
  if (place->dict->kind != GP_VALUE_DICT)
    return fail_at(place, 0, " is not a dict");
  return gp_import_claim(place->dict->container) ||
         fail_at(place, place->dict->container->at, " is the same dict as another");
}

bool gp_import_number(
    const gp_import_place_t *place, const char *name, uint64_t most, bool is_required, uint64_t *ret_number)
{
  const gp_value_t *value = gp_value_member(place->dict, name);
  if (!value || value->kind == GP_VALUE_NONE)
    return !is_required || gp_import_fail(place, name, "is missing");
  if (value->kind != GP_VALUE_INTEGER || value->integer < 0 || (uint64_t)value->integer > most)
    return gp_import_fail(place, name, "is not a number in its range");
  *ret_number = (uint64_t)value->integer;
  return true;
}

bool gp_import_list(
    const gp_import_place_t *place, const char *name, bool is_required, const gp_container_t **ret_list)
{
  const gp_value_t *value = gp_value_member(place->dict, name);
  *ret_list = NULL;
  if (!value || value->kind == GP_VALUE_NONE)
    return !is_required || gp_import_fail(place, name, "are missing");
  if (value->kind != GP_VALUE_LIST)
    return gp_import_fail(place, name, "are not a list");
  if (!gp_import_claim(value->container))
    return gp_import_fail(place, name, "are the same list as others");
  *ret_list = value->container;
  return true;
}

bool gp_import_stream(const gp_import_place_t *place, int *ret_stream)
{
  gp_import_t *import = place->import;
  cJSON *streams = cJSON_GetObjectItemCaseSensitive(import->snapshot->root, "streams");
  const gp_value_t *value = gp_value_member(place->dict, "stream");
  char handle[32];

  *ret_stream = -1;
  if (!value || value->kind != GP_VALUE_INTEGER || value->integer == -1)
    return true;
  gp_block_entry_t entry = {.key = (uint64_t)value->integer + 1, .stream = (int)import->streams.count};
  const gp_block_entry_t *known = gp_block_map_find(&import->streams, entry.key);
  if (known) {
    *ret_stream = known->stream;
    return true;
  }
  snprintf(handle, sizeof(handle), "0x%" PRIx64, (uint64_t)value->integer);
  cJSON *item = cJSON_CreateObject();
  if (!cJSON_AddStringToObject(item, "handle", handle) || !gp_block_map_put(&import->streams, &entry)) {
    cJSON_Delete(item);
    return gp_import_no_memory(import);
  }
  cJSON_AddItemToArray(streams, item);
  *ret_stream = entry.stream;
  return true;
}

bool gp_import_pool(const gp_import_place_t *place, const char *name, int *ret_pool)
{
  gp_import_t *import = place->import;
  const gp_value_t *value = gp_value_member(place->dict, name);

  *ret_pool = -1;
  if (!value || value->kind != GP_VALUE_LIST || value->container->count != 2)
    return true;
  const gp_value_t *numbers = value->container->items;
  if (numbers[0].kind != GP_VALUE_INTEGER || numbers[1].kind != GP_VALUE_INTEGER)
    return true;
  *ret_pool = 0;
  if (!numbers[0].integer && !numbers[1].integer)
    return true;
  gp_block_entry_t entry = {.key = (uint64_t)numbers[0].integer << 32 ^ (uint64_t)numbers[1].integer,
      .stream = (int)import->pools.count + 1};
  const gp_block_entry_t *known = gp_block_map_find(&import->pools, entry.key);
  *ret_pool = known ? known->stream : entry.stream;
  return known || !entry.key || gp_block_map_put(&import->pools, &entry) || gp_import_no_memory(import);
}

bool gp_import_device(gp_import_t *import, int ordinal)
{
  gp_snapshot_t *snapshot = import->snapshot;
  size_t i = 0;
  while (i < snapshot->device_count && snapshot->devices[i].device < ordinal)
    i++;
  if (i < snapshot->device_count && snapshot->devices[i].device == ordinal)
    return true;
  memmove(&snapshot->devices[i + 1], &snapshot->devices[i],
      (snapshot->device_count - i) * sizeof(snapshot->devices[0]));
  snapshot->devices[i] = (gp_snapshot_device_t){.device = ordinal};
  snapshot->device_count++;
  return true;
}
