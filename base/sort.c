#include "base/sort.h"

#include <stdbool.h>

/* A radix sort from the highest digit to the lowest, first of the key and then of the index. A digit has only
 * four bits, because each level of the recursion keeps RADIX offsets on the stack, which may be small when a
 * snapshot is written. */
#define BITS       4u
#define KEY_DIGITS (64u / BITS)
#define DIGITS     (96u / BITS)
#define RADIX      (1u << BITS)

/* Ranges of up to this length use insertion sort. */
#define FEW 32u

static bool is_less(const gp_sort_key_t *a, const gp_sort_key_t *b)
{
  return a->key != b->key ? a->key < b->key : a->index < b->index;
}

static unsigned digit_of(const gp_sort_key_t *key, unsigned digit)
{
  if (digit < KEY_DIGITS)
    return key->key >> BITS * (KEY_DIGITS - 1 - digit) & (RADIX - 1);
  return key->index >> BITS * (DIGITS - 1 - digit) & (RADIX - 1);
}

static bool is_sorted(const gp_sort_key_t *keys, size_t count)
{
  for (size_t i = 1; i < count; i++)
    if (is_less(&keys[i], &keys[i - 1]))
      return false;
  return true;
}

static void insert_each(gp_sort_key_t *keys, size_t count)
{
  for (size_t i = 1; i < count; i++) {
    gp_sort_key_t moving = keys[i];
    size_t at = i;
    for (; at > 0 && is_less(&moving, &keys[at - 1]); at--)
      keys[at] = keys[at - 1];
    keys[at] = moving;
  }
}

/* Moves each key into the range of its digit, and writes the ends of the ranges to ret_ends. Returns false if
 * all keys have the same digit. */
static bool distribute(gp_sort_key_t *keys, size_t count, unsigned digit, size_t ret_ends[RADIX])
{
  size_t next[RADIX];
  size_t counts[RADIX] = {0};
  size_t end = 0;

  for (size_t i = 0; i < count; i++)
    counts[digit_of(&keys[i], digit)]++;
  if (counts[digit_of(&keys[0], digit)] == count)
    return false;
  for (unsigned value = 0; value < RADIX; value++) {
    next[value] = end;
    end += counts[value];
    ret_ends[value] = end;
  }
  for (unsigned value = 0; value < RADIX; value++)
    while (next[value] < ret_ends[value]) {
      gp_sort_key_t key = keys[next[value]];
      unsigned home = digit_of(&key, digit);
      keys[next[value]] = keys[next[home]];
      keys[next[home]++] = key;
    }
  return true;
}

/* Sorts keys whose digits before `digit` are all equal. */
static void sort_by(gp_sort_key_t *keys, size_t count, unsigned digit)
{
  size_t ends[RADIX];
  size_t begin = 0;

  if (count <= FEW) {
    insert_each(keys, count);
    return;
  }
  while (!distribute(keys, count, digit, ends))
    if (++digit == DIGITS)
      return;
  for (unsigned value = 0; value < RADIX && digit + 1 < DIGITS; value++) {
    sort_by(keys + begin, ends[value] - begin, digit + 1);
    begin = ends[value];
  }
}

void gp_sort_keys(gp_sort_key_t *keys, size_t count)
{
  if (!is_sorted(keys, count))
    sort_by(keys, count, 0);
}
