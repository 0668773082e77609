#include "tools/json_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/printable.h"
#include "tools/tool.h"

/* Writes a character as an escape sequence; above U+FFFF as a surrogate pair (RFC 8259, section 7). */
static void write_escape(FILE *stream, const gp_character_t *character)
{
  uint32_t code = character->is_malformed ? 0xfffd : character->code;
  if (code > 0xffff)
    fprintf(stream, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)),
        (unsigned)(0xdc00 + (code & 0x3ff)));
  else
    fprintf(stream, "\\u%04x", (unsigned)code);
}

/* Returns the position of the first byte from `at` on that is not printable ASCII. */
static size_t skip_plain(const char *text, size_t at, size_t length)
{
  while (at < length && (unsigned char)text[at] >= 0x20 && (unsigned char)text[at] < 0x7f)
    at++;
  return at;
}

char *gp_json_escape(const char *text, size_t length, size_t *ret_length)
{
  char *escaped = NULL;
  FILE *stream = open_memstream(&escaped, ret_length);
  if (!stream)
    return NULL;
  for (size_t at = 0; at < length;) {
    size_t plain = skip_plain(text, at, length);
    (void)fwrite(text + at, 1, plain - at, stream); /* fclose reports write errors later */
    at = plain;
    if (at == length)
      break;
    gp_character_t character = gp_character_at(text + at, length - at);
    bool is_blank =
        text[at] == '\n' || text[at] == '\t' || text[at] == '\r'; /* not in strings, which have \n etc. */
    if (character.is_unsafe && !is_blank)
      write_escape(stream, &character);
    else
      (void)fwrite(text + at, 1, character.length, stream);
    at += character.length;
  }
  bool failed = ferror(stream);
  if (fclose(stream) == 0 && !failed)
    return escaped;
  free(escaped);
  return NULL;
}

char *gp_json_print(const cJSON *item, bool is_flat)
{
  size_t length;
  char *text = is_flat ? cJSON_PrintUnformatted(item) : cJSON_Print(item);
  char *escaped = text ? gp_json_escape(text, strlen(text), &length) : NULL;
  cJSON_free(text);
  return escaped;
}

int gp_json_put(cJSON *root)
{
  char *text = gp_json_print(root, false);
  cJSON_Delete(root);
  if (!text) {
    gp_message("out of memory");
    return GP_EXIT_INPUT;
  }
  puts(text);
  free(text);
  return GP_EXIT_DONE;
}

void gp_json_add_uint(cJSON *object, const char *name, uint64_t number)
{
  char text[24];
  snprintf(text, sizeof(text), "%" PRIu64, number);
  cJSON_AddRawToObject(object, name, text);
}

void gp_json_add_int(cJSON *object, const char *name, int64_t number)
{
  char text[24];
  snprintf(text, sizeof(text), "%" PRId64, number);
  cJSON_AddRawToObject(object, name, text);
}

void gp_json_add_uint_or_null(cJSON *object, const char *name, bool known, uint64_t number)
{
  if (known)
    gp_json_add_uint(object, name, number);
  else
    cJSON_AddNullToObject(object, name);
}

void gp_json_add_text_or_null(cJSON *object, const char *name, const char *text)
{
  if (text && text[0])
    cJSON_AddStringToObject(object, name, text);
  else
    cJSON_AddNullToObject(object, name);
}

void gp_json_add_amount(cJSON *object, const char *name, uint64_t bytes, uint64_t count)
{
  cJSON *item = cJSON_AddObjectToObject(object, name);
  gp_json_add_uint(item, "bytes", bytes);
  gp_json_add_uint(item, "count", count);
}

cJSON *gp_json_add_item(cJSON *list)
{
  cJSON *item = cJSON_CreateObject();
  cJSON_AddItemToArray(list, item);
  return item;
}

cJSON *gp_json_add_object_or_null(cJSON *object, const char *name, bool known)
{
  if (known)
    return cJSON_AddObjectToObject(object, name);
  cJSON_AddNullToObject(object, name);
  return NULL;
}

cJSON *gp_json_document(const char *command)
{
  char format[64];
  cJSON *root = cJSON_CreateObject();
  snprintf(format, sizeof(format), "gpupool-%s", command);
  cJSON_AddStringToObject(root, "format", format);
  cJSON_AddNumberToObject(root, "version", 1);
  return root;
}
