/*
 * The section GP_SECTION_CODES: Python's code objects, in a log that only grows. A code object is a function,
 * a class body or a module in the form that the interpreter runs. The log contains copies of the data from
 * which a reader finds an instruction's line. The line tables are CPython's own, and are decoded when a
 * snapshot is written.
 */
#ifndef GP_FORMAT_PYTHON_CODE_H
#define GP_FORMAT_PYTHON_CODE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define GP_CODES_MAX      (1u << 16)
#define GP_CODE_LOG_BYTES ((size_t)16 << 20) /* maximum; frames whose code does not fit have no names */

/* CPython's formats of line tables (Objects/lnotab_notes.txt, PEP 626, Objects/locations.md). */
typedef enum gp_line_format {
  GP_LINES_STEPS,     /* up to 3.9, co_lnotab: steps of addresses and lines */
  GP_LINES_RANGES,    /* 3.10, co_linetable: ranges of addresses, each with a step of lines */
  GP_LINES_LOCATIONS, /* since 3.11, co_linetable: entries of lines and columns */
  GP_LINES_COUNT
} gp_line_format_t;

/* One code object. After the structure come its qualified name (before 3.11 its name), the name of its file,
 * its line table, which may be truncated, and padding to 8 bytes. Both names are in UTF-8 without a NUL. */
typedef struct gp_code_record {
  uint32_t record_bytes; /* distance in bytes to the next record */
  uint32_t table_length;
  int32_t first_line;
  uint32_t line_format; /* gp_line_format_t */
  uint32_t name_length;
  uint32_t file_length;
  char text[];
} gp_code_record_t;

/* The log of code objects. Readers may read the first byte_count bytes of `data`. */
typedef struct gp_code_log {
  _Atomic uint32_t byte_count;
  _Atomic uint32_t code_count; /* updated before byte_count */
  uint8_t data[] __attribute__((aligned(8)));
} gp_code_log_t;

/* Returns the record after `at` in a log of log_bytes, or the first record if `at` is NULL. Returns NULL if
 * there is no further complete record. The log may belong to another process, so this function does not trust
 * its contents. Thread-safe. */
const gp_code_record_t *gp_code_log_next(
    const gp_code_log_t *log, size_t log_bytes, const gp_code_record_t *at);

/* Returns the source line of an instruction, or 0 if the line is unknown or the instruction has none.
 * `instruction` is the distance from the first instruction in units of two bytes. */
int32_t gp_code_line(const gp_code_record_t *code, uint32_t instruction);

#endif
