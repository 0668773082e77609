/*
 * Lines of Python: tables as CPython writes them, made for instructions with random lines, by the format's
 * description.
 */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "format/python_code.h"
#include "format/stack_log.h"
#include "test/pool/check_main.h"

#define UNITS 400

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
  random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(random_state >> 33) % limit;
}

typedef struct written {
  gp_code_record_t *code;
  uint8_t table[16 * UNITS];
  uint32_t length;
  int32_t lines[UNITS]; /* of each instruction; 0: none */
} written_t;

static written_t written;

static void put(uint8_t byte)
{
  written.table[written.length++] = byte;
}

static void put_number(uint32_t number)
{
  for (; number >= 64; number >>= 6)
    put((uint8_t)(64 | (number & 63)));
  put((uint8_t)number);
}

static void put_signed(int32_t number)
{
  put_number(number < 0 ? ((uint32_t)-number << 1) | 1 : (uint32_t)number << 1);
}

static void put_location(int32_t step, bool has_line, uint32_t units)
{
  /* 0 to 9 are without a step, 10 to 12 have it in their kind, 13 and 14 as a number; 15 has no line */
  uint32_t kind = !has_line                ? 15
                  : step == 0              ? random_below(11)
                  : step == 1 || step == 2 ? 10 + (uint32_t)step
                                           : 13;

  if (has_line && random_below(4) == 0)
    kind = 13 + random_below(2);
  put((uint8_t)(128 | kind << 3 | (units - 1)));
  if (kind == 13 || kind == 14)
    put_signed(step);
  if (kind == 14) { /* the end line, and columns */
    put_number(random_below(3));
    put_number(random_below(300));
    put_number(random_below(300));
  } else if (kind < 13) {
    put((uint8_t)random_below(128));
    if (kind >= 10)
      put((uint8_t)random_below(128));
  }
}

/* Distances of bytes are two a unit. Longer ones, and larger steps, take several pairs. */
static void put_step(int32_t step, uint32_t units)
{
  for (; units > 127; units -= 127) {
    put(254);
    put(0);
  }
  put((uint8_t)(2 * units));
  for (; step > 127 || step<-127; step -= step> 0 ? 127 : -127) {
    put((uint8_t)(step > 0 ? 127 : -127));
    put(0);
  }
  put((uint8_t)step);
}

/* A range begins with its step; a larger step has an empty range before it. */
static void put_range(int32_t step, bool has_line, uint32_t units)
{
  for (; has_line && (step > 127 || step < -127); step -= step > 0 ? 127 : -127) {
    put(0);
    put((uint8_t)(step > 0 ? 127 : -127));
  }
  put((uint8_t)(2 * units));
  put(has_line ? (uint8_t)step : 0x80);
}

static void write_table(gp_line_format_t format)
{
  int32_t line = 1 + (int32_t)random_below(3000), first = line;
  uint32_t longest = format == GP_LINES_LOCATIONS ? 8 : format == GP_LINES_RANGES ? 127 : 300, units = 0;

  written.length = 0;
  for (uint32_t at = 0; at < UNITS; at += units) {
    bool has_line = format == GP_LINES_STEPS || random_below(8) != 0;
    int32_t step = random_below(3) == 0 ? 0 : (int32_t)random_below(random_below(4) == 0 ? 900 : 5) - 2;
    if (line + step < 1)
      step = 0;
    uint32_t before = units;
    units = 1 + random_below(random_below(4) == 0 ? longest : 8);
    if (format == GP_LINES_LOCATIONS)
      put_location(step, has_line, units);
    else if (format == GP_LINES_RANGES)
      put_range(step, has_line, units);
    else if (at > 0) /* the first range has the first line */
      put_step(step, before);
    if (has_line && (at > 0 || format != GP_LINES_STEPS))
      line += step;
    for (uint32_t i = at; i < at + units && i < UNITS; i++)
      written.lines[i] = has_line ? line : 0;
  }
  /* Of exactly that size, so that a sanitizer sees a step beyond it. */
  written.code = malloc(sizeof(*written.code) + 5 + written.length);
  *written.code = (gp_code_record_t){.table_length = written.length,
      .first_line = first,
      .line_format = format,
      .name_length = 2,
      .file_length = 3};
  memcpy(written.code->text, "abc.d", 5);
  memcpy(written.code->text + 5, written.table, written.length);
}

START_TEST(test_lines)
{
  for (random_state = 1; random_state < 300; random_state++) {
    uint64_t seed = random_state;
    write_table((gp_line_format_t)_i);
    for (uint32_t i = 0; i < UNITS; i++)
      ck_assert_msg(gp_code_line(written.code, i) == written.lines[i], "seed %lu, instruction %u: %d, not %d",
          (unsigned long)seed, i, gp_code_line(written.code, i), written.lines[i]);
    (void)gp_code_line(written.code, GP_FRAME_INSTRUCTION_NONE);
    free(written.code);
    random_state = seed;
  }
}
END_TEST

START_TEST(test_lines_of_any_bytes)
{
  for (random_state = 1; random_state < 300; random_state++) {
    uint64_t seed = random_state;
    write_table((gp_line_format_t)_i);
    uint32_t cut = random_below(written.length);
    gp_code_record_t *code = malloc(sizeof(*code) + 5 + cut);
    memcpy(code, written.code, sizeof(*code) + 5 + cut);
    code->table_length = cut;
    for (uint32_t i = 0; i < cut; i++)
      code->text[5 + i] ^= random_below(10) == 0 ? (char)random_below(256) : 0;
    for (uint32_t i = 0; i < UNITS; i++)
      ck_assert_int_ge(gp_code_line(code, i), 0);
    free(code);
    free(written.code);
    random_state = seed;
  }
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("python lines");
  TCase *tables = tcase_create("tables");
  tcase_add_loop_test(tables, test_lines, 0, GP_LINES_COUNT);
  tcase_add_loop_test(tables, test_lines_of_any_bytes, 0, GP_LINES_COUNT);
  suite_add_tcase(suite, tables);
  return gp_check_main(suite);
}
