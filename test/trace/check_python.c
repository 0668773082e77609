/*
 * Python frames without Python: code objects made here, and stacks in which the frames of both kinds meet.
 * check_python_lines.c has their lines, test/interpose/test_python_frames.py has the interpreters.
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "fake_engine.h"
#include "test/pool/check_main.h"
#include "trace/stacks/python_layout.h"
#include "trace/stacks/python_codes.h"
#include "trace/stacks/stacks.h"

/*
 * Code objects, as this layout has them
 */

typedef struct text {
  uint64_t head[2];
  uint64_t length;
  uint64_t hash;
  uint32_t state;
  uint32_t padding;
  uint8_t characters[256]; /* ASCII at 40, else at 56 */
} text_t;

typedef struct table {
  uint64_t head[2];
  uint64_t length;
  uint64_t hash;
  uint8_t bytes[4096];
} table_t;

typedef struct code {
  uint64_t head[2];
  text_t *name;
  text_t *file;
  table_t *table;
  int32_t first_line;
} code_t;

static const gp_python_t layout = {.object_type = 8,
    .text_kind = 2,
    .code_name = offsetof(code_t, name),
    .code_file = offsetof(code_t, file),
    .code_table = offsetof(code_t, table),
    .code_first_line = offsetof(code_t, first_line),
    .ascii_bytes = 40,
    .other_bytes = 56,
    .line_format = GP_LINES_STEPS,
    .loop = 0x10000,
    .loop_end = 0x11000,
    .start = 0x10000,
    .end = 0x20000};

static gp_python_t parted;
static gp_region_t region;
static gp_stacks_t stacks;
static text_t name_text, file_text;
static table_t line_table;
static code_t the_code;

static void set_text(text_t *text, const void *characters, size_t length, unsigned character)
{
  bool is_ascii = character == 1;
  unsigned bytes = character ? character : 1; /* 0: Latin-1 */
  *text = (text_t){
      .length = length, .hash = GP_PYTHON_NO_HASH, .state = bytes << 2 | 1u << 5 | (is_ascii ? 1u << 6 : 0)};
  memcpy((char *)text + (is_ascii ? 40 : 56), characters, length * bytes);
}

static void setup(void)
{
  const gp_region_plan_t plan = {.root = "none",
      .capacity = {[GP_SECTION_STACKS] = GP_STACKS_LOG_BYTES,
          [GP_SECTION_MODULES] = GP_MODULES_LOG_BYTES,
          [GP_SECTION_CODES] = GP_CODE_LOG_BYTES}};
  fake_reset();
  ck_assert(gp_region_init(&region, &plan));
  ck_assert(gp_stacks_init(&stacks, &region));
  set_text(&name_text, "A.f", 3, 1);
  set_text(&file_text, "/x/y.py", 7, 1);
  line_table = (table_t){.length = 2, .hash = GP_PYTHON_NO_HASH, .bytes = {10, 1}};
  the_code = (code_t){.name = &name_text, .file = &file_text, .table = &line_table, .first_line = 7};
}

static void teardown(void)
{
  gp_stacks_fini(&stacks);
  gp_region_fini(&region);
}

static uint32_t intern(const code_t *code)
{
  gp_code_file_t file = {0};
  return gp_codes_find(&stacks.codes, &layout, (uintptr_t)code, &file);
}

static const gp_code_record_t *record(uint32_t index)
{
  const gp_code_record_t *at = NULL;
  do
    at = gp_code_log_next(stacks.codes.log, stacks.codes.log_bytes, at);
  while (at && index-- > 0);
  return at;
}

static void expect_text(uint32_t index, const char *name, const char *file)
{
  const gp_code_record_t *at = record(index);
  ck_assert_ptr_nonnull(at);
  ck_assert_uint_eq(at->name_length, strlen(name));
  ck_assert_mem_eq(at->text, name, strlen(name));
  ck_assert_uint_eq(at->file_length, strlen(file));
  ck_assert_mem_eq(at->text + at->name_length, file, strlen(file));
}

/* Whatever is freed, and comes back at the same address. */
START_TEST(test_code_is_what_it_says)
{
  code_t elsewhere = the_code;

  ck_assert_uint_eq(intern(&the_code), 0);
  ck_assert_uint_eq(intern(&elsewhere), 0);
  set_text(&name_text, "A.g", 3, 1);
  ck_assert_uint_eq(intern(&the_code), 1);
  set_text(&file_text, "/x/z.py", 7, 1);
  ck_assert_uint_eq(intern(&the_code), 2);
  the_code.first_line = 8;
  ck_assert_uint_eq(intern(&the_code), 3);
  line_table.bytes[1] = 2;
  ck_assert_uint_eq(intern(&the_code), 4);
  line_table.length = 1000;
  ck_assert_uint_eq(intern(&the_code), 5);
  for (size_t i = 0; i < 1000; i++) {
    line_table.bytes[i] ^= 1;
    ck_assert_uint_eq(intern(&the_code), 6 + i);
  }
  expect_text(0, "A.f", "/x/y.py");
  expect_text(1, "A.g", "/x/y.py");
  expect_text(5, "A.g", "/x/z.py");
  ck_assert_int_eq(gp_code_line(record(0), 0), 7);
  ck_assert_int_eq(gp_code_line(record(0), 5), 8);
  ck_assert_int_eq(gp_code_line(record(4), 5), 10);
}
END_TEST

/* The interpreter's hashes speak for contents that are not read. */
START_TEST(test_hashes_speak_for_contents)
{
  name_text.hash = 5;
  line_table.hash = 6;
  ck_assert_uint_eq(intern(&the_code), 0);
  line_table.bytes[1] = 2;
  ck_assert_uint_eq(intern(&the_code), 0);
  line_table.hash = 7;
  ck_assert_uint_eq(intern(&the_code), 1);
  set_text(&name_text, "A.g", 3, 1);
  ck_assert_uint_eq(intern(&the_code), 2);
  name_text.hash = 8; /* looked up since */
  ck_assert_uint_eq(intern(&the_code), 2);
}
END_TEST

/* A chain of two frames, of an interpreter with one thread. */

typedef struct versioned_code {
  code_t code;
  uint32_t version;
} versioned_code_t;

typedef struct frame {
  code_t *code;
  struct frame *previous;
  uintptr_t instruction;
} frame_t;

static versioned_code_t outer_code, inner_code;
static frame_t outer_frame, inner_frame;
static frame_t *first_frame;
static _Atomic uint64_t generation;
static _Atomic uint32_t copies_generation;

static void *the_state(void)
{
  return &first_frame;
}

static gp_python_t chain_layout(void)
{
  gp_python_t chain = layout;

  outer_code = inner_code = (versioned_code_t){.code = the_code, .version = 3};
  outer_code.version = 4;
  outer_frame = (frame_t){.code = &outer_code.code, .instruction = (uintptr_t)&outer_code + 10};
  inner_frame = (frame_t){&inner_code.code, &outer_frame, (uintptr_t)&inner_code + 20};
  first_frame = &inner_frame;
  chain.thread_state = the_state;
  chain.state_via = UINT16_MAX;
  chain.frame_code = offsetof(frame_t, code);
  chain.frame_previous = offsetof(frame_t, previous);
  chain.frame_instruction = offsetof(frame_t, instruction);
  chain.chain = GP_PYTHON_NONES;
  return chain;
}

static void expect_other(const gp_python_t *chain, uint64_t *digest)
{
  uint64_t now = gp_python_walk_digest(chain, 64);
  ck_assert(now != 0 && now != *digest);
  ck_assert_uint_eq(gp_python_walk_digest(chain, 64), now);
  *digest = now;
}

START_TEST(test_walks_are_known_with_a_proof)
{
  gp_python_t chain = chain_layout();
  uint64_t digest = 0;

  ck_assert_uint_eq(gp_python_walk_digest(&chain, 64), 0);
  chain.code_version = offsetof(versioned_code_t, version);
  expect_other(&chain, &digest);
  outer_code.version = 5; /* freed, and another one is there */
  expect_other(&chain, &digest);
  outer_frame.instruction += 2;
  expect_other(&chain, &digest);
  first_frame = &outer_frame;
  expect_other(&chain, &digest);
  outer_code.version = 0; /* the interpreter has given all that it has */
  ck_assert_uint_eq(gp_python_walk_digest(&chain, 64), 0);
  first_frame = NULL;
  ck_assert_uint_eq(gp_python_walk_digest(&chain, 64), 0);
  first_frame = &inner_frame;
  chain.code_version = 0;
  chain.generation = &generation;
  expect_other(&chain, &digest);
  generation++; /* some code object is freed */
  expect_other(&chain, &digest);
  chain.copies_generation = &copies_generation;
  expect_other(&chain, &digest);
  copies_generation++; /* a thread ends, and its copies may be another's */
  expect_other(&chain, &digest);
}
END_TEST

/*
 * Copies of instructions, as a free-threaded interpreter's threads have them: the frames run the first copy
 */

typedef struct copied_code {
  uint64_t head[2];
  uint64_t size; /* instructions */
  text_t *name;
  text_t *file;
  table_t *table;
  int32_t first_line;
  _Atomic uintptr_t copies;
  uint16_t instructions[8];
} copied_code_t;

typedef struct copied_frame {
  copied_code_t *code;
  struct copied_frame *previous;
  uint16_t *instruction;
  int32_t number;
} copied_frame_t;

#define PAGE  4096
#define PAGES 20000

static uint16_t copy[8];
static copied_code_t copied_code;
static copied_frame_t copied_frame;
static copied_frame_t *first_copied;
static _Atomic bool is_over;

static void *copied_state(void)
{
  return &first_copied;
}

/* An array in page i of those, so that reading it is a fault once it is freed. */
static uintptr_t new_copies(char *pages, size_t i)
{
  uintptr_t *array = (uintptr_t *)(pages + i * PAGE);
  ck_assert_int_eq(mprotect(array, PAGE, PROT_READ | PROT_WRITE), 0);
  array[0] = 3;
  array[2] = (uintptr_t)copy;
  return (uintptr_t)array;
}

static char *reserve(void)
{
  char *pages = mmap(NULL, (size_t)PAGE * PAGES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(pages, MAP_FAILED);
  return pages;
}

static gp_python_t copied_layout(char *pages)
{
  gp_python_t made = layout;

  copied_code = (copied_code_t){
      .size = 8, .name = &name_text, .file = &file_text, .table = &line_table, .first_line = 7};
  atomic_store(&copied_code.copies, new_copies(pages, 0));
  copied_frame = (copied_frame_t){.code = &copied_code, .instruction = &copy[5], .number = 1};
  first_copied = &copied_frame;
  made.thread_state = copied_state;
  made.state_via = UINT16_MAX;
  made.chain = GP_PYTHON_NONES;
  made.frame_code = offsetof(copied_frame_t, code);
  made.frame_previous = offsetof(copied_frame_t, previous);
  made.frame_instruction = offsetof(copied_frame_t, instruction);
  made.frame_copy = offsetof(copied_frame_t, number);
  made.code_name = offsetof(copied_code_t, name);
  made.code_file = offsetof(copied_code_t, file);
  made.code_table = offsetof(copied_code_t, table);
  made.code_first_line = offsetof(copied_code_t, first_line);
  made.code_copies = offsetof(copied_code_t, copies);
  made.code_start = offsetof(copied_code_t, instructions);
  return made;
}

static void expect_instruction(const gp_python_t *python, uint32_t expected)
{
  uint64_t word;
  ck_assert_uint_eq(gp_python_frames(&stacks.codes, python, &word, 1), 1);
  ck_assert_uint_eq(gp_frame_instruction(word), expected);
}

START_TEST(test_a_copy_of_instructions)
{
  char *pages = reserve();
  gp_python_t python = copied_layout(pages);

  expect_instruction(&python, 5);
  copied_frame.instruction = &copied_code.instructions[3]; /* the first thread's */
  expect_instruction(&python, 3);
  copied_frame.instruction = (uint16_t *)pages; /* in neither */
  expect_instruction(&python, GP_FRAME_INSTRUCTION_NONE);
  copied_frame.instruction = &copy[7];
  copied_frame.number = 2; /* a copy that is not there */
  expect_instruction(&python, GP_FRAME_INSTRUCTION_NONE);
  copied_frame.number = 3; /* the array has no room for it */
  expect_instruction(&python, GP_FRAME_INSTRUCTION_NONE);
  copied_frame.number = 1 << 20; /* not readable */
  expect_instruction(&python, GP_FRAME_INSTRUCTION_NONE);
  copied_frame.number = 1;
  expect_instruction(&python, 7);
  (void)munmap(pages, (size_t)PAGE * PAGES);
  expect_instruction(&python, GP_FRAME_INSTRUCTION_NONE);
}
END_TEST

static void *make_copies(void *pages)
{
  for (size_t i = 1; i < PAGES; i++) {
    uintptr_t old = atomic_exchange(&copied_code.copies, new_copies(pages, i));
    *(_Atomic uintptr_t *)(old + 16) = (uintptr_t)copy + 2; /* another user of the memory writes to it */
    (void)mprotect((void *)old, PAGE, PROT_NONE);
  }
  atomic_store(&is_over, true);
  return NULL;
}

/* Other threads make the array anew and free the old one while it is read. */
START_TEST(test_copies_that_are_made_anew)
{
  char *pages = reserve();
  gp_python_t python = copied_layout(pages);
  pthread_t thread;
  int found = 0;

  atomic_store(&is_over, false);
  ck_assert_int_eq(pthread_create(&thread, NULL, make_copies, pages), 0);
  while (!atomic_load(&is_over)) {
    uintptr_t start = gp_python_copy_of(&python, (uintptr_t)&copied_frame, (uintptr_t)&copied_code);
    ck_assert(start == (uintptr_t)copy || start == 0);
    found += start != 0;
  }
  pthread_join(thread, NULL);
  ck_assert_int_gt(found, 0);
  (void)munmap(pages, (size_t)PAGE * PAGES);
}
END_TEST

START_TEST(test_walks_are_remembered)
{
  ck_assert_uint_eq(gp_stacks_recall(&stacks, 7, 1001), 0);
  gp_stacks_remember(&stacks, 7, 1001, 5);
  gp_stacks_remember(&stacks, 8, 1001, 6);
  gp_stacks_remember(&stacks, 8, 0, 7); /* no digest */
  ck_assert_uint_eq(gp_stacks_recall(&stacks, 7, 1001), 5);
  ck_assert_uint_eq(gp_stacks_recall(&stacks, 8, 1001), 6);
  ck_assert_uint_eq(gp_stacks_recall(&stacks, 8, 1003), 0);
  ck_assert_uint_eq(gp_stacks_recall(&stacks, 8, 0), 0);
}
END_TEST

START_TEST(test_names_are_utf_8)
{
  static const uint8_t latin[] = {'c', 0xe9};
  static const uint16_t two[] = {'a', 0x4e2d, 0xe9};
  static const uint32_t four[] = {0x1f600, 'b', 0x7ff, 0x800};

  set_text(&name_text, latin, 2, 0);
  set_text(&file_text, two, 3, 2);
  expect_text(intern(&the_code), "c\u00e9", "a\u4e2d\u00e9");
  set_text(&name_text, four, 4, 4);
  expect_text(intern(&the_code), "\U0001f600b\u07ff\u0800", "a\u4e2d\u00e9");
}
END_TEST

START_TEST(test_a_full_log_names_no_more)
{
  ck_assert_uint_eq(intern(&the_code), 0);
  for (uint32_t i = 1; i < GP_CODES_MAX + 10; i++) {
    the_code.first_line = (int32_t)i + 100;
    ck_assert_uint_eq(intern(&the_code), i < GP_CODES_MAX ? i : GP_FRAME_CODE_NONE);
  }
}
END_TEST

/* Stacks */

#define PYTHON(code, instruction, is_entry) gp_frame_pack_python(code, instruction, is_entry)

static const gp_loader_counts_t no_counts;

static size_t frames_of(uint32_t number, uint64_t *ret_frames)
{
  gp_stack_logs_t logs = gp_stacks_logs(&stacks);
  gp_stack_view_t stack = {0};
  uint32_t at = 0;
  while (number-- > 0)
    ck_assert(gp_stack_log_next(logs.stacks, logs.stack_bytes, &at, &stack));
  memcpy(ret_frames, stack.frames, stack.count * sizeof(*ret_frames));
  return stack.count;
}

static uint32_t intern_stack(
    const uintptr_t *native, size_t native_count, const uint64_t *words, size_t count, size_t depth)
{
  uint32_t number = gp_stacks_intern(&stacks, native, native_count, no_counts);
  return gp_stacks_intern_python(&stacks, &layout, number, words, count, depth);
}

static void expect_stack(uint32_t number, const uint64_t *expected, size_t count)
{
  uint64_t frames[64];
  ck_assert_uint_eq(frames_of(number, frames), count);
  for (size_t i = 0; i < count; i++)
    ck_assert_msg(frames[i] == expected[i], "frame %zu: 0x%lx, not 0x%lx", i, (unsigned long)frames[i],
        (unsigned long)expected[i]);
}

/* An extension calls back into Python: its frames are between those of the two runs. */
START_TEST(test_runs_take_the_loops_places)
{
  const uintptr_t native[] = {0x1001, 0x15001, 0x10101, 0x15002, 0x2001, 0x10201, 0x15003, 0x3001};
  const uint64_t words[] = {PYTHON(1, 5, false), PYTHON(2, 6, true), PYTHON(3, 7, true)};
  const uint64_t merged[] = {0x1000, words[0], words[1], 0x2000, words[2], 0x3000};

  expect_stack(intern_stack(native, 8, words, 3, 64), merged, 6);
}
END_TEST

START_TEST(test_a_run_without_frames)
{
  const uintptr_t native[] = {0x1001, 0x10101, 0x2001, 0x2011, 0x10201, 0x3001, 0x4001};
  const uint64_t words[] = {GP_PYTHON_EMPTY_RUN, PYTHON(3, 7, true)};
  const uint64_t merged[] = {0x1000, 0x2000, 0x2010, words[1], 0x3000, 0x4000};

  uint32_t number = intern_stack(native, 7, words, 2, 64);
  expect_stack(number, merged, 6);
  ck_assert_uint_eq(intern_stack(native, 7, words, 2, 64), number);
  ck_assert_uint_ne(intern_stack(native, 7, words + 1, 1, 64), number);
}
END_TEST

START_TEST(test_more_runs_than_loops)
{
  const uintptr_t native[] = {0x1001, 0x10101, 0x2001, 0x3001};
  const uint64_t words[] = {PYTHON(1, 5, true), PYTHON(2, 6, true), PYTHON(3, 7, true)};
  const uint64_t whole[] = {0x1000, words[0], words[1], words[2], 0x2000, 0x3000};
  const uint64_t alone[] = {words[0], words[1], words[2]};
  const uint64_t others[] = {PYTHON(1, 6, true), PYTHON(2, 6, true), PYTHON(3, 7, true)};
  const uint64_t cut[] = {0x1000, others[0], 0x2000};

  expect_stack(intern_stack(native, 4, words, 3, 64), whole, 6);
  expect_stack(gp_stacks_intern_python(&stacks, &layout, 0, words, 3, 64), alone, 3);
  expect_stack(intern_stack(native, 4, others, 3, 3), cut, 3);
}
END_TEST

/* -X perf: code in no module calls the loop, and is called by the interpreter. Other such code stays, as does
 * a library that calls the loop itself. */
START_TEST(test_trampolines_give_way)
{
  const uintptr_t native[] = {0x1001, 0x10101, 0x5001, 0x15001, 0x2001, 0x15003, 0x10201, 0x5011};
  const uint64_t words[] = {PYTHON(1, 5, true), PYTHON(2, 6, true)};
  const uint64_t merged[] = {0x1000, words[0], 0x2000, words[1]};
  const uintptr_t made[] = {0x1001, 0x10101, 0x5001, 0x2001, 0x15001, 0x5011, 0x10201, 0x15002};
  const uint64_t kept[] = {0x1000, words[0], 0x5000, 0x2000, 0x5010, words[1]};

  expect_stack(intern_stack(native, 8, words, 2, 64), merged, 4);
  expect_stack(intern_stack(made, 8, words, 2, 64), kept, 6);

  const uintptr_t library[] = {0x1001, 0x10101, (uintptr_t)&intern_stack, 0x15001, 0x10201, 0x15003};
  const gp_loader_counts_t counts = {1, 1};
  uint64_t frames[64];
  uint32_t number = gp_stacks_intern(&stacks, library, 6, counts);
  ck_assert_uint_eq(frames_of(gp_stacks_intern_python(&stacks, &layout, number, words, 2, 64), frames), 4);
  ck_assert_uint_eq(gp_frame_address(frames[2]), (uintptr_t)&intern_stack - 1);
  ck_assert_int_ge(gp_frame_module(frames[2]), 0);
}
END_TEST

START_TEST(test_more_loops_than_runs)
{
  const uintptr_t native[] = {0x1001, 0x10101, 0x2001, 0x2011, 0x10201, 0x3001, 0x4001};
  const uint64_t words[] = {PYTHON(1, 5, true)};
  const uint64_t merged[] = {0x1000, words[0], 0x2000, 0x2010, 0x3000, 0x4000};

  expect_stack(intern_stack(native, 7, words, 1, 64), merged, 6);
}
END_TEST

/* The longest function stands for the loop where that leaves no run without a frame. */
START_TEST(test_a_part_of_the_loop_elsewhere)
{
  const uintptr_t native[] = {0x1001, 0x12001, 0x2001, 0x2011, 0x12101, 0x3001, 0x4001};
  const uint64_t words[] = {PYTHON(1, 5, true), PYTHON(3, 7, true)};
  const uint64_t merged[] = {0x1000, words[0], 0x2000, 0x2010, words[1], 0x3000, 0x4000};
  const uintptr_t other[] = {0x1001, 0x12001, 0x2001, 0x10101, 0x3001, 0x4001};
  const uint64_t whole[] = {0x1000, 0x2000, words[1], 0x3000, 0x4000};

  parted = layout;
  parted.part = 0x12000;
  parted.part_end = 0x13000;
  uint32_t first = gp_stacks_intern(&stacks, native, 7, no_counts);
  expect_stack(gp_stacks_intern_python(&stacks, &parted, first, words, 2, 64), merged, 7);
  uint32_t second = gp_stacks_intern(&stacks, other, 6, no_counts);
  expect_stack(gp_stacks_intern_python(&stacks, &parted, second, words + 1, 1, 64), whole, 5);
}
END_TEST

/* Tail calls: the loop calls an instruction's function, which calls the program's. Both are one run, also
 * where that is the longest function, in a stack that is cut. */
START_TEST(test_a_loop_with_calls)
{
  const uintptr_t native[] = {0x1001, 0x12001, 0x10101, 0x2001, 0x2011, 0x12101, 0x10101, 0x3001, 0x4001};
  const uint64_t words[] = {PYTHON(1, 5, true), PYTHON(3, 7, true), PYTHON(4, 8, true), PYTHON(5, 9, true)};
  const uint64_t cut[] = {0x1000, words[0], 0x2000, 0x2010, words[1], 0x3000, 0x4000, words[2], words[3]};

  parted = layout;
  parted.part = 0x12000;
  parted.part_end = 0x13000;
  uint32_t number = gp_stacks_intern(&stacks, native, 9, no_counts);
  expect_stack(gp_stacks_intern_python(&stacks, &parted, number, words, 4, 9), cut, 9);
}
END_TEST

START_TEST(test_another_line_is_another_stack)
{
  const uintptr_t native[] = {0x1001, 0x10101, 0x2001}, other[] = {0x1001, 0x10101, 0x2002};
  uint64_t words[] = {PYTHON(1, 5, true)};

  uint32_t first = intern_stack(native, 3, words, 1, 64);
  ck_assert_uint_eq(intern_stack(native, 3, words, 1, 64), first);
  words[0] = PYTHON(1, 6, true);
  uint32_t second = intern_stack(native, 3, words, 1, 64);
  ck_assert_uint_ne(second, first);
  uint32_t third = intern_stack(other, 3, words, 1, 64);
  ck_assert(third != second && third != first);
  ck_assert_uint_eq(intern_stack(native, 3, words, 1, 64), second);
  ck_assert_uint_eq(intern_stack(other, 3, words, 1, 64), third);
}
END_TEST

#define THREADS 4
#define GAPS    8 /* between holds of locks */
#define SAME    2000

static uint32_t numbers[THREADS][SAME];

static void *intern_many(void *arg)
{
  uint32_t *mine = arg;
  for (int round = 0; round < 3; round++) {
    for (uint32_t i = 0; i < SAME; i++) {
      code_t code = the_code;
      code.first_line = (int32_t)(i + 1);
      const uint64_t words[] = {PYTHON(intern(&code), 1, true), PYTHON(0, i, true)};
      uint32_t number = gp_stacks_intern_python(&stacks, &layout, 0, words, 2, 64);
      ck_assert(round == 0 || mine[i] == number);
      mine[i] = number;
    }
  }
  return NULL;
}

START_TEST(test_threads_agree)
{
  pthread_t threads[THREADS];
  gp_lock_leave_gaps(GAPS);
  for (int t = 0; t < THREADS; t++)
    ck_assert_int_eq(pthread_create(&threads[t], NULL, intern_many, numbers[t]), 0);
  for (int t = 0; t < THREADS; t++)
    ck_assert_int_eq(pthread_join(threads[t], NULL), 0);
  for (int t = 1; t < THREADS; t++)
    ck_assert_mem_eq(numbers[t], numbers[0], sizeof(numbers[0]));
  ck_assert_uint_eq(stacks.log->stack_count, SAME);
  ck_assert_uint_eq(stacks.codes.log->code_count, SAME);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("python");
  TCase *tests = tcase_create("all");
  tcase_add_checked_fixture(tests, setup, teardown);
  tcase_add_test(tests, test_code_is_what_it_says);
  tcase_add_test(tests, test_hashes_speak_for_contents);
  tcase_add_test(tests, test_walks_are_known_with_a_proof);
  tcase_add_test(tests, test_walks_are_remembered);
  tcase_add_test(tests, test_a_copy_of_instructions);
  tcase_add_test(tests, test_copies_that_are_made_anew);
  tcase_add_test(tests, test_names_are_utf_8);
  tcase_add_test(tests, test_a_full_log_names_no_more);
  tcase_add_test(tests, test_runs_take_the_loops_places);
  tcase_add_test(tests, test_a_run_without_frames);
  tcase_add_test(tests, test_more_runs_than_loops);
  tcase_add_test(tests, test_more_loops_than_runs);
  tcase_add_test(tests, test_trampolines_give_way);
  tcase_add_test(tests, test_a_part_of_the_loop_elsewhere);
  tcase_add_test(tests, test_a_loop_with_calls);
  tcase_add_test(tests, test_another_line_is_another_stack);
  tcase_add_test(tests, test_threads_agree);
  suite_add_tcase(suite, tests);
  return gp_check_main(suite);
}
