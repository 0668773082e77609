#include "test/fuzz/address_driver.h"

#include <stdatomic.h>

static int allocate(void *self, const gp_driver_context_t *of, uint64_t bytes, uint64_t *ret_address)
{
  static _Atomic uint64_t next_address = UINT64_C(0x7f0000000000);
  *ret_address = atomic_fetch_add(&next_address, (bytes + 4095) / 4096 * 4096);
  return 0;
}

static int release(void *self, const gp_driver_context_t *of, uint64_t address)
{
  return 0;
}

static int wait(void *self, const gp_driver_context_t *of)
{
  return 0;
}

static int info(void *self, const gp_driver_context_t *of, uint64_t *ret_free, uint64_t *ret_total)
{
  *ret_free = *ret_total = UINT64_C(80) << 30;
  return 0;
}

gp_driver_ops_t address_driver_ops(uint64_t (*now_ns)(void *self))
{
  return (gp_driver_ops_t){
      .alloc = allocate,
      .free = release,
      .wait = wait,
      .memory_info = info,
      .now_ns = now_ns,
      .code_out_of_memory = 2,
      .code_invalid_value = 1,
      .code_not_ready = 600,
  };
}
