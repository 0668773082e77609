#include "interpose/hooks/rdma.h"

#include <link.h>
#include <stdatomic.h>
#include <string.h>

#include "pool/reuse/single_stream.h"
#include "pool/reuse/epoch/streams.h"

/* File names begin so. */
static const char *const libraries[] = {
    "libibverbs.so", /* InfiniBand, RoCE, EFA: what GPUDirect RDMA goes through */
    "libgdrapi.so",  /* GDRCopy: the host maps device memory */
    "libcufile.so",  /* GPUDirect Storage */
    "libcxi.so",     /* Slingshot */
    "libpsm2.so",    /* Omni-Path */
};

typedef struct search {
  unsigned long long loads; /* as of now */
  bool found;
} search_t;

static _Atomic unsigned long long seen_loads; /* as of the last look */

static int look_at(struct dl_phdr_info *object, size_t size, void *arg)
{
  search_t *search = arg;
  const char *slash = object->dlpi_name ? strrchr(object->dlpi_name, '/') : NULL;
  (void)size;

  search->loads = object->dlpi_adds;
  if (search->loads == atomic_load_explicit(&seen_loads, memory_order_relaxed))
    return 1;
  for (size_t i = 0; slash && i < sizeof(libraries) / sizeof(libraries[0]); i++)
    if (strncmp(slash + 1, libraries[i], strlen(libraries[i])) == 0) {
      search->found = true;
      return 1;
    }
  return 0;
}

void gp_rdma_look(gp_engine_t *engine)
{
  search_t search = {0, false};

  if (!gp_engine_uses_streams(engine))
    return; /* nobody relies on that order */
  (void)dl_iterate_phdr(look_at, &search);
  if (search.found && gp_single_stream_forbid(engine, GP_MODE_CAUSE_RDMA))
    (void)gp_single_stream_settle(
        engine); /* a code that says something says it in the caller's own calls, too */
  atomic_store_explicit(&seen_loads, search.loads, memory_order_relaxed);
}
