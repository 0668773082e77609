/* The sections GP_SECTION_STACKS and GP_SECTION_MODULES: stacks, and the modules of their frames, in two logs
 * that only grow. format/python_code.h describes the log of Python's code objects. */
#ifndef GP_FORMAT_STACK_LOG_H
#define GP_FORMAT_STACK_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/python_code.h"

#define GP_STACKS_MAX        (1u << 17)
#define GP_STACKS_LOG_BYTES  ((size_t)32 << 20) /* maximum; stacks that do not fit are counted in `lost` */
#define GP_MODULES_MAX       4096
#define GP_MODULES_LOG_BYTES ((size_t)4 << 20)
#define GP_BUILD_ID_BYTES    32

/*
 * A native frame is one word. The low 48 bits contain the address of the call (the return address minus one).
 * The bits above contain the module's index plus one, or 0 if the address is in no module.
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

/*
 * A Python frame is also one word. The module's bits contain GP_FRAME_PYTHON. Below are a bit that marks the
 * outermost frame of a run of the interpreter's loop, the index of the frame's code object, and the index of
 * its instruction.
 */
#define GP_FRAME_PYTHON           0xffffu /* more than any module's index plus one */
#define GP_FRAME_ENTRY_BIT        47
#define GP_FRAME_CODE_BIT         24
#define GP_FRAME_CODE_NONE        ((1u << (GP_FRAME_ENTRY_BIT - GP_FRAME_CODE_BIT)) - 1) /* not in the log */
#define GP_FRAME_INSTRUCTION_NONE ((1u << GP_FRAME_CODE_BIT) - 1)

static inline uint64_t gp_frame_pack_python(uint32_t code, uint32_t instruction, bool is_entry)
{
  return (uint64_t)GP_FRAME_PYTHON << GP_FRAME_ADDRESS_BITS | (uint64_t)is_entry << GP_FRAME_ENTRY_BIT |
         (uint64_t)code << GP_FRAME_CODE_BIT | instruction;
}

static inline bool gp_frame_is_python(uint64_t frame)
{
  return frame >> GP_FRAME_ADDRESS_BITS == GP_FRAME_PYTHON;
}

static inline bool gp_frame_is_entry(uint64_t frame)
{
  return frame >> GP_FRAME_ENTRY_BIT & 1;
}

static inline uint32_t gp_frame_code(uint64_t frame)
{
  return frame >> GP_FRAME_CODE_BIT & GP_FRAME_CODE_NONE;
}

/* Returns the index of the frame's instruction, in the units of gp_code_line. */
static inline uint32_t gp_frame_instruction(uint64_t frame)
{
  return frame & GP_FRAME_INSTRUCTION_NONE;
}

/* The log of stacks. Readers may read the first word_count words. The stacks follow one another; each has a
 * word with the number of its frames, and then the frames. */
typedef struct gp_stack_log {
  _Atomic uint32_t word_count;
  _Atomic uint32_t stack_count; /* updated before word_count */
  _Atomic uint64_t lost;        /* number of calls whose stack did not fit */
  uint64_t words[];
} gp_stack_log_t;

/* The frames of one stack. */
typedef struct gp_stack_view {
  const uint64_t *frames;
  uint32_t count;
} gp_stack_view_t;

/* Reads the stack at *at in a log of log_bytes, and advances *at, which is 0 for the first stack. Returns
 * false if there is no further complete stack. The log may belong to another process, so this function does
 * not trust its contents. Thread-safe. */
bool gp_stack_log_next(const gp_stack_log_t *log, size_t log_bytes, uint32_t *at, gp_stack_view_t *ret_stack);

/* One module. After the structure come its path (path_length bytes, without a NUL) and padding to 8 bytes. */
typedef struct gp_module_record {
  uint64_t bias;  /* load bias: address in memory minus address in the file */
  uint64_t start; /* the module is at addresses [start, end) */
  uint64_t end;
  uint32_t record_bytes; /* distance in bytes to the next record */
  uint16_t path_length;
  uint16_t build_id_length;
  uint8_t build_id[GP_BUILD_ID_BYTES];
  char path[];
} gp_module_record_t;

/* The log of modules. Readers may read the first byte_count bytes of `data`. */
typedef struct gp_module_log {
  _Atomic uint32_t byte_count;
  _Atomic uint32_t module_count; /* updated before byte_count */
  uint8_t data[] __attribute__((aligned(8)));
} gp_module_log_t;

/* Returns the record after `at` in a log of log_bytes, or the first record if `at` is NULL. Returns NULL if
 * there is no further complete record. The log may belong to another process, so this function does not trust
 * its contents. Thread-safe. */
const gp_module_record_t *gp_module_log_next(
    const gp_module_log_t *log, size_t log_bytes, const gp_module_record_t *at);

/* The readable parts of the logs. The logs may belong to another process, so readers do not trust their
 * contents. */
typedef struct gp_stack_logs {
  const gp_stack_log_t *stacks; /* NULL if stack_bytes is 0 */
  size_t stack_bytes;           /* 0: there is no log */
  const gp_module_log_t *modules;
  size_t module_bytes; /* 0: there is no log */
  const gp_code_log_t *codes;
  size_t code_bytes; /* 0: there is no log */
} gp_stack_logs_t;

#endif
