#include "tools/html/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static size_t hash(const char *text)
{
  uint64_t sum = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
  for (; *text; text++)
    sum = (sum ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
  return (size_t)(sum ^ sum >> 32);
}

static size_t slot_of(const gp_page_names_t *names, const char *text)
{
  size_t slot = hash(text) & (names->slot_count - 1);
  while (names->slots[slot] && strcmp(names->names[names->slots[slot] - 1], text) != 0)
    slot = (slot + 1) & (names->slot_count - 1);
  return slot;
}

static int grow(gp_page_names_t *names)
{
  size_t capacity = names->capacity ? 2 * names->capacity : 256;
  char **texts = realloc(names->names, capacity * sizeof(*texts));
  if (!texts)
    return ENOMEM;
  names->names = texts;
  uint32_t *slots = calloc(2 * capacity, sizeof(*slots));
  if (!slots)
    return ENOMEM;
  free(names->slots);
  names->slots = slots;
  names->slot_count = 2 * capacity;
  names->capacity = capacity;
  for (size_t i = 0; i < names->count; i++)
    slots[slot_of(names, names->names[i])] = (uint32_t)i + 1;
  return 0;
}

size_t gp_page_name(gp_page_names_t *names, const char *text)
{
  if (!names->error && names->count == names->capacity)
    names->error = grow(names);
  if (names->error)
    return 0;
  size_t slot = slot_of(names, text);
  if (names->slots[slot])
    return names->slots[slot] - 1;
  char *copy = strdup(text);
  if (!copy) {
    names->error = ENOMEM;
    return 0;
  }
  names->names[names->count] = copy;
  names->slots[slot] = (uint32_t)names->count + 1;
  return names->count++;
}

int gp_page_names_add(const gp_page_names_t *names, cJSON *list)
{
  for (size_t i = 0; i < names->count; i++) {
    cJSON *item = cJSON_CreateString(names->names[i]);
    if (!cJSON_AddItemToArray(list, item)) {
      cJSON_Delete(item);
      return ENOMEM;
    }
  }
  return names->error;
}

void gp_page_names_fini(gp_page_names_t *names)
{
  for (size_t i = 0; i < names->count; i++)
    free(names->names[i]);
  free(names->names);
  free(names->slots);
  *names = (gp_page_names_t){0};
}
