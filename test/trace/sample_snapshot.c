/*
 * Writes snapshots of a made-up process into the current folder, for validate_snapshots.py: "exit" with
 * events of several threads and every action and detail, "oom", and "wrapped" with most of its history lost.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "fake_engine.h"
#include "base/size.h"
#include "trace/snapshot/snapshot.h"

static gp_recorder_t *recorder;
static gp_snapshot_writer_t *writer;

static void record_all_kinds(void)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  for (int i = 0; i < 4 * (int)GP_DETAIL_COUNT; i++) {
    const uint64_t time_ns = fake_clock(NULL) + (uint64_t)i;
    const gp_event_t event = {.time_ns = time_ns,
        .address = UINT64_MAX >> (i % 64),
        .size = UINT64_MAX >> (i % 64),
        .rounded_size = UINT64_MAX >> (i % 64),
        .block_id = (uint64_t)i,
        .duration_ns = UINT64_C(1) << (i % 64),
        .alloc_ns = time_ns >> (i % 64),
        .stream = (uint64_t)i % 9,
        .action = (gp_action_t)(i % GP_ACTION_COUNT),
        .detail = (gp_detail_t)(i % GP_DETAIL_COUNT),
        .device = i % 3 - 1,
        .has_stream = i % 2,
        .hit = i % 5 == 0};
    observer.event(observer.self, &event);
  }
}

static void *other_thread(void *arg)
{
  prctl(PR_SET_NAME, "bad\xff\"\\\x01name");
  record_all_kinds();
  return NULL;
}

static int write_one(const char *reason, const gp_oom_t *oom)
{
  char path[64];
  snprintf(path, sizeof(path), "%s.json", reason);
  int error = gp_snapshot_write(writer, reason, oom, path);
  if (error)
    fprintf(stderr, "%s: error %d: %s\n", path, error, fake_log[0]);
  return error;
}

int main(void)
{
  pthread_t thread;
  fake_reset();
  fake_fill();
  fake_add_cut_segment();
  recorder = gp_recorder_create(fake_options("GPUPOOL_LIMIT=8GiB", NULL), fake_clock, NULL);
  writer = recorder ? gp_snapshot_writer_create(recorder) : NULL;
  if (!writer)
    return EXIT_FAILURE;
  gp_snapshot_writer_attach(writer, fake_engine_pointer());
  gp_recorder_set_versions(recorder, 13000, 0);
  record_all_kinds();
  if (pthread_create(&thread, NULL, other_thread, NULL) == 0)
    pthread_join(thread, NULL);
  fake_now_ns += 1000000;

  const gp_oom_t oom = {.time_ns = fake_now_ns,
      .requested = UINT64_MAX,
      .live = 7 * GP_GIB,
      .limit = 8 * GP_GIB,
      .waited_ns = UINT64_C(2000000000),
      .busy_ns = UINT64_C(3100000000),
      .busy_context = 1,
      .owners = {{GP_GIB, 7}},
      .by_limit = true};
  int failed = write_one("exit", NULL);
  failed |= write_one("oom", &oom);
  gp_snapshot_writer_destroy(writer);
  gp_recorder_destroy(recorder);

  recorder = gp_recorder_create(fake_options("GPUPOOL_TRACE_EVENTS=1024", NULL), fake_clock, NULL);
  writer = recorder ? gp_snapshot_writer_create(recorder) : NULL;
  if (!writer)
    return EXIT_FAILURE;
  for (uint64_t i = 0; i < 100000; i++)
    fake_record(recorder, GP_ACTION_ALLOC, fake_now_ns + i, i);
  failed |= write_one("wrapped", NULL);
  gp_snapshot_writer_destroy(writer);
  gp_recorder_destroy(recorder);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
