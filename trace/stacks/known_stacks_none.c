/* Stubs for processors other than x86-64. There is no code that reads their unwind rules, so every stack is
 * captured. */
#include "trace/stacks/known_stacks.h"

uint32_t gp_known_stacks_find(const gp_known_site_t *site)
{
  (void)site;
  return 0;
}

void gp_known_stacks_learn(
    const gp_known_site_t *site, uint32_t number, void *const *addresses, size_t count, bool is_cut)
{
  (void)site;
  (void)number;
  (void)addresses;
  (void)count;
  (void)is_cut;
}

void gp_known_stacks_thread_ended(void)
{
}

gp_known_counts_t gp_known_stacks_counts(void)
{
  return (gp_known_counts_t){0};
}
