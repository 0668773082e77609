#include "tools/read/json_scan.h"

#include <endian.h>
#include <string.h>

#include "base/assert.h"

#define ESCAPE_BYTES  12 /* longest escape: a surrogate pair */
#define INTEGER_BYTES 24 /* enough to parse a number up to 2^53, or to detect a larger one */

static const char ends_early[] = "the input ends here, in the middle of the document";

bool gp_json_slice_is(gp_json_slice_t slice, const char *text)
{
  return strlen(text) == slice.length && memcmp(slice.text, text, slice.length) == 0;
}

void gp_json_scan_init(gp_json_scan_t *scan, const char *text, size_t length)
{
  *scan = (gp_json_scan_t){.text = text, .length = length, .keep = SIZE_MAX};
}

static void take_window(gp_json_scan_t *scan)
{
  scan->text = scan->input->text;
  scan->base = scan->input->base;
  scan->length = scan->input->base + scan->input->length;
}

void gp_json_scan_init_input(gp_json_scan_t *scan, gp_input_t *input)
{
  *scan = (gp_json_scan_t){.input = input, .at = input->base, .keep = SIZE_MAX};
  take_window(scan);
}

/* Returns the text at the offset `at`, which must be in the window. */
static inline const char *text_at(const gp_json_scan_t *scan, size_t at)
{
  gp_assert_internal(at >= scan->base && at <= scan->length);
  return scan->text + (at - scan->base);
}

static inline size_t offset_of(const gp_json_scan_t *scan, const char *p)
{
  return scan->base + (size_t)(p - scan->text);
}

/* Moves the window forwards. The window keeps everything from scan->at on, or from scan->keep if that is
 * smaller. Returns false at the end of the input. */
static bool fill(gp_json_scan_t *scan)
{
  if (!scan->input)
    return false;
  bool is_more = gp_input_more(scan->input, scan->at < scan->keep ? scan->at : scan->keep);
  take_window(scan);
  return is_more;
}

/* Extends the window to `bytes` bytes after scan->at, or to the end of a shorter input. */
static inline void look_ahead(gp_json_scan_t *scan, size_t bytes)
{
  while (scan->length - scan->at < bytes && fill(scan))
    ;
}

bool gp_json_scan_fail(gp_json_scan_t *scan, size_t at, const char *error)
{
  if (!scan->error) {
    scan->error = at >= scan->length && !fill(scan) ? ends_early : error;
    scan->error_at = at;
  }
  return false;
}

char gp_json_scan_peek(gp_json_scan_t *scan)
{
  if (scan->error)
    return '\0';
  do {
    const char *p = text_at(scan, scan->at); /* the loop stops at the NUL at the end */
    while (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')
      p++;
    scan->at = offset_of(scan, p);
    if (scan->at < scan->length)
      return *p;
  } while (fill(scan));
  return '\0';
}

/* Returns the bit of scan->is_first for the current depth. */
static inline uint64_t first_bit(const gp_json_scan_t *scan)
{
  gp_assert_internal(scan->depth && scan->depth <= GP_JSON_SCAN_DEPTH);
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

/* Skips the closing bracket or, unless the next element is the first, a comma. Returns false at the closing
 * bracket or after an error. */
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
  (void)gp_json_scan_peek(scan); /* skip blanks */
  size_t at = scan->at, keep = scan->keep;
  if (!gp_json_scan_string(scan, ret_name))
    return false;
  /* Keep the name in the window until the value is there, too. Then a later peek does not move the name. */
  if (at < keep)
    scan->keep = at;
  bool good = gp_json_scan_peek(scan) == ':' || gp_json_scan_fail(scan, scan->at, "a colon was expected");
  if (good) {
    scan->at++;
    (void)gp_json_scan_peek(scan); /* reading the value reports an error */
  }
  scan->keep = keep;
  ret_name->text = text_at(scan, at + 1);
  return good;
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
    most = 0x9f; /* UTF-8 does not allow surrogates */
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

/* Returns the 16 bits of an escape "\uXXXX" at `p`, or -1 if there is no such escape. */
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

/* Returns the length of the escape at `p`, or 0 if there is no valid escape. */
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

/* Returns true if the text up to `end` is the beginning of an escape or character. There must be no complete
 * escape or character at `p`. */
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

/* Skips ASCII characters that need no escape, which most characters are. Stops at the NUL at the end. */
static inline const char *skip_plain(const char *p)
{
  while ((unsigned char)*p >= 0x20 && (unsigned char)*p < 0x80 && *p != '"' && *p != '\\')
    p++;
  return p;
}

bool gp_json_scan_string(gp_json_scan_t *scan, gp_json_slice_t *ret_string)
{
  if (gp_json_scan_peek(scan) != '"')
    return gp_json_scan_fail(scan, scan->at, "a string was expected");
  const char *p = skip_plain(text_at(scan, scan->at + 1));
  while (*p != '"') {
    size_t length = (unsigned char)*p < 0x20 ? 0
                    : *p == '\\'             ? escape_length(p)
                                             : gp_json_utf8_length((const unsigned char *)p);
    if (length) {
      p = skip_plain(p + length);
      continue;
    }
    size_t at = offset_of(scan, p);
    bool is_more = scan->length - at < ESCAPE_BYTES && fill(scan);
    p = text_at(scan, at);
    if (is_more)
      continue;
    if (at < scan->length && (unsigned char)*p < 0x20)
      return gp_json_scan_fail(scan, at, "a control character in a string");
    return gp_json_scan_fail(scan, is_cut_short(p, text_at(scan, scan->length)) ? scan->length : at,
        *p == '\\' ? "an escape that does not exist" : "a string that is not UTF-8");
  }
  size_t length = offset_of(scan, p) - scan->at - 1;
  *ret_string = (gp_json_slice_t){p - length, length};
  scan->at += length + 2;
  return true;
}

/* Reads the integer at `p` and returns its end. After an error, returns NULL, a clause in *ret_error and the
 * position of the error in *ret_at. Inline, because it is the inner loop of all readers of events. */
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
      break; /* larger than 2^53 already; 64 bits represent 17 digits */
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
  look_ahead(scan, INTEGER_BYTES);
  const char *end = read_integer(text_at(scan, scan->at), ret_number, &error, &at);
  if (!end)
    return gp_json_scan_fail(scan, offset_of(scan, at), error);
  scan->at = offset_of(scan, end);
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
  look_ahead(scan, GP_JSON_SCAN_DIGITS + 2);
  const char *begin = text_at(scan, scan->at);
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
  if (p - begin > GP_JSON_SCAN_DIGITS) /* the window may end inside the number */
    return gp_json_scan_fail(scan, scan->at, "a number with too many digits");
  if (!good) /* the error is where parsing stopped, perhaps at the end of the text */
    return gp_json_scan_fail(scan, offset_of(scan, p), "a value was expected");
  scan->at = offset_of(scan, p);
  return true;
}

static bool skip_word(gp_json_scan_t *scan, const char *word)
{
  size_t length = strlen(word);
  look_ahead(scan, length);
  size_t left = scan->length - scan->at;
  if (left < length && strncmp(text_at(scan, scan->at), word, left) == 0)
    return gp_json_scan_fail(scan, scan->length, ends_early);
  if (left < length || strncmp(text_at(scan, scan->at), word, length) != 0)
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

bool gp_json_scan_value(gp_json_scan_t *scan, gp_json_slice_t *ret_text)
{
  (void)gp_json_scan_peek(scan); /* skip blanks */
  size_t at = scan->at, keep = scan->keep;
  if (at < keep)
    scan->keep = at;
  bool good = gp_json_scan_skip(scan);
  scan->keep = keep;
  *ret_text = (gp_json_slice_t){text_at(scan, at), scan->at - at};
  return good;
}

bool gp_json_scan_end(gp_json_scan_t *scan)
{
  (void)gp_json_scan_peek(scan); /* skip blanks */
  if (scan->error)
    return false;
  if (scan->at < scan->length)
    return gp_json_scan_fail(scan, scan->at, "something follows the end of the document");
  return true;
}

/* Reads ",1,2,3,4" at `p`: four numbers of one digit, followed by another comma. In most columns of events
 * nearly all numbers have one digit. Returns false if the text at `p` has another form. Reads nine bytes. */
static inline bool read_four_digits(const char *p, int64_t *values)
{
  uint64_t word;
  memcpy(&word, p, sizeof(word));
  word = le64toh(word) ^ UINT64_C(0x302c302c302c302c); /* even bytes become 0, odd bytes the digits' values */
  if ((word | (word + UINT64_C(0x0600060006000600))) & UINT64_C(0xf0fff0fff0fff0ff) || p[8] != ',')
    return false;
  for (int i = 0; i < 4; i++)
    values[i] = (int64_t)(word >> (16 * i + 8) & 0xff);
  return true;
}

bool gp_json_scan_integers(gp_json_scan_t *scan, int64_t *values, size_t room, size_t *ret_count)
{
  size_t count = 0;
  const char *error = NULL, *at = NULL;

  while (count < room && gp_json_scan_element(scan)) {
    if (!gp_json_scan_integer(scan, &values[count++]))
      return false;
    /* Fast path for digits after a comma. It ends where a number could cross the end of the window. */
    const char *p = text_at(scan, scan->at), *end = text_at(scan, scan->length);
    while (count < room && end - p > INTEGER_BYTES && p[0] == ',' &&
           (p[1] == '-' || (p[1] >= '0' && p[1] <= '9'))) {
      if (p[2] == ',' && room - count >= 4 && read_four_digits(p, &values[count])) {
        count += 4;
        p += 8;
        continue;
      }
      p = read_integer(p + 1, &values[count++], &error, &at);
      if (!p)
        return gp_json_scan_fail(scan, offset_of(scan, at), error);
    }
    scan->at = offset_of(scan, p);
  }
  *ret_count = count;
  return !scan->error;
}
