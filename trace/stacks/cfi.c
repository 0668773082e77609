#include "trace/stacks/cfi.h"

#include <string.h>

#include "base/loader_walk.h"

/* The header and the table of .eh_frame_hdr, in the form that linkers write. A row has the start address of a
 * function and the position of the function's entry in .eh_frame, both relative to the header. Rows are
 * sorted by address. */
typedef struct table_row {
  int32_t code;
  int32_t entry;
} table_row_t;

typedef struct table {
  uint8_t version;      /* 1 */
  uint8_t pointer_form; /* encoding of eh_frame: 0x1b, four bytes relative to their own position */
  uint8_t count_form;   /* encoding of the count: 0x03, four bytes */
  uint8_t row_form;     /* encoding of the rows: 0x3b, four bytes relative to the table */
  int32_t eh_frame;
  uint32_t count;
  table_row_t rows[];
} table_t;

typedef struct search {
  void *const *addresses;
  size_t count;
  gp_frame_rule_t *rules;
  gp_loader_counts_t counts;
} search_t;

static bool is_usual(const table_t *table, uint64_t bytes)
{
  return bytes >= sizeof(*table) && table->version == 1 && table->pointer_form == 0x1b &&
         table->count_form == 0x03 && table->row_form == 0x3b &&
         (bytes - sizeof(*table)) / sizeof(table->rows[0]) >= table->count;
}

/* Returns the entry of the last function that begins at or before `code`, or NULL if there is none. */
static const uint8_t *find_entry(const table_t *table, uintptr_t code)
{
  intptr_t distance = (intptr_t)(code - (uintptr_t)table);
  uint32_t low = 0, high = table->count;

  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (table->rows[middle].code <= distance)
      low = middle + 1;
    else
      high = middle;
  }
  return low > 0 ? (const uint8_t *)table + table->rows[low - 1].entry : NULL;
}

static bool holds(const struct dl_phdr_info *info, uintptr_t code)
{
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    if (segment->p_type == PT_LOAD && code - (info->dlpi_addr + segment->p_vaddr) < segment->p_memsz)
      return true;
  }
  return false;
}

static const table_t *table_of(const struct dl_phdr_info *info)
{
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    const table_t *table = (const void *)(uintptr_t)(info->dlpi_addr + segment->p_vaddr);
    if (segment->p_type == PT_GNU_EH_FRAME)
      return is_usual(table, segment->p_memsz) ? table : NULL;
  }
  return NULL;
}

bool gp_frame_rules_longest(const struct dl_phdr_info *info, uintptr_t *ret_start, uintptr_t *ret_end)
{
  const table_t *table = table_of(info);
  uintptr_t longest = 0;

  for (uint32_t i = 1; table && i < table->count; i++) {
    uintptr_t start = (uintptr_t)table + (uintptr_t)(intptr_t)table->rows[i - 1].code;
    uintptr_t end = (uintptr_t)table + (uintptr_t)(intptr_t)table->rows[i].code;
    if (end - start <= longest || !holds(info, start))
      continue;
    longest = end - start;
    *ret_start = start;
    *ret_end = end;
  }
  return longest > 0;
}

static int look_in(struct dl_phdr_info *info, size_t size, void *arg)
{
  search_t *search = arg;
  const table_t *table = NULL;
  bool has_looked = false;

  if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof(info->dlpi_subs))
    search->counts = (gp_loader_counts_t){info->dlpi_adds, info->dlpi_subs};
  gp_bounds_t bounds = gp_bounds_of(info);
  for (size_t i = 0; i < search->count; i++) {
    uintptr_t code = (uintptr_t)search->addresses[i] - 1; /* an address inside the call instruction */
    if (code < bounds.start || code >= bounds.end || !holds(info, code))
      continue;
    if (!has_looked)
      table = table_of(info);
    has_looked = true;
    const uint8_t *entry = table ? find_entry(table, code) : NULL;
    if (entry)
      search->rules[i] = gp_cfi_rule(entry, code);
  }
  return 0;
}

gp_loader_counts_t gp_frame_rules_find(void *const *addresses, size_t count, gp_frame_rule_t *ret_rules)
{
  search_t search = {.addresses = addresses, .count = count, .rules = ret_rules};

  for (size_t i = 0; i < count; i++)
    ret_rules[i] = (gp_frame_rule_t){.cfa = GP_CFA_UNKNOWN};
  (void)gp_loader_walk(look_in, &search);
  return search.counts;
}

/* Register numbers from the processor supplement of the System V ABI. */
#define REGISTER_RBP            6
#define REGISTER_RSP            7
#define REGISTER_RETURN_ADDRESS 16

#define OPERATION_BREG_RBP 0x76 /* DW_OP_breg6: rbp plus an offset */
#define OPERATION_DEREF    0x06

#define POINTER_PCREL_SDATA4 0x1b /* the encoding of addresses that linkers use in the small code model */

#define REMEMBERED_MAX 4

/* A range of bytes to read. A read beyond the end sets `failed`, which makes all results invalid. */
typedef struct reader {
  const uint8_t *at;
  const uint8_t *end;
  bool failed;
} reader_t;

/* The place where one of the caller's registers is stored. */
typedef enum place {
  PLACE_SAME,
  PLACE_AT_CFA,
  PLACE_AT_RBP,
  PLACE_UNDEFINED, /* the return address is undefined only in the outermost frame */
  PLACE_OTHER
} place_t;

typedef struct saved {
  place_t place;
  int32_t offset;
} saved_t;

/* A row of the table that the instructions describe, with only the columns that are used here. */
typedef struct row {
  gp_cfa_t cfa;
  int32_t cfa_offset;
  saved_t rbp;
  saved_t rsp;
  saved_t return_address;
} row_t;

typedef struct common {
  uint64_t code_factor;
  int64_t data_factor;
  reader_t instructions;
} common_t;

typedef struct machine {
  row_t row;
  row_t initial;
  row_t remembered[REMEMBERED_MAX];
  size_t remembered_count;
  uintptr_t location; /* first address of the row */
} machine_t;

static uint64_t read_fixed(reader_t *reader, size_t bytes)
{
  uint64_t value = 0;
  if (reader->failed || (size_t)(reader->end - reader->at) < bytes) {
    reader->failed = true;
    return 0;
  }
  memcpy(&value, reader->at, bytes);
  reader->at += bytes;
  return value;
}

static uint64_t read_uleb(reader_t *reader)
{
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 63; shift += 7) {
    uint64_t byte = read_fixed(reader, 1);
    value |= (byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return value;
  }
  reader->failed = true;
  return 0;
}

static int64_t read_sleb(reader_t *reader)
{
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 63; shift += 7) {
    uint64_t byte = read_fixed(reader, 1);
    value |= (byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return byte & 0x40 ? (int64_t)(value | ~UINT64_C(0) << (shift + 7)) : (int64_t)value;
  }
  reader->failed = true;
  return 0;
}

static int32_t offset_of(reader_t *reader, int64_t value)
{
  if (value < INT32_MIN || value > INT32_MAX)
    reader->failed = true;
  return reader->failed ? 0 : (int32_t)value;
}

static void skip(reader_t *reader, uint64_t bytes)
{
  if (reader->failed || (uint64_t)(reader->end - reader->at) < bytes)
    reader->failed = true;
  else
    reader->at += bytes;
}

/* Returns a reader for an entry, which begins with its length. The form for lengths above 4 GiB is not
 * supported, because no compiler emits it on x86-64. */
static reader_t open_entry(const uint8_t *entry)
{
  uint32_t length;
  memcpy(&length, entry, sizeof(length));
  if (length == UINT32_MAX)
    length = 0; /* makes every read fail */
  return (reader_t){entry + sizeof(length), entry + sizeof(length) + length, false};
}

static void skip_pointer(reader_t *reader, uint8_t encoding)
{
  static const uint8_t bytes[] = {8, 0, 2, 4, 8, 0, 0, 0, 0, 0, 2, 4, 8, 0, 0, 0}; /* DW_EH_PE, low half */
  size_t length = bytes[encoding & 0x0f];
  if (length == 0 || (encoding & 0x70) == 0x50) /* the encoding is DW_EH_PE_aligned */
    reader->failed = true;
  skip(reader, length);
}

/* Reads the augmentation. Returns true for the augmentations of C, C++ and other languages, and false for
 * signal frames. */
static bool read_augmentation(reader_t *reader, const char *augmentation)
{
  bool has_encoding = false;

  if (*augmentation++ != 'z')
    return false;
  uint64_t length = read_uleb(reader);
  const uint8_t *begin = reader->at;
  for (; *augmentation; augmentation++) {
    switch (*augmentation) {
    case 'R': has_encoding = read_fixed(reader, 1) == POINTER_PCREL_SDATA4; break;
    case 'P': skip_pointer(reader, (uint8_t)read_fixed(reader, 1)); break;
    case 'L': (void)read_fixed(reader, 1); break;
    default: return false;
    }
  }
  if (reader->failed || (uint64_t)(reader->at - begin) > length)
    return false;
  skip(reader, length - (uint64_t)(reader->at - begin));
  return has_encoding && !reader->failed;
}

static bool read_common(const uint8_t *entry, common_t *ret_common)
{
  reader_t reader = open_entry(entry);

  if (read_fixed(&reader, 4) != 0) /* the entry is not a common information entry */
    return false;
  uint64_t version = read_fixed(&reader, 1);
  const char *augmentation = (const char *)reader.at;
  while (read_fixed(&reader, 1) != 0)
    ;
  uint64_t code_factor = read_uleb(&reader);
  int64_t data_factor = read_sleb(&reader);
  uint64_t return_address = version == 1 ? read_fixed(&reader, 1) : read_uleb(&reader);
  if (reader.failed || (version != 1 && version != 3) || return_address != REGISTER_RETURN_ADDRESS ||
      code_factor > 16 || data_factor < -64 || data_factor > 64 || !read_augmentation(&reader, augmentation))
    return false;
  *ret_common = (common_t){code_factor, data_factor, reader};
  return true;
}

static void put(row_t *row, uint64_t number, saved_t saved)
{
  if (number == REGISTER_RBP)
    row->rbp = saved;
  else if (number == REGISTER_RSP)
    row->rsp = saved;
  else if (number == REGISTER_RETURN_ADDRESS)
    row->return_address = saved;
}

static void restore(machine_t *machine, uint64_t number)
{
  const row_t *initial = &machine->initial;
  put(&machine->row, number,
      number == REGISTER_RBP   ? initial->rbp
      : number == REGISTER_RSP ? initial->rsp
                               : initial->return_address);
}

static void put_at_cfa(
    machine_t *machine, reader_t *reader, uint64_t number, int64_t factored, int64_t factor)
{
  if (factored < INT32_MIN || factored > INT32_MAX)
    reader->failed = true;
  else
    put(&machine->row, number, (saved_t){PLACE_AT_CFA, offset_of(reader, factored * factor)});
}

static void set_cfa(machine_t *machine, uint64_t number, int32_t offset)
{
  machine->row.cfa = number == REGISTER_RSP   ? GP_CFA_RSP
                     : number == REGISTER_RBP ? GP_CFA_RBP
                                              : GP_CFA_UNKNOWN;
  machine->row.cfa_offset = offset;
}

/* Reads an expression of the form rbp plus an offset, optionally followed by one dereference. Returns false
 * for any other expression. */
static bool read_expression(reader_t *reader, bool *ret_has_deref, int32_t *ret_offset)
{
  uint64_t length = read_uleb(reader);
  const uint8_t *begin = reader->at;
  skip(reader, length);
  if (reader->failed)
    return false;
  reader_t expression = {begin, begin + length, false};
  uint64_t operation = read_fixed(&expression, 1);
  *ret_offset = offset_of(&expression, read_sleb(&expression));
  *ret_has_deref = expression.at < expression.end;
  if (*ret_has_deref && read_fixed(&expression, 1) != OPERATION_DEREF)
    return false;
  return operation == OPERATION_BREG_RBP && !expression.failed && expression.at == expression.end;
}

static void read_cfa_expression(machine_t *machine, reader_t *reader)
{
  bool has_deref;
  int32_t offset = 0;
  bool is_known = read_expression(reader, &has_deref, &offset) && has_deref;
  if (!is_known)
    reader->failed = true;
  machine->row.cfa = GP_CFA_AT_RBP;
  machine->row.cfa_offset = offset;
}

static void read_register_expression(machine_t *machine, reader_t *reader)
{
  bool has_deref;
  int32_t offset;
  uint64_t number = read_uleb(reader);
  bool is_known = read_expression(reader, &has_deref, &offset) && !has_deref;
  put(&machine->row, number, is_known ? (saved_t){PLACE_AT_RBP, offset} : (saved_t){PLACE_OTHER, 0});
}

/* Executes a DW_CFA_... instruction whose two upper bits are 0. Instructions that advance the location are
 * executed by run() instead. */
static void step(machine_t *machine, const common_t *common, reader_t *reader, uint8_t instruction)
{
  row_t *row = &machine->row;
  bool was_expression = row->cfa == GP_CFA_AT_RBP; /* an expression has no register or offset to keep */
  uint64_t number;

  switch (instruction) {
  case 0x00: break; /* nop */
  case 0x05:        /* offset_extended */
    number = read_uleb(reader);
    put_at_cfa(machine, reader, number, (int64_t)read_uleb(reader), common->data_factor);
    break;
  case 0x06: restore(machine, read_uleb(reader)); break; /* restore_extended */
  case 0x07: put(row, read_uleb(reader), (saved_t){PLACE_UNDEFINED, 0}); break;
  case 0x08: put(row, read_uleb(reader), (saved_t){PLACE_SAME, 0}); break;
  case 0x09: /* register */
    put(row, read_uleb(reader), (saved_t){PLACE_OTHER, 0});
    (void)read_uleb(reader);
    break;
  case 0x0a: /* remember_state */
    if (machine->remembered_count == REMEMBERED_MAX)
      reader->failed = true;
    else
      machine->remembered[machine->remembered_count++] = *row;
    break;
  case 0x0b: /* restore_state */
    if (machine->remembered_count == 0)
      reader->failed = true;
    else
      *row = machine->remembered[--machine->remembered_count];
    break;
  case 0x0c: /* def_cfa */
    number = read_uleb(reader);
    set_cfa(machine, number, offset_of(reader, (int64_t)read_uleb(reader)));
    break;
  case 0x0d: /* def_cfa_register */
    set_cfa(machine, read_uleb(reader), row->cfa_offset);
    reader->failed |= was_expression;
    break;
  case 0x0e: /* def_cfa_offset */
    row->cfa_offset = offset_of(reader, (int64_t)read_uleb(reader));
    reader->failed |= was_expression;
    break;
  case 0x0f: read_cfa_expression(machine, reader); break;
  case 0x10: read_register_expression(machine, reader); break;
  case 0x14: /* val_offset */
  case 0x15: /* val_offset_sf */
    put(row, read_uleb(reader), (saved_t){PLACE_OTHER, 0});
    (void)read_uleb(reader); /* reading as unsigned is sufficient: a signed number has the same length */
    break;
  case 0x16: /* val_expression */
    put(row, read_uleb(reader), (saved_t){PLACE_OTHER, 0});
    skip(reader, read_uleb(reader));
    break;
  case 0x2e: (void)read_uleb(reader); break; /* GNU_args_size, which only exception handlers need */
  default: reader->failed = true;
  }
}

/* Executes the instructions up to the last row that begins at or before `code`. Returns false if an
 * instruction is unknown. */
static bool run(machine_t *machine, const common_t *common, reader_t reader, uintptr_t code)
{
  while (!reader.failed && reader.at < reader.end) {
    uint8_t instruction = (uint8_t)read_fixed(&reader, 1);
    uint64_t operand = instruction & 0x3f;
    uint64_t advance = 0;
    if (instruction >> 6 == 1)
      advance = operand;
    else if (instruction >> 6 == 2)
      put_at_cfa(machine, &reader, operand, (int64_t)read_uleb(&reader), common->data_factor);
    else if (instruction >> 6 == 3)
      restore(machine, operand);
    else if (instruction >= 0x02 && instruction <= 0x04) /* advance_loc1, 2, 4 */
      advance = read_fixed(&reader, (size_t)1 << (instruction - 2));
    else
      step(machine, common, &reader, instruction);
    machine->location += advance * common->code_factor;
    if (machine->location > code)
      break;
  }
  return !reader.failed;
}

static gp_frame_rule_t rule_of(const row_t *row)
{
  static const gp_rbp_t places[] = {[PLACE_SAME] = GP_RBP_SAME,
      [PLACE_AT_CFA] = GP_RBP_AT_CFA,
      [PLACE_AT_RBP] = GP_RBP_AT_RBP,
      [PLACE_UNDEFINED] = GP_RBP_UNKNOWN,
      [PLACE_OTHER] = GP_RBP_UNKNOWN};
  const gp_frame_rule_t unknown = {.cfa = GP_CFA_UNKNOWN};

  if (row->return_address.place == PLACE_UNDEFINED)
    return (gp_frame_rule_t){.cfa = GP_CFA_OUTERMOST};
  if (row->return_address.place != PLACE_AT_CFA ||
      row->return_address.offset != -(int32_t)sizeof(uintptr_t) || row->rsp.place != PLACE_SAME)
    return unknown;
  return (gp_frame_rule_t){row->cfa_offset, row->rbp.offset, row->cfa, places[row->rbp.place]};
}

gp_frame_rule_t gp_cfi_rule(const uint8_t *entry, uintptr_t code)
{
  const gp_frame_rule_t unknown = {.cfa = GP_CFA_UNKNOWN};
  reader_t reader = open_entry(entry);
  machine_t machine = {.location = 0};
  common_t common;

  const uint8_t *at = reader.at;
  uint64_t distance = read_fixed(&reader, 4);
  if (reader.failed || distance == 0 || !read_common(at - distance, &common))
    return unknown;
  uintptr_t start = (uintptr_t)reader.at;
  start += (uintptr_t)(int64_t)(int32_t)(uint32_t)read_fixed(&reader, 4);
  uint64_t bytes = read_fixed(&reader, 4);
  skip(&reader, read_uleb(&reader)); /* skips the augmentation, which is for exception handlers */
  if (reader.failed || code < start || code - start >= bytes)
    return unknown;
  if (!run(&machine, &common, common.instructions, UINTPTR_MAX))
    return unknown;
  machine.initial = machine.row;
  machine.location = start;
  return run(&machine, &common, reader, code) ? rule_of(&machine.row) : unknown;
}
