#include "frames.h"

#include <alloca.h>

/* GP_FRAMES is the name of this file's table. An empty asm after each call, so that none is a jump. */
#define FRAME(name) static __attribute__((noinline)) void name(const gp_route_t *route, size_t at)
#define STAYS()     __asm__ volatile("" ::: "memory")

static void touch(volatile char *memory)
{
  memory[0] = 1;
}

FRAME(plain)
{
  gp_route_go(route, at + 1);
  STAYS();
}

FRAME(twin)
{
  gp_route_go(route, at + 1);
  __asm__ volatile("nop" ::: "memory");
}

FRAME(large)
{
  char memory[3000];
  touch(memory);
  gp_route_go(route, at + 1);
  touch(memory);
}

/* As many as the caller says: the frame's size is known at run time only. */
FRAME(sized)
{
  char *memory = alloca(route->sizes[at] + 1);
  touch(memory);
  gp_route_go(route, at + 1);
  touch(memory);
}

/* The stack is aligned for it, so the caller's frame is found by a word in this one. */
FRAME(aligned)
{
  char memory[256] __attribute__((aligned(128)));
  touch(memory);
  gp_route_go(route, at + 1);
  touch(memory);
}

FRAME(aligned_and_sized)
{
  char memory[256] __attribute__((aligned(64)));
  char *more = alloca(route->sizes[at] + 1);
  touch(memory);
  touch(more);
  gp_route_go(route, at + 1);
  touch(memory);
}

/* Calls the next one twice, the second time after it has taken more of the stack. What was there stays. */
FRAME(two_calls)
{
  route->calls[at + 1](route, at + 1);
  char *volatile memory = alloca(32);
  (void)memory;
  route->calls[at + 1](route, at + 1);
  STAYS();
}

/* More values that live over the call than there are registers that do. */
FRAME(busy)
{
  uint64_t values[8];
  for (size_t i = 0; i < 8; i++) {
    values[i] = route->number * (i + 3);
    __asm__ volatile("" : "+r"(values[i]));
  }
  uint64_t a = values[0], b = values[1], c = values[2], d = values[3], e = values[4], f = values[5];
  gp_route_go(route, at + 1);
  __asm__ volatile("" ::"r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f));
}

static __attribute__((noinline)) void take_many(
    const gp_route_t *route, size_t at, int c, int d, int e, int f, int g, int h, int i, int j)
{
  gp_route_go(route, at + 1);
  __asm__ volatile("" ::"r"(c + d + e + f + g + h + i + j));
}

/* Arguments in the stack. */
FRAME(many_arguments)
{
  take_many(route, at, 1, 2, 3, 4, 5, 6, 7, 8);
  STAYS();
}

const gp_frame_fn GP_FRAMES[GP_FRAME_KINDS + 1] = {
    plain, twin, large, sized, aligned, aligned_and_sized, busy, many_arguments, two_calls};
