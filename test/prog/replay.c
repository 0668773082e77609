/*
 * replay: performs the requests of an allocation trace through the CUDA runtime or the CUDA driver, writes
 * into every block, and can check that what it wrote is still there when the block is freed. See usage()
 * below.
 */
#include "replay.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  OPT_REPEAT = 1,
  OPT_SYNC_EVERY,
  OPT_PAUSE,
  OPT_STREAMS,
  OPT_THREADS,
  OPT_ASYNC,
  OPT_HALF_ASYNC,
  OPT_API,
  OPT_PROGRAMMATIC,
  OPT_CHECK,
  OPT_STRICT,
  OPT_HELP
};

static const struct option long_options[] = {
    {"repeat", required_argument, NULL, OPT_REPEAT},
    {"sync-every", required_argument, NULL, OPT_SYNC_EVERY},
    {"pause", required_argument, NULL, OPT_PAUSE},
    {"streams", required_argument, NULL, OPT_STREAMS},
    {"threads", required_argument, NULL, OPT_THREADS},
    {"async", no_argument, NULL, OPT_ASYNC},
    {"half-async", no_argument, NULL, OPT_HALF_ASYNC},
    {"api", required_argument, NULL, OPT_API},
    {"programmatic", no_argument, NULL, OPT_PROGRAMMATIC},
    {"check", no_argument, NULL, OPT_CHECK},
    {"strict", no_argument, NULL, OPT_STRICT},
    {"help", no_argument, NULL, OPT_HELP},
    {0},
};

static void usage(void)
{
  fputs(
      "usage: replay TRACE.csv [options]\n"
      "Performs the requests of a trace (rows op,id,size,stream; - is stdin) on the first CUDA device. Every\n"
      "block gets stamps at its head, its tail and every 2 MiB, 5 at most, by an asynchronous copy on the row's\n"
      "stream.\n"
      "\n"
      "  --repeat N            perform the trace N times (1); what is left is freed at the end of each pass\n"
      "  --sync-every K        synchronize the device every K rows and after each pass (64); 0 never\n"
      "  --pause US            sleep so many microseconds after every row (0)\n"
      "  --streams N           use N non-blocking streams, row number mod N, instead of the trace's streams\n"
      "                        (0 is the legacy default stream, every other a non-blocking one)\n"
      "  --threads N           deal the blocks to N threads (1)\n"
      "  --async               allocate and free in stream order (cudaMallocAsync, cudaFreeAsync)\n"
      "  --half-async          the same with every second block of a thread\n"
      "  --api runtime|driver  which API to call (runtime)\n"
      "  --programmatic        launch a kernel first that may overlap the one in front (driver API only)\n"
      "  --check               copy the stamps back before each free and compare them\n"
      "  --strict              failed allocations are an error too\n"
      "  --help                this text\n"
      "\n"
      "Prints one line of totals. Exit status: 0 done; 1 a stamp was wrong or, with --strict, a row failed or left\n"
      "another error behind than it returned; 2 usage or a malformed trace; 3 another CUDA call failed.\n",
      stdout);
}

static uint32_t parse_count(const char *name, const char *text, uint32_t min, uint32_t max)
{
  char *end;
  errno = 0;
  unsigned long number = strtoul(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number < min || number > max) {
    fprintf(stderr, "replay: --%s is a number from %" PRIu32 " to %" PRIu32 ", not \"%s\"\n", name, min, max,
        text);
    exit(REPLAY_EXIT_USAGE);
  }
  return (uint32_t)number;
}

static const replay_api_t *parse_api(const char *text)
{
  if (strcmp(text, "runtime") == 0)
    return &replay_api_runtime;
  if (strcmp(text, "driver") == 0)
    return &replay_api_driver;
  fprintf(stderr, "replay: --api is runtime or driver, not \"%s\"\n", text);
  exit(REPLAY_EXIT_USAGE);
}

static uint64_t get(const atomic_uint_fast64_t *counter)
{
  return atomic_load(counter);
}

int main(int argc, char **argv)
{
  replay_options_t options = {.api = &replay_api_runtime, .repeat = 1, .sync_every = 64, .threads = 1};
  bool strict = false;
  static char program[] = "replay"; /* what getopt's messages begin with */
  argv[0] = program;
  for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
    switch (option) {
    case OPT_REPEAT: options.repeat = parse_count("repeat", optarg, 1, 65535); break;
    case OPT_SYNC_EVERY: options.sync_every = parse_count("sync-every", optarg, 0, UINT32_MAX); break;
    case OPT_PAUSE: options.pause_us = parse_count("pause", optarg, 0, 999999); break;
    case OPT_STREAMS: options.streams = parse_count("streams", optarg, 1, 1024); break;
    case OPT_THREADS: options.threads = parse_count("threads", optarg, 1, 256); break;
    case OPT_ASYNC: options.async = REPLAY_ASYNC_ALL; break;
    case OPT_HALF_ASYNC: options.async = REPLAY_ASYNC_HALF; break;
    case OPT_API: options.api = parse_api(optarg); break;
    case OPT_PROGRAMMATIC: options.programmatic = true; break;
    case OPT_CHECK: options.check = true; break;
    case OPT_STRICT: strict = true; break;
    case OPT_HELP: usage(); return REPLAY_EXIT_OK;
    default: return REPLAY_EXIT_USAGE; /* getopt_long has said why */
    }
  }
  if (options.programmatic && !options.api->launch_programmatic) {
    fprintf(stderr, "replay: --programmatic needs --api driver\n");
    return REPLAY_EXIT_USAGE;
  }
  if (argc - optind != 1) {
    fprintf(stderr, "replay: expected one trace, got %d (--help tells more)\n", argc - optind);
    return REPLAY_EXIT_USAGE;
  }

  replay_trace_t trace;
  if (!replay_trace_read(argv[optind], &trace))
    return REPLAY_EXIT_USAGE;
  static replay_totals_t totals;
  replay_run(&trace, &options, &totals);
  replay_trace_fini(&trace);

  printf("replay: api=%s passes=%" PRIu32 " allocs=%" PRIu64 " frees=%" PRIu64 " failed=%" PRIu64
         " survivors=%" PRIu64 " peak_requested=%" PRIu64 " wrong_stamps=%" PRIu64
         " error_mismatches=%" PRIu64 " seconds=%.3f\n",
      options.api->name, options.repeat, get(&totals.allocs), get(&totals.frees), get(&totals.failed),
      get(&totals.survivors), get(&totals.peak_bytes), get(&totals.wrong_stamps),
      get(&totals.error_mismatches), totals.seconds);
  if (get(&totals.wrong_stamps) > 0 ||
      (strict && (get(&totals.failed) > 0 || get(&totals.error_mismatches) > 0)))
    return REPLAY_EXIT_FINDINGS;
  return REPLAY_EXIT_OK;
}
