#include "base/block_list.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/size.h"

/* Parses the number of blocks in text[0..length), which may have blanks around it. Returns 0 if the number is
 * malformed or out of bounds. */
static uint32_t parse_count(const char *text, size_t length)
{
  uint32_t count = 0;
  size_t at = 0;

  while (at < length && text[at] == ' ')
    at++;
  while (length > at && text[length - 1] == ' ')
    length--;
  if (at == length)
    return 0;
  for (; at < length; at++) {
    if (!isdigit((unsigned char)text[at]))
      return 0;
    count = count * 10 + (uint32_t)(text[at] - '0');
    if (count > GP_BLOCK_LIST_COUNT)
      return 0;
  }
  return count;
}

/* Parses one entry, SIZE or SIZE*COUNT, in text[0..length). Returns false if it is malformed, and writes the
 * reason to `why`. */
static bool parse_entry(const char *text, size_t length, uint64_t *ret_bytes, uint32_t *ret_count, char *why)
{
  const char *star = memchr(text, '*', length);
  size_t size_length = star ? (size_t)(star - text) : length;
  char most[GP_SIZE_TEXT_BYTES];

  if (!gp_size_parse(text, size_length, ret_bytes) || *ret_bytes == 0 || *ret_bytes > GP_BLOCK_LIST_BYTES) {
    snprintf(why, GP_BLOCK_LIST_WHY_BYTES, "\"%.*s\" is no size from 1 B to %s, such as 64MiB",
        size_length < 48 ? (int)size_length : 48, text, gp_size_format(GP_BLOCK_LIST_BYTES, most));
    return false;
  }
  *ret_count = star ? parse_count(star + 1, length - size_length - 1) : 1;
  if (*ret_count > 0)
    return true;
  size_t shown = length - size_length - 1;
  snprintf(why, GP_BLOCK_LIST_WHY_BYTES, "\"%.*s\" is no number of blocks from 1 to %u, as in 64MiB*4",
      shown < 48 ? (int)shown : 48, star + 1, GP_BLOCK_LIST_COUNT);
  return false;
}

bool gp_block_list_parse(const char *text, gp_block_list_t *ret_list, char *why)
{
  gp_block_list_t list = {.count = 0};

  if (strcasecmp(text, "none") == 0) {
    *ret_list = list;
    return true;
  }
  for (const char *p = text;; p++) {
    size_t length = strcspn(p, ",");
    if (list.count == GP_BLOCK_LIST_ENTRIES) {
      snprintf(why, GP_BLOCK_LIST_WHY_BYTES, "it has more than %u sizes", GP_BLOCK_LIST_ENTRIES);
      return false;
    }
    if (!parse_entry(p, length, &list.entries[list.count].bytes, &list.entries[list.count].count, why))
      return false;
    list.count++;
    p += length;
    if (*p == '\0')
      break;
  }
  *ret_list = list;
  return true;
}
