/*
 * Kills a process at a random instruction, again and again, and compares what its record says with the
 * process's own log: the same memory is live, up to one operation in flight for each thread, as many
 * allocations were made, and events and blocks agree exactly. GPUPOOL_TYPE is TYPE.
 *
 * ring_kill RUNS [SEED [TYPE]]
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/fuzz/ring_workload.h"
#include "tools/read/record/record_reader.h"

#define EXPECT(condition, ...)                                                                               \
  do {                                                                                                       \
    if (!(condition)) {                                                                                      \
      fprintf(stderr, "run %u: ", run_number);                                                               \
      fprintf(stderr, __VA_ARGS__);                                                                          \
      fprintf(stderr, "\n");                                                                                 \
      exit(EXIT_FAILURE);                                                                                    \
    }                                                                                                        \
  } while (0)

static unsigned run_number;
static gp_record_t record; /* too large for a stack */
static const char *type;   /* NULL: the default */
static bool is_cut;
static unsigned long kills_in_flight, segments_cut;

static const gp_block_view_t *live_block(uint64_t address)
{
  const gp_device_copy_t *copy = &record.copies[0];
  for (size_t i = 0; i < copy->blocks.count; i++) {
    const gp_block_view_t *block = gp_device_copy_block(copy, i);
    if (block->address == address && block->state == GP_BLOCK_ALLOCATED)
      return block;
  }
  return NULL;
}

static void compare_with_log(const workload_t *workload)
{
  size_t expected = 0;
  size_t allocating = 0;
  size_t freeing = 0;
  size_t live = 0;
  uint64_t allocs = 0;
  for (int i = 0; i < WORKLOAD_THREADS; i++) {
    const workload_log_t *log = &workload->logs[i];
    bool is_allocating = atomic_load(&log->allocating) > 0;
    kills_in_flight += is_allocating || atomic_load(&log->freeing);
    allocating += is_allocating;
    allocs += atomic_load(&log->allocs);
    for (int j = 0; j < WORKLOAD_SLOTS; j++) {
      uint64_t address = atomic_load(&log->live[j].address);
      const gp_block_view_t *block = address ? live_block(address) : NULL;
      if (!address)
        continue;
      if (address ==
          atomic_load(&log->freeing)) { /* freed or not, and if so, another thread may have it by now */
        freeing++;
        continue;
      }
      EXPECT(block, "block %#llx is missing", (unsigned long long)address);
      EXPECT(block->requested == atomic_load(&log->live[j].size), "block %#llx is of %llu bytes",
          (unsigned long long)address, (unsigned long long)block->requested);
      expected++;
    }
  }
  for (size_t i = 0; i < record.copies[0].blocks.count; i++)
    live += gp_device_copy_block(&record.copies[0], i)->state == GP_BLOCK_ALLOCATED;
  EXPECT(live >= expected && live <= expected + allocating + freeing,
      "%zu live blocks, but %zu to %zu in the log", live, expected, expected + allocating + freeing);
  uint64_t counted = record.copies[0].stats.allocation.allocated;
  EXPECT(counted >= allocs && counted <= allocs + allocating, "%llu allocations, but %llu to %llu in the log",
      (unsigned long long)counted, (unsigned long long)allocs, (unsigned long long)(allocs + allocating));
}

/* The blocks of a segment cover it. */
static void check_segments(void)
{
  const gp_device_copy_t *copy = &record.copies[0];
  uint64_t end = 0; /* of the block before, if it is of the same segment */
  for (size_t i = 0; i < copy->blocks.count; i++) {
    const gp_block_view_t *block = gp_device_copy_block(copy, i);
    uint64_t begin = end ? end : block->segment_address;
    EXPECT(block->address == begin, "block %#llx is not at %#llx", (unsigned long long)block->address,
        (unsigned long long)begin);
    EXPECT(is_cut || block->size == block->segment_size, "block %#llx is a part",
        (unsigned long long)block->address);
    end = block->address + block->size;
    if (end == block->segment_address + block->segment_size)
      end = 0;
    segments_cut += block->address > block->segment_address;
  }
  EXPECT(end == 0, "the last segment is not covered");
}

/* The state that an address has after its newest event is that of its block. What is idle of a cut segment is
 * of no owner, and may begin where another block, or another segment, began before. */
static void compare_with_events(void)
{
  const gp_event_merge_t *events = &record.events;
  const gp_device_copy_t *copy = &record.copies[0];
  for (size_t i = 0; i < copy->blocks.count; i++) {
    const gp_block_view_t *block = gp_device_copy_block(copy, i);
    gp_decoded_event_t found;
    const gp_decoded_event_t *newest = NULL;
    for (size_t j = events->count; j-- > 0 && !newest;) {
      found = gp_event_merge_get(events, j);
      if (found.address == block->address)
        newest = &found;
    }
    if (!newest)
      continue; /* the ring has lost it */
    if (is_cut && block->state == GP_BLOCK_IDLE) {
      EXPECT(newest->action != GP_ACTION_ALLOC && newest->action != GP_ACTION_FREE_REQUESTED,
          "idle memory at %#llx after event %d", (unsigned long long)block->address, (int)newest->action);
      EXPECT(block->block_id == 0, "idle memory has an owner");
      continue;
    }
    gp_block_state_t state = newest->action == GP_ACTION_ALLOC            ? GP_BLOCK_ALLOCATED
                             : newest->action == GP_ACTION_FREE_REQUESTED ? GP_BLOCK_PENDING
                                                                          : GP_BLOCK_IDLE;
    EXPECT(newest->action != GP_ACTION_SEGMENT_FREE, "segment %#llx is there after its end",
        (unsigned long long)block->address);
    EXPECT(block->state == state, "block %#llx is in state %d after its event %d",
        (unsigned long long)block->address, (int)block->state, (int)newest->action);
    EXPECT(newest->action == GP_ACTION_SEGMENT_ALLOC || block->block_id == newest->block_id,
        "block %llu has an event of %llu", (unsigned long long)block->block_id,
        (unsigned long long)newest->block_id);
  }
}

static void kill_once(workload_t *workload, const char *root, unsigned random)
{
  const workload_plan_t plan = {.root = root,
      .events = random & 1 ? "1024" : "65536",
      .type = type,
      .threads = 1 + (random >> 2) % WORKLOAD_THREADS,
      .uses_heaps = random >> 1 & 1,
      .seed = random};
  pid_t child = workload_start(workload, &plan);
  EXPECT(child > 0, "fork failed");
  uint64_t target = 1 + random % 3000;
  while (atomic_load_explicit(&workload->operations, memory_order_relaxed) < target)
    ;
  for (volatile unsigned spin = random >> 12 & 1023; spin > 0; spin--)
    ;
  kill(child, SIGKILL);
  int status;
  EXPECT(
      waitpid(child, &status, 0) == child && WIFSIGNALED(status), "the process ended by itself: %d", status);
  int fd = workload_open_record(root);
  EXPECT(fd >= 0, "there is no record");
  EXPECT(gp_record_read(fd, &record), "%s", record.problem);
  close(fd);
  EXPECT(
      record.damaged == 0 && !record.is_partial, "%llu damaged records", (unsigned long long)record.damaged);
  uint64_t at_least = record.events.count + record.events.dropped;
  EXPECT(at_least >= target, "%llu events of %llu operations", (unsigned long long)at_least,
      (unsigned long long)target);
  compare_with_log(workload);
  check_segments();
  compare_with_events();
  gp_record_fini(&record);
  workload_remove_records(root);
}

int main(int argc, char **argv)
{
  unsigned runs = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100;
  unsigned random = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
  if (getenv("GP_QUICK"))
    runs /= 8;
  type = argc > 3 ? argv[3] : NULL;
  is_cut = type && strcmp(type, "segment") == 0;
  char root[] = "/dev/shm/ring_kill.XXXXXX";
  char fallback[] = "ring_kill.XXXXXX";
  char *folder = mkdtemp(root);
  workload_t *workload = workload_make();
  char path[256];
  if (!folder)
    folder = mkdtemp(fallback);
  if (!folder || !workload)
    return 77;
  for (run_number = 0; run_number < runs; run_number++) {
    random = random * 1664525u + 1013904223u;
    kill_once(workload, folder, random >> 4);
  }
  gp_record_folder(folder, path, sizeof(path));
  rmdir(path);
  rmdir(folder);
  printf("%u processes killed, %lu threads in the middle of an operation\n", runs, kills_in_flight);
  return kills_in_flight > 0 && (segments_cut > 0) == is_cut ? EXIT_SUCCESS : EXIT_FAILURE;
}
