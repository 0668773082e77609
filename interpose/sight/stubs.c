#include "interpose/sight/stubs.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/routes/real.h"
#include "base/options.h"

static bool asks_for_single(void)
{
  const char *text = secure_getenv(gp_option_table[GP_OPTION_reuse].variable);
  return text && gp_option_choice(GP_OPTION_reuse, text) == GP_REUSE_SINGLE;
}

static bool asks_for_nothing(void)
{
  const char *text = secure_getenv(gp_option_table[GP_OPTION_disable].variable);
  return text && strcmp(text, "1") == 0;
}

/* What the environment said at first, since the program may change it. */
static bool remember(_Atomic signed char *answer, bool (*ask)(void))
{
  signed char known = atomic_load_explicit(answer, memory_order_relaxed);

  if (known == 0) {
    known = ask() ? 1 : -1;
    atomic_store_explicit(answer, known, memory_order_relaxed);
  }
  return known > 0;
}

bool gp_stubs_are_wanted(void)
{
  static _Atomic signed char wanted; /* 0: not known yet, 1: yes, -1: no */
  return remember(&wanted, asks_for_single);
}

bool gp_hooks_are_left_out(void)
{
  static _Atomic signed char left_out; /* as above */
  return remember(&left_out, asks_for_nothing);
}

int gp_stubs_replaced_count(void)
{
  return GP_HAS_WORK_STUBS && gp_stubs_are_wanted() ? GP_REPLACED_COUNT : GP_HOOK_COUNT;
}

bool gp_stubs_reach_driver(void)
{
  for (int i = GP_HOOK_COUNT; GP_HAS_WORK_STUBS && i < GP_REPLACED_COUNT; i++) {
    const void *function = gp_real_get((gp_function_t)i);
    if (function && !gp_real_is_driver_address(function))
      return false;
  }
  return true;
}
