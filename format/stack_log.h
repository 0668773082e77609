/* Stacks and the modules of their frames: the sections GP_SECTION_STACKS and GP_SECTION_MODULES, two logs
 * that only grow. format/python_code.h describes Python's code objects. */
#ifndef GP_FORMAT_STACK_LOG_H
#define GP_FORMAT_STACK_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/python_code.h"

#define GP_STACKS_MAX        (1u << 17)
#define GP_STACKS_LOG_BYTES  ((size_t)32 << 20) /* maximum; stacks that do not fit are only counted */
#define GP_MODULES_MAX       4096
#define GP_MODULES_LOG_BYTES ((size_t)4 << 20)
#define GP_BUILD_ID_BYTES    32

/*
 * A frame of native code is one word: the low 48 bits have the address of the call (the return address less
 * one), and the bits above have the module's index plus one, or 0 if there is no module.
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
 * A frame of Python is also one word: GP_FRAME_PYTHON in place of the module, then a bit for the outermost
 * frame of a run of the interpreter's loop, the index of its code object, and its instruction.
 */
#define GP_FRAME_PYTHON           0xffffu /* more than any module's index */
#define GP_FRAME_ENTRY_BIT        47
#define GP_FRAME_CODE_BIT         24
#define GP_FRAME_CODE_NONE        ((1u << (GP_FRAME_ENTRY_BIT - GP_FRAME_CODE_BIT)) - 1) /* did not fit */
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

/* Returns the instruction in the units of gp_code_line. */
static inline uint32_t gp_frame_instruction(uint64_t frame)
{
  return frame & GP_FRAME_INSTRUCTION_NONE;
}

/* Readers may read the first word_count words. They contain one stack after another, each as the number of
 * its frames, followed by the frames. */
typedef struct gp_stack_log {
  _Atomic uint32_t word_count;
  _Atomic uint32_t stack_count; /* written before word_count */
  _Atomic uint64_t lost;        /* calls whose stack did not fit */
  uint64_t words[];
} gp_stack_log_t;

/* The frames of one stack. */
typedef struct gp_stack_view {
  const uint64_t *frames;
  uint32_t count;
} gp_stack_view_t;

/* Returns the stack at *at of a log of log_bytes, and moves *at, which is 0 for the first, to the next
 * stack. Returns false if there is no further complete stack. The log may belong to another process, so
 * this function trusts nothing in it. Any thread may call it. */
bool gp_stack_log_next(const gp_stack_log_t *log, size_t log_bytes, uint32_t *at, gp_stack_view_t *ret_stack);

/* One module, followed by its path (path_length bytes, no NUL) and padding to 8 bytes. */
typedef struct gp_module_record {
  uint64_t bias;  /* address in memory less address in the file */
  uint64_t start; /* the module's addresses are [start, end) */
  uint64_t end;
  uint32_t record_bytes; /* distance to the next record */
  uint16_t path_length;
  uint16_t build_id_length;
  uint8_t build_id[GP_BUILD_ID_BYTES];
  char path[];
} gp_module_record_t;

/* Readers may read the first byte_count bytes of data. */
typedef struct gp_module_log {
  _Atomic uint32_t byte_count;
  _Atomic uint32_t module_count; /* written before byte_count */
  uint8_t data[] __attribute__((aligned(8)));
} gp_module_log_t;

/* Returns the first record of a log of log_bytes (at is NULL), or the one after `at`. Returns NULL if
 * there is no further complete record. The log may belong to another process, so this function trusts
 * nothing in it. Any thread may call it. */
const gp_module_record_t *gp_module_log_next(
    const gp_module_log_t *log, size_t log_bytes, const gp_module_record_t *at);

/* The readable parts of the logs. The logs may belong to another process, so readers trust nothing in
 * them. */
typedef struct gp_stack_logs {
  const gp_stack_log_t *stacks; /* NULL with stack_bytes 0 */
  size_t stack_bytes;           /* 0: there is no log */
  const gp_module_log_t *modules;
  size_t module_bytes; /* 0: there is no log */
  const gp_code_log_t *codes;
  size_t code_bytes; /* 0: there is no log */
} gp_stack_logs_t;

#endif
