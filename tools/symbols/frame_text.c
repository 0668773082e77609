/*
 * How a frame is shown.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tools/symbols/frame_text.h"
#include "tools/tool.h"

static const char *base_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

char *gp_frame_describe(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity)
{
  const gp_snapshot_frame_t *what = &snapshot->frames[frame];
  const gp_snapshot_module_t *module = what->module >= 0 ? &snapshot->modules[what->module] : NULL;
  char text[1024];

  if (what->function[0] && what->file[0] && what->line > 0)
    (void)snprintf(text, sizeof(text), "%s %s:%d", what->function, base_name(what->file), what->line);
  else if (what->function[0] && what->file[0])
    (void)snprintf(text, sizeof(text), "%s %s", what->function, base_name(what->file));
  else if (what->function[0])
    (void)snprintf(text, sizeof(text), "%s", what->function);
  else if (module)
    (void)snprintf(
        text, sizeof(text), "%s+0x%" PRIx64, base_name(module->path), what->address - module->bias);
  else
    (void)snprintf(text, sizeof(text), "0x%" PRIx64, what->address);
  return gp_printable(text, buffer, capacity);
}

char *gp_frame_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity)
{
  const gp_snapshot_frame_t *what = &snapshot->frames[frame];
  if (!what->function[0])
    return gp_frame_describe(snapshot, frame, buffer, capacity);
  (void)snprintf(buffer, capacity, "%s", what->function);
  return buffer;
}

/* Demangled names of function templates begin with the return type. */
const char *gp_function_without_result(const char *function)
{
  int depth = 0;
  const char *name = function;

  for (const char *at = function; *at; at++) {
    if (*at == '(' && depth == 0)
      break;
    if (strncmp(at, "operator", 8) == 0 && (at == name || at[-1] == ':'))
      break;
    depth += *at == '<';
    depth -= *at == '>';
    if (*at == ' ' && depth == 0)
      name = at + 1;
  }
  return name;
}
