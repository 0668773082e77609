#include "tools/json_scan.h"

#include <string.h>

static const char ends_early[] = "the input ends here, in the middle of the document";

bool gp_json_slice_is(gp_json_slice_t slice, const char *text)
{
  return strlen(text) == slice.length && memcmp(slice.text, text, slice.length) == 0;
}

void gp_json_scan_init(gp_json_scan_t *scan, const char *text, size_t length)
{
  *scan = (gp_json_scan_t){.text = text, .length = length};
}

bool gp_json_scan_fail(gp_json_scan_t *scan, size_t at, const char *error)
{
  if (!scan->error) {
    scan->error = at >= scan->length ? ends_early : error;
    scan->error_at = at;
  }
  return false;
}

static inline void skip_blanks(gp_json_scan_t *scan)
{
  const char *p = scan->text + scan->at; /* the NUL at the end stops it */
  while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')
    p++;
  scan->at = (size_t)(p - scan->text);
}

char gp_json_scan_peek(gp_json_scan_t *scan)
{
  if (scan->error)
    return '\0';
  skip_blanks(scan);
  return scan->at < scan->length ? scan->text[scan->at] : '\0';
}

/* The bit of the present depth. */
static inline uint64_t first_bit(const gp_json_scan_t *scan)
{
  return UINT64_C(1) << (scan->depth - 1);
}

bool gp_json_scan_begin(gp_json_scan_t *scan, char bracket)
{
  if (gp_json_scan_peek(scan) != bracket)
    return gp_json_scan_fail(
        scan, scan->at, bracket == '{' ? "an object was expected" : "an array was expected");
  if (scan->depth == GP_JSON_SCAN_DEPTH)
    return gp_json_scan_fail(scan, scan->at, "nested too deep");
  scan->at++;
  scan->depth++;
  scan->is_first |= first_bit(scan);
  return true;
}

/* Goes past a comma, if one is due, or the closing bracket; false after the latter. */
static bool next(gp_json_scan_t *scan, char bracket)
{
  char c = gp_json_scan_peek(scan);
  if (scan->error)
    return false;
  if (c == bracket) {
    scan->at++;
    scan->depth--;
    return false;
  }
  if (scan->is_first & first_bit(scan)) {
    scan->is_first &= ~first_bit(scan);
    return true;
  }
  if (c != ',')
    return gp_json_scan_fail(scan, scan->at, "a comma or the end of the list was expected");
  scan->at++;
  return true;
}

bool gp_json_scan_element(gp_json_scan_t *scan)
{
  return next(scan, ']');
}

bool gp_json_scan_member(gp_json_scan_t *scan, gp_json_slice_t *ret_name)
{
  if (!next(scan, '}'))
    return false;
  if (!gp_json_scan_string(scan, ret_name))
    return false;
  if (gp_json_scan_peek(scan) != ':')
    return gp_json_scan_fail(scan, scan->at, "a colon was expected");
  scan->at++;
  return true;
}

size_t gp_json_utf8_length(const unsigned char *p)
{
  unsigned char first = p[0];
  unsigned char least = 0x80, most = 0xbf;
  size_t length = 0;
  if (first < 0x80)
    return 1;
  if (first >= 0xc2 && first <= 0xdf)
    length = 2;
  else if (first >= 0xe0 && first <= 0xef)
    length = 3;
  else if (first >= 0xf0 && first <= 0xf4)
    length = 4;
  if (first == 0xe0)
    least = 0xa0;
  else if (first == 0xed)
    most = 0x9f; /* surrogates */
  else if (first == 0xf0)
    least = 0x90;
  else if (first == 0xf4)
    most = 0x8f;
  if (!length || p[1] < least || p[1] > most)
    return 0;
  for (size_t i = 2; i < length; i++) {
    if ((p[i] & 0xc0) != 0x80)
      return 0;
  }
  return length;
}

/* The 16 bits of "\uXXXX" at p; -1 if it is something else. */
static int32_t escaped_unit(const char *p)
{
  int32_t unit = 0;
  if (p[0] != '\\' || p[1] != 'u')
    return -1;
  for (int i = 2; i < 6; i++) {
    char c = p[i];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0)
      return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

/* The length of the escape at p, 0 if it is none. */
static size_t escape_length(const char *p)
{
  if (p[1] && strchr("\"\\/bfnrt", p[1]))
    return 2;
  int32_t unit = escaped_unit(p);
  if (unit < 0 || (unit >= 0xdc00 && unit < 0xe000))
    return 0;
  if (unit < 0xd800 || unit >= 0xe000)
    return 6;
  int32_t low = escaped_unit(p + 6);
  return low >= 0xdc00 && low < 0xe000 ? 12 : 0;
}

/* Not a correct escape or character at p: true if one could begin there, were the text longer. */
static bool is_cut_short(const char *p, const char *end)
{
  static const char *const fillers[] = {
      "\\u0000\\udc00", "\x80\x80\x80\x80", "\x90\x90\x90\x90", "\xa0\xa0\xa0\xa0"};
  size_t left = (size_t)(end - p);
  for (size_t i = 0; i < sizeof(fillers) / sizeof(fillers[0]); i++) {
    char filled[16] = "";
    size_t length = strlen(fillers[i]);
    if (left == 0 || left >= length || (*p == '\\') != (i == 0))
      continue;
    memcpy(filled, fillers[i], length);
    memcpy(filled, p, left);
    if ((i == 0 ? escape_length(filled) : gp_json_utf8_length((const unsigned char *)filled)) > left)
      return true;
  }
  return false;
}

bool gp_json_scan_string(gp_json_scan_t *scan, gp_json_slice_t *ret_string)
{
  if (gp_json_scan_peek(scan) != '"')
    return gp_json_scan_fail(scan, scan->at, "a string was expected");
  const char *begin = scan->text + scan->at + 1;
  const char *end = scan->text + scan->length;
  const char *p = begin;
  while (*p != '"') {
    if ((unsigned char)*p < 0x20)
      return gp_json_scan_fail(scan, (size_t)(p - scan->text), "a control character in a string");
    size_t length = *p == '\\' ? escape_length(p) : gp_json_utf8_length((const unsigned char *)p);
    if (!length)
      return gp_json_scan_fail(scan, is_cut_short(p, end) ? scan->length : (size_t)(p - scan->text),
          *p == '\\' ? "an escape that does not exist" : "a string that is not UTF-8");
    p += length;
  }
  *ret_string = (gp_json_slice_t){begin, (size_t)(p - begin)};
  scan->at = (size_t)(p + 1 - scan->text);
  return true;
}

/*
 * Reads the integer at p. Returns where it ends, or NULL with the clause in *ret_error, at *ret_at. Inline:
 * the inner loop of everything that reads events.
 */
static inline const char *read_integer(
    const char *p, int64_t *ret_number, const char **ret_error, const char **ret_at)
{
  const char *begin = p;
  bool is_negative = *p == '-';
  uint64_t number = 0;

  p += is_negative;
  const char *digits = p;
  unsigned digit = (unsigned char)*p - '0';
  while (digit <= 9) {
    number = number * 10 + digit;
    p++;
    digit = (unsigned char)*p - '0';
    if (p - digits > 16)
      break; /* beyond 2^53 in any case, and 64 bits hold 17 digits */
  }
  *ret_at = begin;
  if (p == digits) {
    *ret_error = "a whole number was expected";
    if (is_negative)
      *ret_at = p;
    return NULL;
  }
  if (*digits == '0' && p - digits > 1) {
    *ret_error = "a number with a leading zero";
    return NULL;
  }
  if (*p == '.' || *p == 'e' || *p == 'E') {
    *ret_error = "a whole number was expected";
    return NULL;
  }
  if (number > (uint64_t)GP_JSON_SCAN_INTEGER_MAX) {
    *ret_error = "a number beyond 2^53";
    return NULL;
  }
  *ret_number = is_negative ? -(int64_t)number : (int64_t)number;
  return p;
}

bool gp_json_scan_integer(gp_json_scan_t *scan, int64_t *ret_number)
{
  const char *error, *at;
  if (gp_json_scan_peek(scan) == '\0')
    return gp_json_scan_fail(scan, scan->at, "a whole number was expected");
  const char *end = read_integer(scan->text + scan->at, ret_number, &error, &at);
  if (!end)
    return gp_json_scan_fail(scan, (size_t)(at - scan->text), error);
  scan->at = (size_t)(end - scan->text);
  return true;
}

static const char *skip_digits(const char *p)
{
  while (*p >= '0' && *p <= '9')
    p++;
  return p;
}

static bool skip_number(gp_json_scan_t *scan)
{
  const char *begin = scan->text + scan->at;
  const char *p = begin;
  p += *p == '-';
  const char *digits = p;
  p = skip_digits(p);
  bool good = p > digits && !(*digits == '0' && p - digits > 1);
  if (good && *p == '.') {
    digits = ++p;
    p = skip_digits(p);
    good = p > digits;
  }
  if (good && (*p == 'e' || *p == 'E')) {
    p++;
    p += *p == '-' || *p == '+';
    digits = p;
    p = skip_digits(p);
    good = p > digits;
  }
  if (!good) /* where it stops is where it is wrong: that may be the end of the text */
    return gp_json_scan_fail(scan, (size_t)(p - scan->text), "a value was expected");
  if (p - begin > GP_JSON_SCAN_DIGITS)
    return gp_json_scan_fail(scan, scan->at, "a number with too many digits");
  scan->at = (size_t)(p - scan->text);
  return true;
}

static bool skip_word(gp_json_scan_t *scan, const char *word)
{
  size_t length = strlen(word);
  size_t left = scan->length - scan->at;
  if (left < length && strncmp(scan->text + scan->at, word, left) == 0)
    return gp_json_scan_fail(scan, scan->length, ends_early);
  if (left < length || strncmp(scan->text + scan->at, word, length) != 0)
    return gp_json_scan_fail(scan, scan->at, "a value was expected");
  scan->at += length;
  return true;
}

bool gp_json_scan_skip(gp_json_scan_t *scan)
{
  gp_json_slice_t string;
  switch (gp_json_scan_peek(scan)) {
  case '{':
    if (!gp_json_scan_begin(scan, '{'))
      return false;
    while (gp_json_scan_member(scan, &string) && gp_json_scan_skip(scan))
      ;
    return !scan->error;
  case '[':
    if (!gp_json_scan_begin(scan, '['))
      return false;
    while (gp_json_scan_element(scan) && gp_json_scan_skip(scan))
      ;
    return !scan->error;
  case '"': return gp_json_scan_string(scan, &string);
  case 't': return skip_word(scan, "true");
  case 'f': return skip_word(scan, "false");
  case 'n': return skip_word(scan, "null");
  default: return !scan->error && skip_number(scan);
  }
}

bool gp_json_scan_end(gp_json_scan_t *scan)
{
  (void)gp_json_scan_peek(scan); /* for the blanks */
  if (scan->error)
    return false;
  if (scan->at < scan->length)
    return gp_json_scan_fail(scan, scan->at, "something follows the end of the document");
  return true;
}

bool gp_json_scan_integers(gp_json_scan_t *scan, int64_t *values, size_t room, size_t *ret_count)
{
  size_t count = 0;
  const char *error = NULL, *at = NULL;

  while (count < room && gp_json_scan_element(scan)) {
    (void)gp_json_scan_peek(scan); /* for the blanks */
    const char *p = scan->text + scan->at;
    /* The usual case, digits and a comma, stays in this loop. */
    for (;;) {
      p = read_integer(p, &values[count], &error, &at);
      if (!p)
        return gp_json_scan_fail(scan, (size_t)(at - scan->text), error);
      count++;
      if (count == room || p[0] != ',' || !(p[1] == '-' || (p[1] >= '0' && p[1] <= '9')))
        break;
      p++;
    }
    scan->at = (size_t)(p - scan->text);
  }
  *ret_count = count;
  return !scan->error;
}
