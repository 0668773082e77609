#include "base/size.h"

#include <ctype.h>
#include <stdio.h>

static int unit_shift(int letter)
{
  switch (tolower(letter)) {
  case 'k': return 10;
  case 'm': return 20;
  case 'g': return 30;
  case 't': return 40;
  default: return -1;
  }
}

/* Parses an optional unit at text[at..length). Returns false if the text is anything else. */
static bool parse_unit(const char *text, size_t length, size_t at, int *ret_shift)
{
  int shift = 0;

  while (at < length && text[at] == ' ')
    at++;
  if (at < length && unit_shift(text[at]) >= 0) {
    shift = unit_shift(text[at++]);
    if (at < length && tolower(text[at]) == 'i') {
      at++;
      if (at >= length || tolower(text[at]) != 'b')
        return false;
    }
  }
  if (at < length && tolower(text[at]) == 'b')
    at++;
  while (at < length && text[at] == ' ')
    at++;
  *ret_shift = shift;
  return at == length;
}

bool gp_size_parse(const char *text, size_t length, uint64_t *ret_bytes)
{
  uint64_t whole = 0;
  uint64_t fraction = 0; /* in units of 1 / scale */
  uint64_t scale = 1;
  size_t at = 0;
  int shift;
  uint64_t bytes;

  while (at < length && text[at] == ' ')
    at++;
  size_t first_digit = at;
  for (; at < length && isdigit((unsigned char)text[at]); at++)
    if (__builtin_mul_overflow(whole, 10, &whole) ||
        __builtin_add_overflow(whole, (uint64_t)(text[at] - '0'), &whole))
      return false;
  if (at == first_digit)
    return false;
  if (at < length && text[at] == '.') {
    size_t first_decimal = ++at;
    for (; at < length && isdigit((unsigned char)text[at]); at++) {
      if (scale < 1000000) { /* further decimals would be less than one byte in any realistic size */
        fraction = fraction * 10 + (uint64_t)(text[at] - '0');
        scale *= 10;
      }
    }
    if (at == first_decimal)
      return false;
  }
  if (!parse_unit(text, length, at, &shift))
    return false;
  if (scale > 1 && shift == 0)
    return false; /* a fraction of a byte is not a size */
  if (__builtin_mul_overflow(whole, UINT64_C(1) << shift, &bytes) ||
      __builtin_add_overflow(bytes, (fraction << shift) / scale, &bytes))
    return false;
  *ret_bytes = bytes;
  return true;
}

char *gp_size_format(uint64_t bytes, char *buffer)
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;

  while (unit < 6 && bytes >> (10 * (unit + 1)) != 0)
    unit++;
  uint64_t one = UINT64_C(1) << (10 * unit);
  uint64_t whole = bytes / one;
  uint64_t rest = bytes % one;
  if (rest == 0) {
    snprintf(buffer, GP_SIZE_TEXT_BYTES, "%llu %s", (unsigned long long)whole, units[unit]);
  } else {
    unsigned tenths = (unsigned)(((rest >> (unit > 1 ? 10 * (unit - 1) : 0)) * 10 + 512) / 1024);
    if (tenths == 10) {
      whole++;
      tenths = 0;
    }
    snprintf(buffer, GP_SIZE_TEXT_BYTES, "%llu.%u %s", (unsigned long long)whole, tenths, units[unit]);
  }
  return buffer;
}
