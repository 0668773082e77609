/*
 * Type round: size classes, `divisions` of them between two powers of two, so that at most 1/divisions of a
 * block is lost to rounding and requests of similar size share blocks. Above 2^cutoff the classes are
 * multiples of 2^cutoff. With one division this is MXNet's Round, whose smallest class is a page.
 */
#include "pool/space/type.h"

static uint64_t round_block_bytes(const gp_type_config_t *config, uint64_t requested)
{
  uint64_t smallest = config->divisions == 1 ? config->page : GP_BLOCK_GRANULE;

  if (requested <= smallest)
    return smallest;
  unsigned log2 = 63 - (unsigned)__builtin_clzll(requested - 1); /* 2^log2 < requested <= 2^(log2+1) */
  if (log2 >= config->cutoff)
    return gp_round_up(requested, UINT64_C(1) << config->cutoff);
  uint64_t step = (UINT64_C(1) << log2) / config->divisions;
  return gp_round_up(requested, step < GP_BLOCK_GRANULE ? GP_BLOCK_GRANULE : step);
}

const gp_pool_type_t gp_pool_type_round = {
    .name = "round",
    .keeps_blocks = true,
    .block_bytes = round_block_bytes,
};
