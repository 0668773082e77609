/*
 * Type naive: exact sizes, rounded up to a page, and above large_round to multiples of large_round (MXNet's
 * Naive). Least waste for programs that ask for the same sizes again and again.
 */
#include "pool/space/type.h"

static uint64_t naive_block_bytes(const gp_type_config_t *config, uint64_t requested)
{
  uint64_t bytes = gp_round_up(requested, config->page);
  return bytes > config->large_round ? gp_round_up(bytes, config->large_round) : bytes;
}

const gp_pool_type_t gp_pool_type_naive = {
    .name = "naive",
    .keeps_blocks = true,
    .block_bytes = naive_block_bytes,
};
