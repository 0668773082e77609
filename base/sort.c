#include "base/sort.h"

#include <stdbool.h>

static bool is_less(const gp_sort_key_t *a, const gp_sort_key_t *b)
{
  return a->key != b->key ? a->key < b->key : a->index < b->index;
}

static void sift_down(gp_sort_key_t *keys, size_t root, size_t count)
{
  gp_sort_key_t moving = keys[root];
  for (;;) {
    size_t child = 2 * root + 1;
    if (child >= count)
      break;
    if (child + 1 < count && is_less(&keys[child], &keys[child + 1]))
      child++;
    if (!is_less(&moving, &keys[child]))
      break;
    keys[root] = keys[child];
    root = child;
  }
  keys[root] = moving;
}

void gp_sort_keys(gp_sort_key_t *keys, size_t count)
{
  bool sorted = true;
  for (size_t i = 1; i < count && sorted; i++)
    sorted = !is_less(&keys[i], &keys[i - 1]);
  if (sorted)
    return;

  for (size_t i = count / 2; i-- > 0;)
    sift_down(keys, i, count);
  for (size_t end = count; end-- > 1;) {
    gp_sort_key_t last = keys[end];
    keys[end] = keys[0];
    keys[0] = last;
    sift_down(keys, 0, end);
  }
}
