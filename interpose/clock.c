#include "interpose/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

static uint64_t system_ns(void)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

#if defined(__x86_64__) && !defined(GP_CLOCK_SYSTEM) /* tests replace the system's clock */

#include <cpuid.h>
#include <x86intrin.h>

#define LEARN_NS UINT64_C(100000000)
#define FORWARD_NS                                                                                           \
  1000 /* the counter's clock starts this far ahead, so that it never falls behind an earlier reading */
#define SCALE_SHIFT 32

/* begin_ticks and begin_ns are read when the measurement starts, and are written once, before `begun`.
 * base_ticks and base_ns are read when it ends, and are written once, before `scale`. */
static uint64_t begin_ticks, begin_ns;
static uint64_t base_ticks, base_ns;
static atomic_flag beginning = ATOMIC_FLAG_INIT, ending = ATOMIC_FLAG_INIT;
static atomic_bool begun;
static _Atomic uint64_t scale; /* ns per tick, in 2^-32; 0: not measured yet */

/* Returns true if the counter runs at one rate in all power states: CPUID leaf 0x80000007, EDX bit 8 (Intel
 * SDM, vol. 3, 18.17). */
static bool counter_is_invariant(void)
{
  unsigned a, b, c, d = 0;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
}

/* Reads both clocks at nearly the same moment: takes the closest of five pairs, since an interrupt may fall
 * between the readings. */
static void read_pair(uint64_t *ret_ticks, uint64_t *ret_ns)
{
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < 5; i++) {
    uint64_t before = __rdtsc();
    uint64_t ns = system_ns();
    uint64_t after = __rdtsc();
    if (after - before < best) {
      best = after - before;
      *ret_ticks = before + (after - before) / 2;
      *ret_ns = ns;
    }
  }
}

static uint64_t learn(void)
{
  if (!atomic_load_explicit(&begun, memory_order_acquire)) {
    if (counter_is_invariant() && !atomic_flag_test_and_set(&beginning)) {
      read_pair(&begin_ticks, &begin_ns);
      atomic_store_explicit(&begun, true, memory_order_release);
    }
    return system_ns();
  }
  uint64_t now = system_ns();
  if (now - begin_ns >= LEARN_NS && !atomic_flag_test_and_set(&ending)) {
    read_pair(&base_ticks, &base_ns);
    uint64_t ticks = base_ticks - begin_ticks;
    if (ticks > 0) {
      __extension__ typedef unsigned __int128 wide_t;
      uint64_t ratio = (uint64_t)(((wide_t)(base_ns - begin_ns) << SCALE_SHIFT) / ticks);
      base_ns += FORWARD_NS;
      atomic_store_explicit(&scale, ratio, memory_order_release);
    }
  }
  return now;
}

uint64_t gp_clock_now_ns(void)
{
  uint64_t ratio = atomic_load_explicit(&scale, memory_order_acquire);
  if (ratio == 0)
    return learn();
  __extension__ typedef unsigned __int128 wide_t;
  return base_ns + (uint64_t)(((wide_t)(__rdtsc() - base_ticks) * ratio) >> SCALE_SHIFT);
}

#else

uint64_t gp_clock_now_ns(void)
{
  return system_ns();
}

#endif
