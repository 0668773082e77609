/*
 * What it costs not to know at once what the device has finished: the requests of traces, served by the
 * engine in mode `context` over a driver with a clock of its own, beside a device that lags and a program
 * that never synchronizes.
 *
 *   [GPUPOOL_TYPE=...] [GPUPOOL_REUSE=...] bench_fences TRACE...
 *
 * A request takes 20 us and submits work that the device has finished a number of requests later, by the
 * clock; recording a fence takes 2 us, asking one 0.5 us, and the driver's own allocations take no time. For
 * each trace and lag:
 *
 *   floor      peak of what is held and what the device still uses of what was freed, as asked for
 *   reserved   peak of what the pool holds
 *   without waits   the same where no free waits, however much was freed and is in use (GPUPOOL_MAX_DEFERRED)
 *   informed   the same without waits, and if the pool learnt at once what the device has finished: what the
 *              sizes of its blocks cost is in it, what fences cost is not
 *   fences, queries   for each 1,000 frees
 *   share      of the elapsed time that went into these
 *   waited     share of the elapsed time that frees beyond GPUPOOL_MAX_DEFERRED waited
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/engine.h"
#include "base/size.h"

#define REQUEST_NS UINT64_C(20000)
#define RECORD_NS  UINT64_C(2000)
#define QUERY_NS   UINT64_C(500)
#define CAPACITY   (80 * GP_GIB)
#define NOT_READY  600

typedef struct request {
  bool is_free;
  uint32_t id;
  uint64_t bytes;
} request_t;

typedef struct trace {
  request_t *requests;
  size_t count;
  uint32_t ids;
} trace_t;

/*
 * A fence is the time by which all has ended that was submitted before its record, or in its stream before;
 * what was submitted has ended lag_ns later.
 */
typedef struct device {
  uint64_t now_ns, lag_ns;
  uint64_t next_address;
  uint64_t fences[64];
  int fence_count;
  uint64_t records, queries, waited_ns;
} device_t;

typedef struct result {
  uint64_t reserved, frees;
  device_t device;
} result_t;

static void *checked(void *memory)
{
  if (!memory)
    abort();
  return memory;
}

static int device_alloc(void *self, const gp_driver_context_t *context, uint64_t bytes, uint64_t *ret_address)
{
  device_t *device = self;
  *ret_address = device->next_address;
  device->next_address += (bytes + 511) / 512 * 512;
  return 0;
}

static int device_free(void *self, const gp_driver_context_t *context, uint64_t address)
{
  return 0;
}

static int device_wait(void *self, const gp_driver_context_t *context)
{
  device_t *device = self;
  device->now_ns += device->lag_ns;
  device->waited_ns += device->lag_ns;
  return 0;
}

static int device_record(void *self, const gp_driver_context_t *context, void **fence)
{
  device_t *device = self;

  if (!*fence) {
    if (device->fence_count == (int)(sizeof(device->fences) / sizeof(device->fences[0])))
      abort();
    *fence = &device->fences[device->fence_count++];
  }
  *(uint64_t *)*fence = device->now_ns + device->lag_ns;
  device->now_ns += RECORD_NS;
  device->records++;
  return 0;
}

static int device_query(void *self, const gp_driver_context_t *context, void *fence)
{
  device_t *device = self;
  device->now_ns += QUERY_NS;
  device->queries++;
  return device->now_ns >= *(uint64_t *)fence ? 0 : NOT_READY;
}

static int device_info(
    void *self, const gp_driver_context_t *context, uint64_t *ret_free, uint64_t *ret_total)
{
  *ret_free = *ret_total = CAPACITY;
  return 0;
}

static uint64_t device_now(void *self)
{
  return ((device_t *)self)->now_ns;
}

static void device_pause(void *self, uint64_t ns)
{
  device_t *device = self;
  device->now_ns += ns;
  device->waited_ns += ns;
}

static const gp_driver_ops_t ops = {.alloc = device_alloc,
    .free = device_free,
    .wait = device_wait,
    .wait_as_free = device_wait,
    .fence_record = device_record,
    .fence_query = device_query,
    .memory_info = device_info,
    .now_ns = device_now,
    .pause = device_pause,
    .code_out_of_memory = 2,
    .code_invalid_value = 1,
    .code_not_ready = NOT_READY};

/* "op,id,size,stream" a row. */
static trace_t read_trace(const char *path)
{
  trace_t trace = {0};
  size_t capacity = 0;
  char line[128];
  FILE *file = fopen(path, "r");

  if (!file) {
    perror(path);
    exit(1);
  }
  while (fgets(line, sizeof(line), file)) {
    char op;
    unsigned id;
    unsigned long long bytes;
    if (sscanf(line, "%c,%u,%llu", &op, &id, &bytes) != 3 || (op != 'A' && op != 'F'))
      continue;
    if (trace.count == capacity) {
      capacity = capacity ? 2 * capacity : 4096;
      trace.requests = checked(realloc(trace.requests, capacity * sizeof(*trace.requests)));
    }
    trace.requests[trace.count++] = (request_t){op == 'F', id, bytes};
    if (id >= trace.ids)
      trace.ids = id + 1;
  }
  fclose(file);
  return trace;
}

/* Peak of what is held and of what was freed at most `lag` requests ago. */
static uint64_t floor_of(const trace_t *trace, uint64_t lag)
{
  uint64_t *sizes = checked(calloc(trace->ids, sizeof(*sizes)));
  uint64_t used = 0;
  uint64_t peak = 0;

  for (size_t i = 0; i < trace->count; i++) {
    const request_t *request = &trace->requests[i];
    const request_t *over = i >= lag ? &trace->requests[i - lag] : NULL;
    if (over && over->is_free)
      used -= sizes[over->id];
    if (!request->is_free)
      used += sizes[request->id] = request->bytes;
    if (used > peak)
      peak = used;
  }
  free(sizes);
  return peak;
}

/*
 * Tells the engine what the device has finished, as synchronizations would: a token for each request, and its
 * end when the device has got there.
 */
typedef struct informer {
  uint64_t *tokens, *times;
  size_t begun, ended;
} informer_t;

static void inform(informer_t *informer, gp_engine_t *engine, gp_context_t *context, const device_t *device)
{
  informer->times[informer->begun] = device->now_ns;
  informer->tokens[informer->begun++] = gp_engine_sync_begin(engine);
  size_t last = informer->ended;
  while (last < informer->begun && informer->times[last] + device->lag_ns <= device->now_ns)
    last++;
  if (last > informer->ended)
    gp_engine_sync_end(engine, context, informer->tokens[last - 1]);
  informer->ended = last;
}

typedef enum way {
  WAY_DEFAULT,
  WAY_WITHOUT_WAITS, /* however much was freed and is in use */
  WAY_INFORMED,      /* the same, and told at once what the device has finished */
} way_t;

static const char *variable_of(void *arg, const char *variable)
{
  const way_t *way = arg;
  if (*way != WAY_DEFAULT && strcmp(variable, "GPUPOOL_MAX_DEFERRED") == 0)
    return "none";
  bool is_given = strcmp(variable, "GPUPOOL_TYPE") == 0 || strcmp(variable, "GPUPOOL_REUSE") == 0;
  return is_given ? getenv(variable) : NULL;
}

static result_t run(const trace_t *trace, uint64_t lag, way_t way)
{
  result_t result = {.device = {.now_ns = 1, .lag_ns = lag * REQUEST_NS, .next_address = UINT64_C(1) << 44}};
  device_t *device = &result.device;
  const gp_driver_t driver = {&ops, device};
  const gp_driver_context_t key = {(void *)1, 1, 0, true};
  gp_options_t options;
  gp_stats_t stats;
  informer_t informer = {.tokens = checked(calloc(trace->count, sizeof(uint64_t))),
      .times = checked(calloc(trace->count, sizeof(uint64_t)))};
  uint64_t *addresses = checked(calloc(trace->ids, sizeof(*addresses)));

  gp_options_parse(&options, variable_of, &way, NULL, NULL);
  gp_engine_t *engine = checked(gp_engine_create(&driver, NULL, &options));
  gp_context_t *context = checked(gp_engine_context(engine, &key));
  for (size_t i = 0; i < trace->count; i++) {
    const request_t *request = &trace->requests[i];
    int code = 0;
    if (way == WAY_INFORMED)
      inform(&informer, engine, context, device);
    if (request->is_free) {
      result.frees++;
      if (gp_engine_free(engine, addresses[request->id], &code) != GP_FREE_DONE || code != 0)
        abort();
    } else if (gp_engine_alloc(engine, context, request->bytes, &addresses[request->id]) != 0) {
      abort();
    }
    device->now_ns += REQUEST_NS;
  }
  gp_engine_stats(engine, 0, &stats);
  result.reserved = stats.reserved_bytes.peak;
  gp_engine_destroy(engine);
  free(informer.tokens);
  free(informer.times);
  free(addresses);
  return result;
}

static double per(uint64_t count, uint64_t frees)
{
  return frees ? 1000.0 * (double)count / (double)frees : 0;
}

static void print(const char *path, const trace_t *trace)
{
  static const uint64_t lags[] = {0, 16, 64, 512};
  const char *name = strrchr(path, '/');

  for (size_t i = 0; i < sizeof(lags) / sizeof(lags[0]); i++) {
    double floor = (double)floor_of(trace, lags[i]);
    result_t result = run(trace, lags[i], WAY_DEFAULT);
    result_t unwaited = run(trace, lags[i], WAY_WITHOUT_WAITS);
    result_t informed = run(trace, lags[i], WAY_INFORMED);
    const device_t *device = &result.device;
    double elapsed = (double)device->now_ns / 100;
    double spent = (double)(device->records * RECORD_NS + device->queries * QUERY_NS);
    printf("%-32.32s %4d %8.0f %8.2f %8.2f %8.2f %8.0f %8.0f %6.2f %6.2f\n",
        i      ? ""
        : name ? name + 1
               : path,
        (int)lags[i], floor / GP_MIB, (double)result.reserved / floor, (double)unwaited.reserved / floor,
        (double)informed.reserved / floor, per(device->records, result.frees),
        per(device->queries, result.frees), spent / elapsed, (double)device->waited_ns / elapsed);
  }
}

int main(int argc, char **argv)
{
  printf("%-32s %4s %8s %8s %8s %8s %8s %8s %6s %6s\n", "", "", "floor", "reserved", "without", "informed",
      "fences", "queries", "share", "waited");
  printf("%-32s %4s %8s %8s %8s %8s %8s %8s %6s %6s\n", "trace", "lag", "MiB", "/ floor", "waits", "/ floor",
      "/ 1000", "/ 1000", "%", "%");
  for (int i = 1; i < argc; i++) {
    trace_t trace = read_trace(argv[i]);
    print(argv[i], &trace);
    free(trace.requests);
  }
  return 0;
}
