/*
 * gpupool path: where the library is, for LD_PRELOAD="$(gpupool path)" ./app.
 */
#include <stdio.h>

#include "base/path.h"
#include "tools/parameters.h"
#include "tools/run/preload.h"
#include "tools/tool.h"

static void print_help(void)
{
  printf("usage: gpupool path\n\n"
         "Prints the path of the library that this tool preloads:\n\n"
         "    LD_PRELOAD=\"$(gpupool path)\" ./app\n");
}

int gp_command_path(int argc, char **argv)
{
  static const gp_words_form_t form = {.command = "path", .print_help = print_help};
  char library[GP_PATH_BYTES];
  int words, status;

  if (!gp_words_parse(&form, argc, argv, NULL, &words, &status))
    return status;
  return gp_preload_find(library, sizeof(library)) && puts(library) >= 0 ? GP_EXIT_DONE : GP_EXIT_INPUT;
}
