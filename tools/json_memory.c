#include "tools/json_memory.h"

#include <cjson/cJSON.h>
#include <stdlib.h>

#include "tools/part_file.h"
#include "tools/tool.h"

static void *allocate(size_t bytes)
{
  void *taken = malloc(bytes);
  if (taken)
    return taken;
  gp_message("JSON: there is no memory left");
  gp_part_file_remove();
  exit(GP_EXIT_INPUT); /* the exit handler of `gpupool live` restores the terminal */
}

void gp_json_memory_init(void)
{
  cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = allocate, .free_fn = free});
}
