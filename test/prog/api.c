/*
 * Uses gpupool.h: performs one step for each line of stdin, and answers each with a line, a
 * number. Runs with the library and without it. A block is named by the order of its allocation, from 0.
 *
 *   alloc BYTES, async BYTES   cudaMalloc, cudaMallocAsync; the number of the block, -1: failed
 *   address BLOCK              whether it begins where the block before it does
 *   free BLOCK, synchronize    the runtime's result
 *   library                    whether there is one
 *   threads                    several threads do all of it at once; how often something was wrong
 *   FUNCTION [ARGUMENT]        of gpupool.h, without gpupool_: its result, or its number
 */
#include <cuda_runtime_api.h>
#include <errno.h>
#include <gpupool.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/wait.h>

#define BLOCKS 1024

static void *blocks[BLOCKS];
static int block_count;

static long long allocate(size_t bytes, int is_async)
{
  if (block_count == BLOCKS)
    return -1;
  void **block = &blocks[block_count];
  return (is_async ? cudaMallocAsync(block, bytes, 0) : cudaMalloc(block, bytes)) == cudaSuccess
             ? block_count++
             : -1;
}

/* In a child of fork() the library is off. */
static int statistic_in_child(void)
{
  int status = -1;
  pid_t pid = fork();
  if (pid == 0)
    _exit((int)gpupool_statistic(0, "segment", NULL));
  waitpid(pid, &status, 0);
  return WEXITSTATUS(status);
}

/* What snprintf promises, of both texts: the length without room, a cut text, and the whole. */
static int texts_are_cut(int device)
{
  size_t (*const functions[])(long long, char *, size_t) = {gpupool_memory_stats, gpupool_memory_summary};
  for (int i = 0; i < 2; i++) {
    char whole[16384], part[64];
    size_t length = functions[i](device, NULL, 0);
    memset(part, 'x', sizeof(part));
    if (functions[i](device, whole, sizeof(whole)) != length || strlen(whole) != length ||
        functions[i](device, part, 32) != length || strlen(part) != 31 || memcmp(part, whole, 31) != 0 ||
        part[32] != 'x')
      return 0;
  }
  return 1;
}

static int print_to_stderr(size_t (*function)(long long, char *, size_t), int device)
{
  char text[16384] = "";
  size_t length = function(device, text, sizeof(text));
  fprintf(stderr, "%s\n", text);
  return (int)length;
}

static int snapshot(const char *path)
{
  char written[4096] = "";
  errno = 0;
  gpupool_result_t result = gpupool_snapshot(path[0] ? path : NULL, written, sizeof(written));
  fprintf(stderr, "snapshot \"%s\" errno %d\n", written, result == GPUPOOL_OK ? 0 : errno);
  return (int)result;
}

static int memory_info(int device, int is_total)
{
  uint64_t free_bytes = 0, total_bytes = 0;
  gpupool_result_t result = gpupool_memory_info(device, &free_bytes, &total_bytes);
  return result == GPUPOOL_OK ? (int)((is_total ? total_bytes : free_bytes) >> 20) : -(int)result;
}

/* Marks m0 to m(count - 1). */
static int marks(int count)
{
  char name[16];
  gpupool_result_t result = GPUPOOL_OK;
  for (int i = 0; i < count && result == GPUPOOL_OK; i++) {
    (void)snprintf(name, sizeof(name), "m%d", i);
    result = gpupool_mark(name);
  }
  return (int)result;
}

/* The number of the scope, or less than 0. */
static long long scope_begin(const char *name, int device)
{
  uint64_t scope = 0;
  gpupool_result_t result = gpupool_scope_begin(device, name, &scope);
  return result == GPUPOOL_OK ? (long long)scope : -(long long)result;
}

static int scope_end(uint64_t scope)
{
  gpupool_report_t report;
  memset(&report, 0, sizeof(report));
  gpupool_result_t result = gpupool_scope_end(scope, &report);
#define NUMBER(name) (unsigned long long)report.name
  if (result == GPUPOOL_OK)
    fprintf(stderr,
        "{\"peak_allocated\": %llu, \"peak_reserved\": %llu, \"peak_cached\": %llu, \"peak_requested\": %llu, \"allocated_bytes\": %llu, \"allocations\": %llu, \"freed_bytes\": %llu, \"frees\": %llu, \"cache_hits\": %llu, \"cache_misses\": %llu, \"driver_allocs\": %llu, \"driver_frees\": %llu, \"num_ooms\": %llu, \"has_duration\": %d, \"cache_hit_rate\": %.3f, \"efficiency\": %.3f}\n",
        NUMBER(peak_allocated), NUMBER(peak_reserved), NUMBER(peak_cached), NUMBER(peak_requested),
        NUMBER(allocated_bytes), NUMBER(allocations), NUMBER(freed_bytes), NUMBER(frees), NUMBER(cache_hits),
        NUMBER(cache_misses), NUMBER(driver_allocs), NUMBER(driver_frees), NUMBER(num_ooms),
        report.duration_ns > 0, report.cache_hit_rate, report.efficiency);
  return (int)result;
}

/* What a thread may do beside others that do the same; *arg: how often something was wrong. */
static void *do_all(void *arg)
{
  int *wrong = arg;
  char text[16384];
  for (int i = 0; i < 100; i++) {
    uint64_t scope = 0;
    gpupool_report_t report = {.allocations = 0};
    void *block = NULL;
    *wrong += gpupool_scope_begin(0, "thread", &scope) != GPUPOOL_OK;
    *wrong += cudaMalloc(&block, (size_t)4096 << i % 4) != cudaSuccess;
    *wrong += gpupool_retain(block) != GPUPOOL_OK || cudaFree(block) != cudaSuccess ||
              gpupool_release(block) != GPUPOOL_OK;
    *wrong += gpupool_memory_stats(0, text, sizeof(text)) == 0 ||
              gpupool_memory_summary(0, text, sizeof(text)) == 0;
    *wrong += gpupool_mark("beside") != GPUPOOL_OK;
    if (i % 10 == 9)
      *wrong += gpupool_reset_peaks(0) != GPUPOOL_OK || gpupool_reset_stats(0) != GPUPOOL_OK ||
                gpupool_empty_cache(NULL) != GPUPOOL_OK;
    *wrong += gpupool_scope_end(scope, &report) != GPUPOOL_OK || report.allocations == 0 ||
              report.peak_allocated < 4096;
  }
  return NULL;
}

static int do_all_in_threads(void)
{
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  int wrong[THREADS] = {0}, sum = 0;
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, do_all, &wrong[i]);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    sum += wrong[i];
  }
  return sum;
}

static long long step(const char *name, const char *argument, const char *second)
{
  const int number = atoi(argument);
  uint64_t value = 0;

  if (strcmp(name, "alloc") == 0)
    return allocate(strtoull(argument, NULL, 10), 0);
  if (strcmp(name, "async") == 0)
    return allocate(strtoull(argument, NULL, 10), 1);
  if (strcmp(name, "address") == 0)
    return blocks[number] == blocks[number - 1];
  if (strcmp(name, "free") == 0)
    return (int)cudaFree(blocks[number]);
  if (strcmp(name, "free_async") == 0)
    return (int)cudaFreeAsync(blocks[number], 0);
  if (strcmp(name, "synchronize") == 0)
    return (int)cudaDeviceSynchronize();
  if (strcmp(name, "device") == 0)
    return (int)cudaSetDevice(number);
  if (strcmp(name, "library") == 0)
    return gpupool_version() != NULL;
  if (strcmp(name, "child") == 0)
    return statistic_in_child();
  if (strcmp(name, "threads") == 0)
    return do_all_in_threads();
  if (strcmp(name, "texts") == 0)
    return texts_are_cut(number);
  if (strcmp(name, "memory_stats") == 0)
    return print_to_stderr(gpupool_memory_stats, number);
  if (strcmp(name, "memory_summary") == 0)
    return print_to_stderr(gpupool_memory_summary, number);
  if (strcmp(name, "result_of") == 0)
    return (int)gpupool_statistic(second[0] ? atoi(second) : 0, argument, NULL);
  if (strcmp(name, "number") == 0)
    return (long long)gpupool_number(second[0] ? atoi(second) : 0, argument);
  if (strcmp(name, "memory_free") == 0)
    return memory_info(number, 0);
  if (strcmp(name, "memory_total") == 0)
    return memory_info(number, 1);
  if (strcmp(name, "reset_peaks") == 0)
    return (int)gpupool_reset_peaks(number);
  if (strcmp(name, "reset_stats") == 0)
    return (int)gpupool_reset_stats(number);
  if (strcmp(name, "empty_cache") == 0)
    return gpupool_empty_cache(&value) == GPUPOOL_OK ? (long long)value : -1;
  if (strcmp(name, "set_limit") == 0)
    return (int)gpupool_set_limit(
        number, strcmp(second, "none") == 0 ? GPUPOOL_NO_LIMIT : strtoull(second, NULL, 10));
  if (strcmp(name, "snapshot") == 0)
    return snapshot(argument);
  if (strcmp(name, "set_recording") == 0)
    return (int)gpupool_set_recording((gpupool_recording_t)number);
  if (strcmp(name, "set_verbose") == 0)
    return (int)gpupool_set_verbose(number);
  if (strcmp(name, "mark") == 0)
    return (int)gpupool_mark(argument[0] ? argument : NULL);
  if (strcmp(name, "marks") == 0)
    return marks(number);
  if (strcmp(name, "begin") == 0)
    return scope_begin(argument[0] ? argument : NULL, second[0] ? atoi(second) : 0);
  if (strcmp(name, "end") == 0)
    return scope_end(strtoull(argument, NULL, 10));
  if (strcmp(name, "retain") == 0)
    return (int)gpupool_retain(argument[0] ? blocks[number] : NULL);
  if (strcmp(name, "release") == 0)
    return (int)gpupool_release(argument[0] ? blocks[number] : NULL);
  return -2;
}

int main(void)
{
  char line[4400];
  setvbuf(stdout, NULL, _IOLBF, 0);
  while (fgets(line, sizeof(line), stdin)) {
    char name[32] = "", argument[4096] = "", second[64] = "";
    if (sscanf(line, "%31s %4095s %63s", name, argument, second) >= 1)
      printf("%s %lld\n", name, step(name, argument, second));
  }
  return 0;
}
