#include "tools/html/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/array.h"
#include "tools/hash_index.h"

size_t gp_page_name(gp_page_names_t *names, const char *text)
{
  uint32_t *slot =
      names->error ? NULL : gp_hash_index_text(&names->index, names->names, sizeof(*names->names), text);
  if (!slot) {
    names->error = ENOMEM;
    return 0;
  }
  if (*slot)
    return *slot - 1;
  char **name = GP_ARRAY_ADD(names->names, names->count);
  if (!name || !(*name = strdup(text))) {
    names->error = ENOMEM;
    return 0;
  }
  gp_hash_index_put(&names->index, slot, names->count - 1);
  return names->count - 1;
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
  gp_hash_index_fini(&names->index);
  *names = (gp_page_names_t){0};
}
