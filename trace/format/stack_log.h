/*
 * Stacks and the modules that their frames are in: the sections GP_SECTION_STACKS and GP_SECTION_MODULES, two
 * logs that only grow.
 */
#ifndef GP_TRACE_FORMAT_STACK_LOG_H
#define GP_TRACE_FORMAT_STACK_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_STACKS_MAX        (1u << 17)
#define GP_STACKS_LOG_BYTES  ((size_t)32 << 20) /* at most; what does not fit is counted */
#define GP_MODULES_MAX       4096
#define GP_MODULES_LOG_BYTES ((size_t)4 << 20)
#define GP_BUILD_ID_BYTES    32

/*
 * A frame is one word: the address of the call (the return address less one) in the low 48 bits, the module's
 * index plus one above; 0: in no module.
 */
#define GP_FRAME_ADDRESS_BITS 48

static inline uint64_t gp_frame_pack(uint64_t address, int32_t module)
{
  return (address & ((UINT64_C(1) << GP_FRAME_ADDRESS_BITS) - 1)) | (uint64_t)(uint32_t)(module + 1)
                                                                        << GP_FRAME_ADDRESS_BITS;
}

static inline uint64_t gp_frame_address(uint64_t frame)
{
  return frame & ((UINT64_C(1) << GP_FRAME_ADDRESS_BITS) - 1);
}

static inline int32_t gp_frame_module(uint64_t frame)
{
  return (int32_t)(frame >> GP_FRAME_ADDRESS_BITS) - 1;
}

/* The first word_count words may be read: stack after stack, each the number of its frames, then these. */
typedef struct gp_stack_log {
  _Atomic uint32_t word_count;
  _Atomic uint32_t stack_count; /* written before word_count */
  _Atomic uint64_t lost;        /* calls whose stack did not find room */
  uint64_t words[];
} gp_stack_log_t;

/* Frames of one stack. */
typedef struct gp_stack_view {
  const uint64_t *frames;
  uint32_t count;
} gp_stack_view_t;

/*
 * The stack at *at of a log of log_bytes; *at, 0 for the first, moves to the next. False: no more, or none
 * that is whole. The log may be one that another process left: nothing in it is believed. Any thread.
 */
bool gp_stack_log_next(const gp_stack_log_t *log, size_t log_bytes, uint32_t *at, gp_stack_view_t *ret_stack);

/* One module, followed by its path (path_length bytes, no NUL) and padding to 8 bytes. */
typedef struct gp_module_record {
  uint64_t bias;  /* address in memory less address in the file */
  uint64_t start; /* addresses [start, end) */
  uint64_t end;
  uint32_t record_bytes; /* to the next record */
  uint16_t path_length;
  uint16_t build_id_length;
  uint8_t build_id[GP_BUILD_ID_BYTES];
  char path[];
} gp_module_record_t;

/* The first byte_count bytes of data may be read. */
typedef struct gp_module_log {
  _Atomic uint32_t byte_count;
  _Atomic uint32_t module_count; /* written before byte_count */
  uint8_t data[] __attribute__((aligned(8)));
} gp_module_log_t;

/*
 * The first record of a log of log_bytes (at is NULL), and the one after `at`; NULL: no more, or none that is
 * whole. The log may be one that another process left: nothing in it is believed. Any thread.
 */
const gp_module_record_t *gp_module_log_next(
    const gp_module_log_t *log, size_t log_bytes, const gp_module_record_t *at);

/* Both logs, as far as they may be read. They may be ones that another process left: nothing is believed. */
typedef struct gp_stack_logs {
  const gp_stack_log_t *stacks; /* NULL with stack_bytes 0 */
  size_t stack_bytes;           /* 0: there are none */
  const gp_module_log_t *modules;
  size_t module_bytes; /* as stack_bytes */
} gp_stack_logs_t;

#endif
