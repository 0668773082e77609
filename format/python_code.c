#include "format/python_code.h"

#include <stdbool.h>

const gp_code_record_t *gp_code_log_next(
    const gp_code_log_t *log, size_t log_bytes, const gp_code_record_t *at)
{
  size_t used = atomic_load_explicit(&log->byte_count, memory_order_acquire);
  size_t next = at ? (size_t)((const uint8_t *)at - log->data) + at->record_bytes : 0;

  if (used > log_bytes - sizeof(*log))
    used = log_bytes - sizeof(*log);
  if (next > used || used - next < sizeof(gp_code_record_t))
    return NULL;
  const gp_code_record_t *record = (const gp_code_record_t *)(log->data + next);
  uint64_t text_bytes = (uint64_t)record->name_length + record->file_length + record->table_length;
  bool is_whole = record->record_bytes <= used - next && record->record_bytes % 8 == 0 &&
                  record->record_bytes >= sizeof(*record) + text_bytes &&
                  record->line_format < GP_LINES_COUNT;
  return is_whole ? record : NULL;
}

/* The unread rest of a line table. */
typedef struct table {
  const uint8_t *at;
  const uint8_t *end;
} table_t;

/* Returns the line of the address `wanted`, from a table of pairs. A pair has the distance in bytes to the
 * next address, and the distance to that address's line. */
static int64_t line_by_steps(table_t table, int64_t line, uint64_t wanted)
{
  uint64_t address = 0;

  for (; table.end - table.at >= 2; table.at += 2) {
    address += table.at[0];
    if (address > wanted)
      break;
    line += (int8_t)table.at[1];
  }
  return line;
}

/* Returns the line of the address `wanted`, from a table of pairs. A pair has the length of a range in bytes,
 * and the distance to the range's line; -128 means that the range has no line. Returns 0 if there is no
 * line. */
static int64_t line_by_ranges(table_t table, int64_t line, uint64_t wanted)
{
  uint64_t end = 0;

  for (; table.end - table.at >= 2; table.at += 2) {
    int8_t step = (int8_t)table.at[1];
    end += table.at[0];
    if (step != -128)
      line += step;
    if (end > wanted)
      return step != -128 ? line : 0;
  }
  return 0;
}

/* Reads a signed number with six bits per byte, lowest bits first. Bit 6 of a byte means that more bytes
 * follow. The lowest bit of the number is its sign. */
static int64_t read_signed(table_t *table)
{
  uint64_t number = 0;
  bool has_more = true;

  for (unsigned shift = 0; has_more && table->at < table->end && shift < 36; shift += 6) {
    number |= (uint64_t)(*table->at & 63) << shift;
    has_more = (*table->at++ & 64) != 0;
  }
  return number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
}

/* Returns the line of the instruction `wanted`, or 0, from a table of entries. Only the first byte of an
 * entry has bit 7 set; this byte contains the entry's kind and its length in instructions. Some kinds
 * continue with the distance to the line, and with columns. */
static int64_t line_by_locations(table_t table, int64_t line, uint64_t wanted)
{
  uint64_t end = 0;

  while (table.at < table.end) {
    unsigned kind = *table.at >> 3 & 15;
    end += (*table.at++ & 7) + 1u;
    if (kind >= 10 && kind <= 12)
      line += kind - 10;
    else if (kind == 13 || kind == 14)
      line += read_signed(&table);
    if (end > wanted)
      return kind == 15 ? 0 : line;
    while (table.at < table.end && !(*table.at & 128))
      table.at++;
  }
  return 0;
}

int32_t gp_code_line(const gp_code_record_t *code, uint32_t instruction)
{
  const uint8_t *begin = (const uint8_t *)code->text + code->name_length + code->file_length;
  table_t table = {begin, begin + code->table_length};
  int64_t line = 0;

  switch ((gp_line_format_t)code->line_format) {
  case GP_LINES_STEPS: line = line_by_steps(table, code->first_line, UINT64_C(2) * instruction); break;
  case GP_LINES_RANGES: line = line_by_ranges(table, code->first_line, UINT64_C(2) * instruction); break;
  case GP_LINES_LOCATIONS: line = line_by_locations(table, code->first_line, instruction); break;
  case GP_LINES_COUNT: break;
  }
  return line > 0 && line <= INT32_MAX ? (int32_t)line : 0;
}
