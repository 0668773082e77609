#include "behind.h"

#define BIT(n) (UINT32_C(1) << (n))

static uint32_t closure(const behind_t *behind, uint32_t set)
{
  for (uint32_t before = 0; before != set;) {
    before = set;
    for (int i = 0; i < behind->count; i++) {
      if (set & BIT(i))
        set |= behind->kernels[i].needs;
    }
  }
  return set;
}

uint32_t behind_open(const behind_t *behind, uint32_t set)
{
  uint32_t open = 0;
  if (!set)
    return 0;
  set = closure(behind, set);
  for (int i = 0; i < behind->count; i++) {
    if (behind->kernels[i].open)
      open |= BIT(i);
  }
  return set & open;
}

uint32_t behind_all(const behind_t *behind)
{
  return behind->count ? behind_open(behind, UINT32_MAX) : 0;
}

uint32_t behind_lanes(const behind_t *behind, uint64_t lanes)
{
  uint32_t set = 0;
  for (int l = 0; l < LANES && behind->count; l++) {
    if (lanes >> l & 1)
      set |= behind->lanes[l];
  }
  return set;
}

bool behind_add(const behind_t *behind, uint32_t *to, uint32_t set)
{
  uint32_t added = set & ~*to;
  *to |= set;
  return behind_open(behind, added) != 0;
}

bool behind_may_meet(const behind_t *behind, int number, uint32_t set)
{
  return !(closure(behind, set) & BIT(number));
}

void behind_launch(behind_t *behind, int number, bool meets, int lane, int step)
{
  bool first = number == behind->count;
  if (first) {
    behind->count++;
    behind->kernels[number].needs = 0;
    behind->kernels[number].meets = meets;
    behind->kernels[number].lane = lane;
  }
  behind->kernels[number].open = first;
  behind->kernels[number].step = step;
  behind->kernels[number].needs |= behind->lanes[lane];
  behind->lanes[lane] |= BIT(number);
}
