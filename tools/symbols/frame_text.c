/*
 * How a frame is shown.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tools/symbols/frame_text.h"
#include "tools/shorten.h"
#include "tools/tool.h"

/* Removes ".isra.0" or ".cold": what a compiler made of the function. False: there is none. */
static bool drop_variant(char *name)
{
  static const char *const words[] = {"isra", "constprop", "part", "cold", "localalias", "lto_priv", "llvm"};
  size_t end = strlen(name), digits = end;

  while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
    digits--;
  if (digits > 0 && digits < end && name[digits - 1] == '.')
    end = digits - 1;
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    size_t length = strlen(words[i]);
    if (end > length + 1 && name[end - length - 1] == '.' &&
        memcmp(name + end - length, words[i], length) == 0) {
      name[end - length - 1] = '\0';
      return true;
    }
  }
  return false;
}

/* Copies the function's name. Of C and C++ without variants, which demangled are " [clone .isra.0]". */
static char *copy_function(const gp_snapshot_frame_t *frame, char *buffer, size_t capacity)
{
  static const char clone[] = " [clone .";

  (void)snprintf(buffer, capacity, "%s", frame->function);
  if (frame->file[0] == '<' || strstr(frame->file, ".py")) /* methods may be called so */
    return buffer;
  char *at = strstr(buffer, clone);
  if (at)
    *at = '\0';
  while (drop_variant(buffer))
    ;
  return buffer;
}

char *gp_frame_describe(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity)
{
  const gp_snapshot_frame_t *what = &snapshot->frames[frame];
  const gp_snapshot_module_t *module = what->module >= 0 ? &snapshot->modules[what->module] : NULL;
  char text[2048], function[1024];

  copy_function(what, function, sizeof(function));
  if (what->function[0] && what->file[0] && what->line > 0)
    (void)snprintf(text, sizeof(text), "%s %s:%d", function, gp_base_name(what->file), what->line);
  else if (what->function[0] && what->file[0])
    (void)snprintf(text, sizeof(text), "%s %s", function, gp_base_name(what->file));
  else if (what->function[0])
    (void)snprintf(text, sizeof(text), "%s", function);
  else if (module)
    (void)snprintf(
        text, sizeof(text), "%s+0x%" PRIx64, gp_base_name(module->path), what->address - module->bias);
  else
    (void)snprintf(text, sizeof(text), "0x%" PRIx64, what->address);
  return gp_printable(text, buffer, capacity);
}

char *gp_frame_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity)
{
  const gp_snapshot_frame_t *what = &snapshot->frames[frame];
  if (!what->function[0])
    return gp_frame_describe(snapshot, frame, buffer, capacity);
  return copy_function(what, buffer, capacity);
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
