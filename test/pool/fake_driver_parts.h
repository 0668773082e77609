/*
 * What the files of the fake driver share: fake_driver.c, fake_fills.c, fake_mapped.c.
 */
#ifndef GP_TEST_POOL_FAKE_DRIVER_PARTS_H
#define GP_TEST_POOL_FAKE_DRIVER_PARTS_H

#include <stdlib.h>

#include "test/pool/fake_driver.h"

/* Not Check's asserts: those allocate host memory, which some tests make fail. */
#define REQUIRE(condition)                                                                                   \
  do {                                                                                                       \
    if (!(condition))                                                                                        \
      abort();                                                                                               \
  } while (0)

/* Ranges begin at multiples of the first, below the addresses of memory that is not mapped. */
#define FAKE_RANGES UINT64_C(0x010000000000)
#define FAKE_PLAIN  UINT64_C(0x700000000000)

/* Around each call of the driver. Between them, with driver->locked, no other thread is in one. */
void fake_enter(fake_driver_t *driver);
void fake_leave(fake_driver_t *driver);

/* Counts the call; true: the test wants it to fail with driver->fail_code. The rest is for callers that have
 * entered, too. */
bool fake_must_fail(fake_driver_t *driver, fake_call_t call);

/* Work may be pending on some of these bytes. */
bool fake_work_is_pending(const fake_driver_t *driver, uint64_t address, uint64_t bytes);

/* All of these bytes, which are of reserved addresses, are mapped, and the device may use them. */
bool fake_is_usable(fake_driver_t *driver, uint64_t address, uint64_t bytes, int device);

/* The number of a context, as in fake_context(). */
int fake_context_index(const gp_driver_context_t *context);

/* Zeroed memory of whole pages. Most tests hardly use it: from the heap, it would be cleared each time, or
 * filled where MALLOC_PERTURB_ is set, as Meson does. */
void *fake_table_new(size_t bytes);
void fake_table_delete(void *table, size_t bytes);

/* Ends the page-locked memory of a context, and the copies to it. */
void fake_end_hosts(fake_driver_t *driver, int context);

/* The functions for mapped memory, and those for fills and copies. */
void fake_add_mapped(gp_driver_ops_t *ops);
void fake_add_fills(gp_driver_ops_t *ops);

#endif
