#include "base/printable.h"

/* Ranges [first, last] of characters that are invisible or affect other characters. The comments give their
 * names in the Unicode standard. */
static const struct {
  uint32_t first;
  uint32_t last;
} unsafe[] = {
    {0x0000, 0x001f},   /* C0 controls */
    {0x007f, 0x009f},   /* DEL, C1 controls */
    {0x00ad, 0x00ad},   /* soft hyphen */
    {0x061c, 0x061c},   /* Arabic letter mark */
    {0x180e, 0x180e},   /* Mongolian vowel separator */
    {0x200b, 0x200f},   /* zero width, left-to-right and right-to-left mark */
    {0x2028, 0x202e},   /* line and paragraph separator, embeddings and overrides */
    {0x2060, 0x206f},   /* word joiner, invisible operators, isolates, deprecated format characters */
    {0xfeff, 0xfeff},   /* zero width no-break space */
    {0xfff9, 0xfffb},   /* interlinear annotation */
    {0xe0000, 0xe0fff}, /* tags, variation selectors supplement */
};

/* Returns the length of the UTF-8 sequence at `bytes`, or 0 if it is malformed. Table 3-7 of the Unicode
 * standard defines, for each first byte, the valid second bytes and the number of bytes. */
static size_t sequence_length(const unsigned char *bytes, size_t length)
{
  unsigned char first = bytes[0], least = 0x80, most = 0xbf;
  size_t need = first < 0x80                     ? 1
                : first >= 0xc2 && first <= 0xdf ? 2
                : first >= 0xe0 && first <= 0xef ? 3
                : first >= 0xf0 && first <= 0xf4 ? 4
                                                 : 0;
  if (need < 2)
    return need;
  if (first == 0xe0)
    least = 0xa0;
  else if (first == 0xed)
    most = 0x9f;
  else if (first == 0xf0)
    least = 0x90;
  else if (first == 0xf4)
    most = 0x8f;
  if (length < need || bytes[1] < least || bytes[1] > most)
    return 0;
  for (size_t i = 2; i < need; i++) {
    if ((bytes[i] & 0xc0) != 0x80)
      return 0;
  }
  return need;
}

static bool is_unsafe(uint32_t code)
{
  for (size_t i = 0; i < sizeof(unsafe) / sizeof(unsafe[0]) && code >= unsafe[i].first; i++) {
    if (code <= unsafe[i].last)
      return true;
  }
  return false;
}

gp_character_t gp_character_at(const char *text, size_t length)
{
  static const unsigned char first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  const unsigned char *bytes = (const unsigned char *)text;
  size_t taken = sequence_length(bytes, length);
  if (!taken)
    return (gp_character_t){.code = bytes[0], .length = 1, .is_malformed = true, .is_unsafe = true};
  uint32_t code = bytes[0] & first_bits[taken];
  for (size_t i = 1; i < taken; i++)
    code = code << 6 | (bytes[i] & 0x3f);
  return (gp_character_t){.code = code, .length = (uint8_t)taken, .is_unsafe = is_unsafe(code)};
}

size_t gp_printable_in_place(char *text, size_t length)
{
  size_t used = 0;
  for (size_t at = 0; at < length;) {
    gp_character_t character = gp_character_at(text + at, length - at);
    if (character.is_unsafe) {
      text[used++] = '?';
    } else {
      for (size_t i = 0; i < character.length; i++)
        text[used++] = text[at + i];
    }
    at += character.length;
  }
  return used;
}
