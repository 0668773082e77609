#include "base/json.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/printable.h"

static const char digit_pairs[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

void gp_json_init(gp_json_t *json, int fd, char *buffer, size_t capacity)
{
  *json = (gp_json_t){.fd = fd, .buffer = buffer, .capacity = capacity, .left = UINT64_MAX};
}

void gp_json_bound(gp_json_t *json, uint64_t most)
{
  json->left = most;
}

static void flush(gp_json_t *json)
{
  const char *from = json->buffer;
  if (json->used > json->left && !json->error)
    json->error = EOVERFLOW;
  json->left -= json->error ? 0 : json->used;
  while (json->used > 0 && !json->error) {
    ssize_t written = write(json->fd, from, json->used);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0) {
      json->error = written < 0 ? errno : EIO;
      break;
    }
    from += written;
    json->used -= (size_t)written;
  }
  json->used = 0;
}

int gp_json_finish(gp_json_t *json)
{
  flush(json);
  return json->error;
}

/* Makes room for `bytes` in the buffer, at most 64, and returns where to write them. */
static inline char *reserve(gp_json_t *json, size_t bytes)
{
  if (json->capacity - json->used < bytes)
    flush(json);
  return json->buffer + json->used;
}

static inline void put_char(gp_json_t *json, char c)
{
  *reserve(json, 1) = c;
  json->used++;
}

static void put(gp_json_t *json, const char *text, size_t length)
{
  while (length > 0 && !json->error) {
    size_t room = json->capacity - json->used;
    if (!room) {
      flush(json);
      continue;
    }
    size_t part = length < room ? length : room;
    memcpy(json->buffer + json->used, text, part);
    json->used += part;
    text += part;
    length -= part;
  }
}

static inline void begin_value(gp_json_t *json)
{
  if (json->needs_comma)
    put_char(json, ',');
  json->needs_comma = true;
}

void gp_json_begin(gp_json_t *json, char bracket)
{
  begin_value(json);
  put_char(json, bracket);
  json->needs_comma = false;
}

void gp_json_end(gp_json_t *json, char bracket)
{
  put_char(json, bracket);
  json->needs_comma = true;
}

void gp_json_newline(gp_json_t *json)
{
  if (json->needs_comma)
    put_char(json, ',');
  put_char(json, '\n');
  json->needs_comma = false;
}

void gp_json_key(gp_json_t *json, const char *name)
{
  begin_value(json);
  put_char(json, '"');
  put(json, name, strlen(name));
  put(json, "\":", 2);
  json->needs_comma = false;
}

/* Writes the digits of `number` so that they end before `end`. Returns the position of the first digit. */
static inline char *format_digits(char *end, uint64_t number)
{
  while (number >= 100) {
    end -= 2;
    memcpy(end, &digit_pairs[2 * (number % 100)], 2);
    number /= 100;
  }
  if (number >= 10) {
    end -= 2;
    memcpy(end, &digit_pairs[2 * number], 2);
  } else {
    *--end = (char)('0' + number);
  }
  return end;
}

void gp_json_uint(gp_json_t *json, uint64_t number)
{
  char digits[20];
  if (number > GP_JSON_INTEGER_MAX)
    number = GP_JSON_INTEGER_MAX;
  char *to = reserve(json, 1 + sizeof(digits));
  if (json->needs_comma) {
    *to++ = ',';
    json->used++;
  }
  json->needs_comma = true;
  if (number < 10) {
    *to = (char)('0' + number);
    json->used++;
    return;
  }
  char *begin = format_digits(digits + sizeof(digits), number);
  size_t length = (size_t)(digits + sizeof(digits) - begin);
  memcpy(to, begin, length);
  json->used += length;
}

void gp_json_int(gp_json_t *json, int64_t number)
{
  if (number >= 0) {
    gp_json_uint(json, (uint64_t)number);
    return;
  }
  begin_value(json);
  put_char(json, '-');
  json->needs_comma = false;
  gp_json_uint(json, 0 - (uint64_t)number);
}

void gp_json_bool(gp_json_t *json, bool value)
{
  begin_value(json);
  put(json, value ? "true" : "false", value ? 4 : 5);
}

void gp_json_null(gp_json_t *json)
{
  begin_value(json);
  put(json, "null", 4);
}

void gp_json_ratio(gp_json_t *json, uint64_t part, uint64_t whole)
{
  /* Written digit by digit, so the result does not depend on the locale. Sizes are below 2^53, so a double is
   * exact enough for six decimals. */
  uint64_t millionths = whole ? (uint64_t)(1e6 * (double)part / (double)whole + 0.5) : 0;
  char decimals[6];
  uint64_t rest = millionths % 1000000;
  for (int i = 5; i >= 0; i--, rest /= 10)
    decimals[i] = (char)('0' + rest % 10);
  gp_json_uint(json, millionths / 1000000);
  put_char(json, '.');
  put(json, decimals, sizeof(decimals));
}

void gp_json_microseconds(gp_json_t *json, uint64_t time_ns)
{
  uint64_t rest = time_ns % 1000;
  char decimals[3] = {(char)('0' + rest / 100), (char)('0' + rest / 10 % 10), (char)('0' + rest % 10)};
  size_t count = sizeof(decimals);
  while (count > 0 && decimals[count - 1] == '0')
    count--;
  gp_json_uint(json, time_ns / 1000);
  if (count > 0) {
    put_char(json, '.');
    put(json, decimals, count);
  }
}

void gp_json_hex(gp_json_t *json, uint64_t number)
{
  char text[16];
  size_t at = sizeof(text);
  do {
    text[--at] = "0123456789abcdef"[number & 15];
    number >>= 4;
  } while (number);
  begin_value(json);
  put(json, "\"0x", 3);
  put(json, text + at, sizeof(text) - at);
  put_char(json, '"');
}

/* Writes one UTF-16 code unit as "\uXXXX". A character above U+FFFF needs two units, a surrogate pair (RFC
 * 8259, section 7). */
static void put_unit(gp_json_t *json, uint32_t unit)
{
  static const char hex[] = "0123456789abcdef";
  const char text[6] = {'\\', 'u', hex[unit >> 12], hex[unit >> 8 & 15], hex[unit >> 4 & 15], hex[unit & 15]};
  put(json, text, sizeof(text));
}

static void put_escaped(gp_json_t *json, uint32_t code)
{
  switch (code) {
  case '"': put(json, "\\\"", 2); return;
  case '\\': put(json, "\\\\", 2); return;
  case '\n': put(json, "\\n", 2); return;
  case '\t': put(json, "\\t", 2); return;
  default: break;
  }
  if (code > 0xffff)
    put_unit(json, 0xd800 + ((code - 0x10000) >> 10));
  put_unit(json, code > 0xffff ? 0xdc00 + (code & 0x3ff) : code);
}

/* Returns the end of the leading bytes that need no escape. Nearly all bytes need none, so the caller can
 * copy them together. */
static const unsigned char *skip_plain(const unsigned char *at, const unsigned char *end)
{
  while (at < end && *at >= 0x20 && *at < 0x7f && *at != '"' && *at != '\\')
    at++;
  return at;
}

void gp_json_bytes(gp_json_t *json, const char *bytes, size_t length)
{
  const unsigned char *at = (const unsigned char *)bytes;
  const unsigned char *end = at + length;
  if (json->error)
    return; /* avoids the work for long texts after an error */
  begin_value(json);
  put_char(json, '"');
  while (at < end) {
    const unsigned char *plain = at;
    at = skip_plain(at, end);
    put(json, (const char *)plain, (size_t)(at - plain));
    if (at == end)
      break;
    gp_character_t character = gp_character_at((const char *)at, (size_t)(end - at));
    if (character.is_malformed)
      put(json, "\xef\xbf\xbd", 3);
    else if (character.is_unsafe || character.length == 1)
      put_escaped(json, character.code);
    else
      put(json, (const char *)at, character.length);
    at += character.length;
  }
  put_char(json, '"');
}

void gp_json_string(gp_json_t *json, const char *text)
{
  if (!text)
    gp_json_null(json);
  else if (!json->error)
    gp_json_bytes(json, text, strlen(text));
}

void gp_json_key_uint(gp_json_t *json, const char *name, uint64_t number)
{
  gp_json_key(json, name);
  gp_json_uint(json, number);
}

void gp_json_key_int(gp_json_t *json, const char *name, int64_t number)
{
  gp_json_key(json, name);
  gp_json_int(json, number);
}

void gp_json_key_string(gp_json_t *json, const char *name, const char *text)
{
  gp_json_key(json, name);
  gp_json_string(json, text);
}
