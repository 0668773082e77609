/*
 * Asserts in three levels, chosen with the Meson option debug_level (GP_DEBUG_LEVEL):
 *   1  gp_assert           cheap conditions on arguments and state
 *   2  gp_assert_internal  constant-time invariants on hot paths
 *   3  gp_assert_full      walks of whole structures
 * At level 0 the compiler removes them all. A failed assert prints with write(2) and aborts: it neither
 * allocates nor takes a lock, so it cannot deadlock inside the allocator that it checks.
 */
#ifndef GP_BASE_ASSERT_H
#define GP_BASE_ASSERT_H

#include <stdbool.h>
#include <stdint.h>

#ifndef GP_DEBUG_LEVEL
#define GP_DEBUG_LEVEL 0
#endif

_Noreturn void gp_assert_failed(const char *condition, const char *file, int line, const char *function);

/* Returns `condition`. If it is false, prints `what` and the numbers a and b, in the same way as a failed
 * assert, but does not abort. Checks of whole structures use it to continue after a mismatch. */
bool gp_expect(bool condition, const char *what, uint64_t a, uint64_t b);

#define GP_ASSERT_AT(level, condition)                                                                       \
  do {                                                                                                       \
    if (GP_DEBUG_LEVEL >= (level) && !(condition))                                                           \
      gp_assert_failed(#condition, __FILE__, __LINE__, __func__);                                            \
  } while (0)

#define gp_assert(condition)          GP_ASSERT_AT(1, condition)
#define gp_assert_internal(condition) GP_ASSERT_AT(2, condition)
#define gp_assert_full(condition)     GP_ASSERT_AT(3, condition)

#endif
