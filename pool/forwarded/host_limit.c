#include "pool/forwarded/host_limit.h"

#include "pool/events.h"
#include "pool/limits/oom_groups.h"

void gp_host_limit_init(gp_host_limit_t *limit, const gp_options_t *options)
{
  limit->refuses = options->host_limit_malformed;
  limit->limit = gp_option_number(options, GP_OPTION_host_limit);
}

bool gp_host_limit_reserve(gp_host_limit_t *limit, uint64_t bytes)
{
  uint64_t used = atomic_load(&limit->used);

  if (limit->refuses)
    return false;
  do {
    if (bytes > limit->limit || used > limit->limit - bytes)
      return false;
  } while (!atomic_compare_exchange_weak(&limit->used, &used, used + bytes));
  return true;
}

void gp_host_limit_return(gp_host_limit_t *limit, uint64_t bytes)
{
  uint64_t used = atomic_fetch_sub(&limit->used, bytes);
  gp_assert(used >= bytes);
  (void)used;
}

void gp_host_limit_keep_for_good(gp_host_limit_t *limit, uint64_t bytes)
{
  atomic_fetch_add(&limit->used, bytes);
  atomic_fetch_add(&limit->kept_for_good, bytes);
}

static void add_size(void *arg, const gp_forwarded_t *memory)
{
  if (gp_forwarded_is_host(memory->kind))
    gp_oom_groups_add(arg, memory->size);
}

void gp_host_limit_report(gp_engine_t *engine, gp_context_t *context, uint64_t bytes)
{
  gp_device_t *device = context->device;
  gp_oom_groups_t groups = {.count = 0};
  gp_oom_t oom = {.requested = bytes,
      .counted = bytes,
      .live = atomic_load(&engine->host_limit.used),
      .limit = engine->host_limit.refuses ? 0 : engine->host_limit.limit,
      .device = device->ordinal,
      .by_limit = GP_OOM_BY_HOST_LIMIT};

  gp_assert(!gp_holds_engine_lock());
  for (int i = 0; i < GP_MAX_DEVICES; i++)
    gp_forwarded_table_each(&engine->forwarded, i, add_size, &groups);
  gp_oom_groups_largest(&groups, oom.owners);
  gp_lock_take(&device->lock);
  oom.time_ns = gp_now(engine);
  gp_event_device(engine, device->ordinal, GP_ACTION_HOST_OOM, GP_DETAIL_NONE, bytes, oom.time_ns);
  gp_lock_release(&device->lock);
  if (engine->observer.out_of_memory)
    engine->observer.out_of_memory(engine->observer.self, &oom);
}
