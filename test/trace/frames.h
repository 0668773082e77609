/*
 * Functions of many frame layouts that call each other as a route says, each compiled with frame pointers and
 * without.
 */
#ifndef GP_TEST_FRAMES_H
#define GP_TEST_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#define GP_ROUTE_MAX 70

struct gp_route;
typedef void (*gp_frame_fn)(const struct gp_route *route, size_t at);

/* Calls in order: calls[at] is called with at, and calls the next; after the last one, end(arg). */
typedef struct gp_route {
  gp_frame_fn calls[GP_ROUTE_MAX];
  size_t
      sizes[GP_ROUTE_MAX]; /* bytes that call `at` takes of the stack, if the caller says how many it takes */
  size_t count;
  uint64_t number; /* for the registers: different ones make no different stack */
  void (*end)(void *arg);
  void *arg;
} gp_route_t;

/* Calls calls[at], or end. Not inlined. */
void gp_route_go(const gp_route_t *route, size_t at);

/* What there is of each. Plain and twin have the same frame. Two calls is for whom needs it. */
enum {
  GP_FRAME_PLAIN,
  GP_FRAME_TWIN,
  GP_FRAME_SIZED = 3,
  GP_FRAME_ALIGNED_AND_SIZED = 5,
  GP_FRAME_BUSY,
  GP_FRAME_KINDS = 8,
  GP_FRAME_TWO_CALLS = GP_FRAME_KINDS
};

extern const gp_frame_fn gp_frames_with_pointer[GP_FRAME_KINDS + 1];
extern const gp_frame_fn gp_frames_without_pointer[GP_FRAME_KINDS + 1];

#endif
