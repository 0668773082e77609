#include "pool/space/type.h"

const gp_pool_type_t *gp_pool_type(const gp_options_t *options)
{
  switch (gp_option_number(options, GP_OPTION_type)) {
  case GP_TYPE_NAIVE: return &gp_pool_type_naive;
  case GP_TYPE_UNPOOLED: return &gp_pool_type_unpooled;
  default: return &gp_pool_type_round;
  }
}

void gp_type_config_init(gp_type_config_t *config, const gp_options_t *options)
{
  uint64_t cutoff = gp_option_number(options, GP_OPTION_round_cutoff);

  config->page = gp_option_number(options, GP_OPTION_page);
  config->large_round = gp_option_number(options, GP_OPTION_large_round);
  config->divisions = (unsigned)gp_option_number(options, GP_OPTION_round_divisions);
  config->cutoff = cutoff == UINT64_MAX ? 64 : (unsigned)cutoff;
}
