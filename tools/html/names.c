#include "tools/html/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/hash_index.h"

size_t gp_page_name(gp_page_names_t *names, const char *text)
{
  char **name = names->error ? NULL : GP_HASH_TEXT(&names->index, names->names, names->count, text, true);
  if (!name)
    names->error = ENOMEM;
  return name ? (size_t)(name - names->names) : 0;
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
