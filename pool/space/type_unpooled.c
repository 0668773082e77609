/*
 * Type unpooled: a driver call for every allocation and free; for recording and limits only.
 */
#include "pool/space/type.h"

static uint64_t unpooled_block_bytes(const gp_type_config_t *config, uint64_t requested)
{
  (void)config;
  return requested;
}

const gp_pool_type_t gp_pool_type_unpooled = {
    .name = "unpooled",
    .keeps_blocks = false,
    .block_bytes = unpooled_block_bytes,
};
