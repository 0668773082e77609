#include "pool/limits/oom_groups.h"

void gp_oom_groups_add(gp_oom_groups_t *all, uint64_t size)
{
  int smallest = 0;
  for (int i = 0; i < all->count; i++) {
    if (all->groups[i].size == size) {
      all->groups[i].count++;
      return;
    }
    if (all->groups[i].size * all->groups[i].count < all->groups[smallest].size * all->groups[smallest].count)
      smallest = i;
  }
  if (all->count < (int)(sizeof(all->groups) / sizeof(all->groups[0])))
    all->groups[all->count++] = (gp_oom_owner_t){size, 1};
  else if (size > all->groups[smallest].size * all->groups[smallest].count)
    all->groups[smallest] = (gp_oom_owner_t){size, 1};
}

void gp_oom_groups_largest(gp_oom_groups_t *all, gp_oom_owner_t *owners)
{
  for (int rank = 0; rank < GP_OOM_OWNERS; rank++) {
    int largest = -1;
    for (int i = 0; i < all->count; i++) {
      uint64_t total = all->groups[i].size * all->groups[i].count;
      if (total > 0 && (largest < 0 || total > all->groups[largest].size * all->groups[largest].count))
        largest = i;
    }
    if (largest < 0)
      return;
    owners[rank] = all->groups[largest];
    all->groups[largest].count = 0;
  }
}
