#include "fake_engine.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fake_engine_t fake_engine;
_Atomic uint64_t fake_now_ns;
char fake_log[64][GP_LOG_LINE_BYTES];
gp_log_level_t fake_log_levels[64];
unsigned fake_log_count;

static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;

void fake_reset(void)
{
  memset(&fake_engine, 0, sizeof(fake_engine));
  fake_log_count = 0;
  fake_now_ns = 1000000000;
}

static void set_gauge(gp_gauge_t *gauge, uint64_t current)
{
  *gauge =
      (gp_gauge_t){.current = current, .peak = 2 * current, .allocated = 3 * current, .freed = 2 * current};
}

void fake_fill(void)
{
  fake_engine.devices = 1;
  fake_engine.limit = UINT64_C(8) << 30;
  /* Not in order of address. */
  fake_engine.blocks[0] = (gp_block_view_t){.address = 0x7f0000400000,
      .size = 4 << 20,
      .requested = 3 << 20,
      .block_id = 3,
      .time_ns = fake_now_ns,
      .context = 1,
      .refs = 1,
      .state = GP_BLOCK_ALLOCATED,
      .tainted = true};
  fake_engine.blocks[1] = (gp_block_view_t){.address = 0x7f0000000000,
      .size = 2 << 20,
      .requested = 2 << 20,
      .block_id = 2,
      .context = 1,
      .state = GP_BLOCK_PENDING};
  fake_engine.blocks[2] = (gp_block_view_t){
      .address = 0x7f0000200000, .size = 1 << 20, .block_id = 1, .context = 1, .state = GP_BLOCK_IDLE};
  fake_engine.blocks[3] = (gp_block_view_t){
      .address = 0x7f0000900000, .size = 3 << 20, .block_id = 4, .context = 1, .state = GP_BLOCK_IDLE};
  fake_engine.block_count = 4;
  fake_engine.forwarded[0] = (gp_forwarded_t){.address = 0x7f0010000000,
      .size = 12345,
      .block_id = 9,
      .time_ns = fake_now_ns,
      .stream = 0x55aa0000,
      .kind = GP_FORWARDED_ASYNC,
      .has_stream = true};
  fake_engine.passthrough_count = 1;
  set_gauge(&fake_engine.stats.allocation, 1);
  set_gauge(&fake_engine.stats.segment, 4);
  set_gauge(&fake_engine.stats.allocated_bytes, 4 << 20);
  set_gauge(&fake_engine.stats.requested_bytes, 3 << 20);
  set_gauge(&fake_engine.stats.reserved_bytes, 10 << 20);
  set_gauge(&fake_engine.stats.active_bytes, 6 << 20);
  set_gauge(&fake_engine.stats.cached_bytes, 4 << 20);
  set_gauge(&fake_engine.stats.passthrough_bytes, 12345);
  fake_engine.stats.cache_hits = 2;
  fake_engine.stats.cache_misses = 1;
}

static void add_part(uint64_t offset, uint64_t size, gp_block_view_t block)
{
  block.segment_address = 0x7f0001000000;
  block.segment_size = 4 << 20;
  block.address = block.segment_address + offset;
  block.size = size;
  block.context = 1;
  fake_engine.blocks[fake_engine.block_count++] = block;
}

void fake_add_cut_segment(void)
{
  gp_stats_t *stats = &fake_engine.stats;
  add_part(0, 1 << 20,
      (gp_block_view_t){
          .requested = 1000000, .block_id = 21, .time_ns = 7, .refs = 1, .state = GP_BLOCK_ALLOCATED});
  add_part(1 << 20, 1 << 20, (gp_block_view_t){.state = GP_BLOCK_IDLE});
  add_part(2 << 20, 512 << 10,
      (gp_block_view_t){.requested = 500000, .block_id = 20, .time_ns = 6, .state = GP_BLOCK_PENDING});
  add_part(0x280000, 0x180000, (gp_block_view_t){.state = GP_BLOCK_IDLE});
  gp_gauge_add(&stats->segment, 1);
  gp_gauge_add(&stats->allocation, 1);
  gp_gauge_add(&stats->allocated_bytes, 1 << 20);
  gp_gauge_add(&stats->requested_bytes, 1000000);
  gp_gauge_add(&stats->reserved_bytes, 4 << 20);
  gp_gauge_add(&stats->active_bytes, 0x180000);
  gp_gauge_add(&stats->deferred_bytes, 512 << 10);
  gp_gauge_add(&stats->cached_bytes, 0x280000);
  gp_gauge_add(&stats->inactive_split_bytes, 0x280000);
}

gp_engine_t *fake_engine_pointer(void)
{
  return (gp_engine_t *)(void *)&fake_engine;
}

uint64_t fake_clock(void *self)
{
  return atomic_load(&fake_now_ns);
}

static const char *lookup(void *arg, const char *variable)
{
  const char **pairs = arg;
  for (; *pairs; pairs++) {
    size_t length = strlen(variable);
    if (strncmp(*pairs, variable, length) == 0 && (*pairs)[length] == '=')
      return *pairs + length + 1;
  }
  /* What is left in the machine's shared memory is not the tests' business. */
  return strcmp(variable, "GPUPOOL_RECORD") == 0 ? "none" : NULL;
}

static void on_problem(void *arg, bool malformed, const char *message)
{
  fprintf(stderr, "option: %s\n", message);
  abort();
}

const gp_options_t *fake_options(const char *first, ...)
{
  static gp_options_t options;
  const char *pairs[16] = {first};
  va_list arguments;
  va_start(arguments, first);
  for (int i = 1; i < 16 && pairs[i - 1]; i++)
    pairs[i] = va_arg(arguments, const char *);
  va_end(arguments);
  gp_options_parse(&options, lookup, pairs, on_problem, NULL);
  return &options;
}

unsigned fake_log_matches(const char *text)
{
  unsigned count = 0;
  for (unsigned i = 0; i < fake_log_count; i++)
    count += strstr(fake_log[i], text) != NULL;
  return count;
}

void fake_record(gp_recorder_t *recorder, gp_action_t action, uint64_t time_ns, uint64_t block)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  const gp_event_t event = {
      .time_ns = time_ns,
      .address = 0x7f0000000000 + (block << 21),
      .size = 100 + block,
      .rounded_size = 512 + block,
      .block_id = block,
      .action = action,
      .device = 0,
  };
  observer.event(observer.self, &event);
}

/* pool/engine.h */

uint64_t gp_engine_devices(const gp_engine_t *engine)
{
  return fake_engine.devices;
}

void gp_engine_stats(gp_engine_t *engine, int device, gp_stats_t *ret_stats)
{
  *ret_stats = fake_engine.stats;
}

uint64_t gp_engine_limit(gp_engine_t *engine, int device)
{
  return fake_engine.limit;
}

bool gp_engine_device_use(gp_engine_t *engine, int device, gp_device_use_t *ret_use)
{
  *ret_use = fake_engine.use;
  return fake_engine.use.total > 0;
}

size_t gp_engine_blocks(gp_engine_t *engine, int device, gp_block_view_t *array, size_t capacity,
    gp_stats_t *ret_stats, const gp_moment_t *moment)
{
  if (fake_engine.others)
    fake_engine.others();
  if (moment)
    moment->fn(moment->arg, device);
  size_t count = fake_engine.block_count;
  fake_engine.block_reads++;
  for (size_t i = 0; i < count && i < capacity; i++) {
    array[i] = fake_engine.blocks[i];
    if (!array[i].segment_size) { /* whole */
      array[i].segment_address = array[i].address;
      array[i].segment_size = array[i].size;
    }
  }
  if (ret_stats)
    *ret_stats = fake_engine.stats;
  if (fake_engine.others)
    fake_engine.others();
  return count;
}

size_t gp_engine_forwarded_copy(gp_engine_t *engine, int device, gp_forwarded_t *array, size_t capacity)
{
  memcpy(array, fake_engine.forwarded, fake_engine.passthrough_count * sizeof(*array));
  return fake_engine.passthrough_count;
}

/* base/log.h */

void gp_log_init(int verbose, int fd)
{
}

int gp_log_enabled(gp_log_level_t level)
{
  return 1;
}

void gp_vlog(gp_log_level_t level, const char *format, va_list arguments)
{
  pthread_mutex_lock(&log_mutex);
  if (fake_log_count < 64) {
    fake_log_levels[fake_log_count] = level;
    vsnprintf(fake_log[fake_log_count++], GP_LOG_LINE_BYTES, format, arguments);
  }
  pthread_mutex_unlock(&log_mutex);
}

void gp_log(gp_log_level_t level, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  gp_vlog(level, format, arguments);
  va_end(arguments);
}
