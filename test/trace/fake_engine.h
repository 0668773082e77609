/*
 * What the recorder sees of an engine, without one: the reading functions of pool/engine.h over plain arrays,
 * a clock that stands until it is set, and a log that is kept.
 */
#ifndef GP_TEST_TRACE_FAKE_ENGINE_H
#define GP_TEST_TRACE_FAKE_ENGINE_H

#include "pool/forwarded/forwarded.h"
#include "base/log.h"
#include "trace/record/recorder.h"

#define FAKE_BLOCKS 4096

typedef struct fake_engine {
  uint64_t devices;
  uint64_t limit;
  gp_stats_t stats;
  gp_block_view_t blocks[FAKE_BLOCKS];
  size_t block_count;
  gp_device_use_t use;
  gp_forwarded_t forwarded[64];
  size_t passthrough_count;
  unsigned block_reads;
  void (*others)(
      void); /* what other threads do before the blocks are copied, and again after it; may be NULL */
} fake_engine_t;

extern fake_engine_t fake_engine;
extern _Atomic uint64_t fake_now_ns;

/* Lines that were logged, by level; GP_LOG_INFO included. */
extern char fake_log[64][GP_LOG_LINE_BYTES];
extern gp_log_level_t fake_log_levels[64];
extern unsigned fake_log_count;

/* Back to nothing: no device, no log, the clock at 1 s. */
void fake_reset(void);

/* One device with three blocks (live, pending, idle), a pitch allocation, and stats that fit. */
void fake_fill(void);

/*
 * One more segment of device 0: 4 MiB at 0x7f0001000000 that are cut into 1 MiB live, 1 MiB idle, 512 KiB
 * pending and the idle rest. What it adds to the statistics they have.
 */
void fake_add_cut_segment(void);

gp_engine_t *fake_engine_pointer(void);
uint64_t fake_clock(void *self);

/* The defaults, with NAME=VALUE pairs on top; ends with NULL. The result is static. */
const gp_options_t *fake_options(const char *first, ...);

/* Counts the logged lines that contain text. */
unsigned fake_log_matches(const char *text);

/* An event of device 0 at time_ns; block and address are made of `block`. */
void fake_record(gp_recorder_t *recorder, gp_action_t action, uint64_t time_ns, uint64_t block);

#endif
