/*
 * The section GP_SECTION_CODES: Python's code objects, in a log that only grows. A code object is a function,
 * a class body or a module as the interpreter runs it. The log has a copy of the data that a reader needs to
 * find the line of an instruction. The line tables are CPython's own, decoded when a snapshot is written.
 */
#ifndef GP_FORMAT_PYTHON_CODE_H
#define GP_FORMAT_PYTHON_CODE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define GP_CODES_MAX      (1u << 16)
#define GP_CODE_LOG_BYTES ((size_t)16 << 20) /* maximum; frames of code that does not fit have no names */

/* CPython's formats of line tables (Objects/lnotab_notes.txt, PEP 626, Objects/locations.md). */
typedef enum gp_line_format {
  GP_LINES_STEPS,     /* up to 3.9, co_lnotab: steps of addresses and lines */
  GP_LINES_RANGES,    /* 3.10, co_linetable: ranges of addresses, each with a step of lines */
  GP_LINES_LOCATIONS, /* since 3.11, co_linetable: entries of lines and columns */
  GP_LINES_COUNT
} gp_line_format_t;

/* One code object. It is followed by its qualified name (before 3.11 its name) and the name of its file,
 * both in UTF-8 without a NUL, by its line table, possibly truncated, and by padding to 8 bytes. */
typedef struct gp_code_record {
  uint32_t record_bytes; /* distance to the next record */
  uint32_t table_length;
  int32_t first_line;
  uint32_t line_format; /* gp_line_format_t */
  uint32_t name_length;
  uint32_t file_length;
  char text[];
} gp_code_record_t;

/* Readers may read the first byte_count bytes of data. */
typedef struct gp_code_log {
  _Atomic uint32_t byte_count;
  _Atomic uint32_t code_count; /* written before byte_count */
  uint8_t data[] __attribute__((aligned(8)));
} gp_code_log_t;

/* Returns the first record of a log of log_bytes (at is NULL), or the one after `at`. Returns NULL if
 * there is no further complete record. The log may belong to another process, so this function trusts
 * nothing in it. Any thread may call it. */
const gp_code_record_t *gp_code_log_next(
    const gp_code_log_t *log, size_t log_bytes, const gp_code_record_t *at);

/* Returns the line of an instruction. Instructions are counted from the first one in units of two bytes.
 * Returns 0 if the line is unknown, or if the instruction has no line. */
int32_t gp_code_line(const gp_code_record_t *code, uint32_t instruction);

#endif
