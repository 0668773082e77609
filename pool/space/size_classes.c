#include "pool/space/size_classes.h"

/*
 * Pool type naive. Rounds sizes up to a page, to whole driver pages where the driver uses whole pages, and
 * above large_round to multiples of large_round (MXNet's Naive). Wastes least for programs that repeat the
 * same sizes.
 */
static uint64_t naive_block_bytes(const gp_type_config_t *config, uint64_t requested)
{
  uint64_t bytes = gp_bytes_taken(gp_round_up(requested, config->page));
  return bytes > config->large_round ? gp_round_up(bytes, config->large_round) : bytes;
}

const gp_pool_type_t gp_pool_type_naive = {
    .name = "naive",
    .keeps_blocks = true,
    .block_bytes = naive_block_bytes,
};

#define DIVISIONS 8

/*
 * Pool type round. There are `divisions` size classes between two powers of two, so that rounding wastes at
 * most 1/divisions of a block and requests of similar size share blocks. Above 2^cutoff the classes are
 * multiples of 2^cutoff. With one division this is MXNet's Round, whose smallest class is a page.
 *
 * Where the driver uses whole pages, classes are at least one page apart. Closer classes would use as much of
 * the device and serve fewer requests.
 */
static uint64_t round_step(const gp_type_config_t *config, uint64_t requested)
{
  unsigned log2 = 63 - (unsigned)__builtin_clzll(requested - 1); /* 2^log2 < requested <= 2^(log2+1) */
  if (log2 >= config->cutoff)
    return UINT64_C(1) << config->cutoff;
  uint64_t step = (UINT64_C(1) << log2) >> __builtin_ctz(config->divisions);
  if (requested > GP_DRIVER_SHARED_MAX && step < GP_DRIVER_PAGE)
    return GP_DRIVER_PAGE;
  return step < GP_BLOCK_GRANULE ? GP_BLOCK_GRANULE : step;
}

static uint64_t round_block_bytes(const gp_type_config_t *config, uint64_t requested)
{
  uint64_t smallest = config->divisions == 1 ? config->page : GP_BLOCK_GRANULE;

  return requested <= smallest ? smallest : gp_round_up_to_power(requested, round_step(config, requested));
}

const gp_pool_type_t gp_pool_type_round = {
    .name = "round",
    .keeps_blocks = true,
    .block_bytes = round_block_bytes,
    .class_step = round_step,
};

/* Pool type segment. Splits larger driver allocations into blocks of any size, in steps of a granule. */
static uint64_t segment_block_bytes(const gp_type_config_t *config, uint64_t requested)
{
  (void)config; /* no option changes the sizes of this pool type */
  return gp_round_up(requested, GP_BLOCK_GRANULE);
}

const gp_pool_type_t gp_pool_type_segment = {
    .name = "segment",
    .keeps_blocks = true,
    .cuts = true,
    .block_bytes = segment_block_bytes,
};

const gp_pool_type_t gp_pool_type_vmm = {
    .name = "vmm",
    .keeps_blocks = true,
    .cuts = true,
    .maps = true,
    .block_bytes = segment_block_bytes,
};

/* Pool type unpooled. Forwards every allocation and free to the driver; used for recording and limits only.
 */
static uint64_t unpooled_block_bytes(const gp_type_config_t *config, uint64_t requested)
{
  return requested;
}

const gp_pool_type_t gp_pool_type_unpooled = {
    .name = "unpooled",
    .keeps_blocks = false,
    .block_bytes = unpooled_block_bytes,
};

const gp_pool_type_t *gp_pool_type(const gp_options_t *options)
{
  switch (gp_option_number(options, GP_OPTION_type)) {
  case GP_TYPE_NAIVE: return &gp_pool_type_naive;
  case GP_TYPE_UNPOOLED: return &gp_pool_type_unpooled;
  case GP_TYPE_SEGMENT: return &gp_pool_type_segment;
  case GP_TYPE_VMM: return &gp_pool_type_vmm;
  default: return &gp_pool_type_round;
  }
}

void gp_type_fit_large(const gp_pool_type_t *type, const gp_type_config_t *config, gp_fit_t *fit)
{
  uint64_t rounded = gp_round_up(fit->least, GP_DRIVER_PAGE);
  uint64_t waste = fit->least / config->divisions;

  fit->fresh = rounded != 0 && rounded < fit->class_bytes ? rounded : fit->class_bytes;
  fit->above = type->block_bytes(config, fit->class_bytes + 1);
  fit->below = fit->class_bytes - type->class_step(config, fit->least);
  fit->most = fit->least > UINT64_MAX - waste ? UINT64_MAX : fit->least + waste;
}

void gp_type_config_init(gp_type_config_t *config, const gp_options_t *options)
{
  uint64_t cutoff = gp_option_number(options, GP_OPTION_round_cutoff);

  config->page = gp_option_number(options, GP_OPTION_page);
  config->large_round = gp_option_number(options, GP_OPTION_large_round);
  config->divisions = cutoff == UINT64_MAX ? DIVISIONS : 1;
  config->cutoff = cutoff == UINT64_MAX ? 64 : (unsigned)cutoff;
}
