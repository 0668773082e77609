/*
 * Names of frames: of this very program, whose addresses and build-id are known.
 */
#include <check.h>
#include <elf.h>
#include <link.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/pool/check_main.h"
#include "test/tools/symbols_sample.h"
#include "tools/read/native/snapshot_reader.h"
#include "tools/symbols/frame_parts.h"
#include "tools/symbols/stack_owners.h"
#include "tools/symbols/symbols.h"
#include "tools/symbols/symbols_open.h"

/* A snapshot of these frames, one stack of all of them; module 0 is this program. */
typedef struct self {
  uint64_t bias;
  char build_id[129];
} self_t;

static int find_self(struct dl_phdr_info *info, size_t size, void *arg)
{
  self_t *self = arg;
  (void)size;
  self->bias = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const char *at = (const char *)info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    const char *end = at + info->dlpi_phdr[i].p_memsz;
    while (info->dlpi_phdr[i].p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) <= end) {
      const ElfW(Nhdr) *note = (const void *)at;
      const unsigned char *bits = (const void *)(at + sizeof(*note) + ((note->n_namesz + 3u) & ~3u));
      for (unsigned k = 0; note->n_type == NT_GNU_BUILD_ID && k < note->n_descsz; k++)
        snprintf(self->build_id + 2 * k, 3, "%02x", bits[k]);
      at = (const char *)bits + ((note->n_descsz + 3u) & ~3u);
    }
  }
  return 1; /* the first is the program */
}

static gp_snapshot_t *snapshot_of(
    const uint64_t *addresses, size_t count, const char *path, const char *build_id)
{
  self_t self = {0};
  char text[8192];
  char program[PATH_MAX] = "";
  gp_snapshot_error_t error;
  FILE *file = fmemopen(text, sizeof(text), "w");

  dl_iterate_phdr(find_self, &self);
  ck_assert_int_gt(readlink("/proc/self/exe", program, sizeof(program) - 1), 0);
  fprintf(
      file, "{\"format\":\"gpupool-snapshot\",\"version\":1,\"process\":{\"start_time_us\":1},\"stacks\":[[");
  for (size_t i = 0; i < count; i++)
    fprintf(file, "%s%zu", i ? "," : "", i);
  fprintf(file, "],[0]],\"frames\":[");
  for (size_t i = 0; i < count; i++)
    fprintf(file, "%s{\"address\":%llu,\"module\":0}", i ? "," : "", (unsigned long long)addresses[i]);
  fprintf(file, "],\"modules\":[{\"path\":\"%s\",\"build_id\":\"%s\",\"bias\":%llu,\"start\":1,\"end\":2}]}",
      path ? path : program, build_id ? build_id : self.build_id, (unsigned long long)self.bias);
  fclose(file);
  gp_snapshot_t *snapshot = gp_snapshot_parse(text, strlen(text), 0, &error);
  ck_assert_msg(snapshot != NULL, "%s", error.text);
  return snapshot;
}

static char last_problem[512];

static void note_problem(void *arg, const gp_snapshot_module_t *module, const char *why)
{
  ck_assert_ptr_eq(arg, &last_problem);
  ck_assert_ptr_nonnull(module);
  snprintf(last_problem, sizeof(last_problem), "%s", why);
}

static const gp_symbols_options_t tell = {.problem = note_problem, .arg = &last_problem};

static const gp_snapshot_frame_t *frame_of(const gp_snapshot_t *snapshot, size_t stack, size_t depth)
{
  const gp_snapshot_stacks_t *stacks = &snapshot->stacks;
  ck_assert_uint_lt(stacks->first[stack] + depth, stacks->first[stack + 1]);
  return &snapshot->frames[stacks->frame_indexes[stacks->first[stack] + depth]];
}

START_TEST(test_inlined_functions_become_frames)
{
  uint64_t address = gp_sample_call() - 1;
  char text[256];
  gp_snapshot_t *snapshot = snapshot_of(&address, 1, NULL, NULL);

  gp_symbols_resolve(snapshot, NULL);
  ck_assert_uint_eq(snapshot->stacks.count, 2);
  for (size_t stack = 0; stack < 2; stack++) {
    ck_assert_uint_eq(snapshot->stacks.first[stack + 1] - snapshot->stacks.first[stack], 3);
    static const char *const names[] = {"sample_innermost", "sample_middle", "gp_sample_call"};
    static const int lines[] = {GP_SAMPLE_INNERMOST_LINE, GP_SAMPLE_MIDDLE_LINE, GP_SAMPLE_OUTER_LINE};
    for (size_t i = 0; i < 3; i++) {
      const gp_snapshot_frame_t *frame = frame_of(snapshot, stack, i);
      ck_assert_str_eq(frame->function, names[i]);
      ck_assert_int_eq(frame->line, lines[i]);
      ck_assert_int_eq(frame->is_inline, i < 2);
      ck_assert_uint_eq(frame->address, address);
      ck_assert_int_eq(frame->module, 0);
      ck_assert_str_eq(strrchr(frame->file, '/'), "/symbols_sample.c");
    }
  }
  gp_frame_describe(snapshot, 1, text, sizeof(text));
  ck_assert_str_eq(text, "sample_middle symbols_sample.c:" GP_SAMPLE_TEXT(GP_SAMPLE_MIDDLE_LINE));

  /* What has names is left alone. */
  gp_symbols_resolve(snapshot, &tell);
  ck_assert_uint_eq(snapshot->frame_count, 3);
  gp_snapshot_destroy(snapshot);
}
END_TEST

/* Of 64 bytes at most, which fill the text; longer ones are cut. */
START_TEST(test_build_ids_of_any_length_become_text)
{
  uint8_t bits[80];
  char expected[2 * sizeof(bits) + 1], text[GP_BUILD_ID_TEXT_BYTES + 1];

  for (size_t i = 0; i < sizeof(bits); i++) {
    bits[i] = (uint8_t)(i * 7 + 1);
    snprintf(expected + 2 * i, 3, "%02x", bits[i]);
  }
  for (size_t length = 0; length <= sizeof(bits); length++) {
    memset(text, '?', sizeof(text));
    gp_symbols_format_build_id(bits, length, text);
    size_t shown = length < 64 ? length : 64;
    ck_assert_uint_eq(strlen(text), 2 * shown);
    ck_assert_mem_eq(text, expected, 2 * shown);
    ck_assert_int_eq(text[GP_BUILD_ID_TEXT_BYTES], '?');
    ck_assert(gp_symbols_build_id_is_sound(text) == (length >= 3));
  }
  ck_assert(!gp_symbols_build_id_is_sound("0123456789abcdefg0"));
  ck_assert(!gp_symbols_build_id_is_sound("0123456"));
}
END_TEST

START_TEST(test_another_build_lends_no_names)
{
  uint64_t address = gp_sample_call() - 1;
  char text[256];
  gp_snapshot_t *snapshot = snapshot_of(&address, 1, NULL, "00112233445566778899");

  gp_symbols_resolve(snapshot, &tell);
  ck_assert_uint_eq(snapshot->frame_count, 1);
  ck_assert_str_eq(snapshot->frames[0].function, "");
  ck_assert_ptr_nonnull(strstr(last_problem, "is another build"));
  ck_assert_ptr_nonnull(strstr(last_problem, "00112233445566778899"));
  gp_frame_describe(snapshot, 0, text, sizeof(text));
  ck_assert_ptr_nonnull(strstr(text, "check_symbols+0x"));
  gp_snapshot_destroy(snapshot);
}
END_TEST

static void copy_self(const char *path)
{
  char buffer[65536];
  size_t got;
  FILE *from = fopen("/proc/self/exe", "rb"), *to = fopen(path, "wb");
  ck_assert(from && to);
  while ((got = fread(buffer, 1, sizeof(buffer), from)) > 0)
    ck_assert_uint_eq(fwrite(buffer, 1, got, to), got);
  fclose(from);
  ck_assert_int_eq(fclose(to), 0);
}

/* The file is gone when the second snapshot asks for the same place. */
START_TEST(test_what_is_known_opens_no_file)
{
  uint64_t known = gp_sample_call() - 1, both[] = {known, known - 1};
  char path[] = "/tmp/check_symbols-XXXXXX";
  ck_assert_int_ge(close(mkstemp(path)), 0);
  copy_self(path);
  for (int round = 0; round < 3; round++) {
    gp_snapshot_t *snapshot =
        snapshot_of(both, round == 2 ? 2 : 1, path, round == 1 ? "00112233445566778899" : NULL);
    gp_symbols_resolve(snapshot, NULL);
    if (round == 0)
      ck_assert_str_eq(frame_of(snapshot, 0, 0)->function, "sample_innermost");
    else /* another build, and a place that is not known */
      ck_assert_str_eq(snapshot->frames[0].function, "");
    gp_snapshot_destroy(snapshot);
    (void)unlink(path);
  }
  gp_snapshot_t *snapshot = snapshot_of(&known, 1, path, NULL);
  gp_symbols_resolve(snapshot, NULL);
  ck_assert_uint_eq(snapshot->frame_count, 3);
  ck_assert_str_eq(frame_of(snapshot, 0, 0)->function, "sample_innermost");
  ck_assert_str_eq(frame_of(snapshot, 0, 2)->function, "gp_sample_call");
  gp_snapshot_destroy(snapshot);
}
END_TEST

/* The file is gone when the second snapshot names the same module; a module without a build-id is tried anew.
 */
START_TEST(test_a_file_that_does_not_fit_is_opened_once)
{
  static const char *const build_ids[] = {"00112233445566778899", ""};
  uint64_t address = gp_sample_call() - 1;
  for (int i = 0; i < 2; i++) {
    char path[] = "/tmp/check_symbols-XXXXXX";
    ck_assert_int_ge(close(mkstemp(path)), 0);
    copy_self(path);
    for (int round = 0; round < 2; round++) {
      gp_snapshot_t *snapshot = snapshot_of(&address, 1, path, build_ids[i]);
      gp_symbols_resolve(snapshot, &tell);
      ck_assert_int_eq(snapshot->modules[0].is_rebuilt, round == 0 || i == 0);
      ck_assert_ptr_nonnull(strstr(last_problem, round == 0 || i == 0 ? "is another build" : "is not there"));
      gp_snapshot_destroy(snapshot);
      (void)unlink(path);
    }
  }
}
END_TEST

START_TEST(test_files_that_do_not_help_are_named)
{
  static const struct {
    const char *path;
    const char *why;
  } cases[] = {
      {"/nowhere/libgone.so", "/nowhere/libgone.so is not there"},
      {"/dev/null", "/dev/null is not a regular file"}, {"/etc/passwd", "/etc/passwd is not an ELF file"},
      {"check_symbols", "check_symbols is not there"}, /* relative: whose folder? */
  };
  uint64_t address = gp_sample_call() - 1;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    gp_snapshot_t *snapshot = snapshot_of(&address, 1, cases[i].path, NULL);
    gp_symbols_resolve(snapshot, &tell);
    ck_assert_str_eq(snapshot->frames[0].function, "");
    ck_assert_str_eq(last_problem, cases[i].why);
    gp_snapshot_destroy(snapshot);
  }
}
END_TEST

START_TEST(test_address_outside_of_code_has_no_name)
{
  uint64_t address = (uint64_t)(uintptr_t)&last_problem + sizeof(last_problem) + (1 << 20);
  gp_snapshot_t *snapshot = snapshot_of(&address, 1, NULL, NULL);
  gp_symbols_resolve(snapshot, NULL);
  ck_assert_uint_eq(snapshot->frame_count, 1);
  ck_assert_str_eq(snapshot->frames[0].function, "");
  gp_snapshot_destroy(snapshot);
}
END_TEST

/* frames: {function, module} of modules libcudart.so.13, app; the innermost first. */
static gp_snapshot_t *named(const char *frames, const char *stack)
{
  char text[4096];
  gp_snapshot_error_t error;
  snprintf(text, sizeof(text),
      "{\"format\":\"gpupool-snapshot\",\"version\":1,\"stacks\":[%s],\"frames\":[%s],\"modules\":[{\"path\":\"/lib/libcudart.so.13\",\"build_id\":\"\",\"bias\":0,\"start\":0,\"end\":0},{\"path\":\"/bin/app\",\"build_id\":\"\",\"bias\":0,\"start\":0,\"end\":0}]}",
      stack, frames);
  gp_snapshot_t *snapshot = gp_snapshot_parse(text, strlen(text), 0, &error);
  ck_assert_msg(snapshot != NULL, "%s", error.text);
  return snapshot;
}

#define FRAME(module, function) "{\"address\":1,\"module\":" #module ",\"function\":\"" function "\"}"

START_TEST(test_owner_is_who_wanted_the_memory)
{
  gp_snapshot_t *snapshot =
      named(FRAME(0, "cudaMalloc") "," FRAME(1, "cudaMalloc") "," FRAME(
                1, "std::vector<int, thrust::device_allocator<int> >::resize(unsigned long)") "," FRAME(1,
                "int* thrust::detail::allocate<int>(int (*)(int), unsigned long)") "," FRAME(1,
                "void run<std::vector<int> >(std::vector<int>)") "," FRAME(1, "main"),
          "[0,1,2,3,4,5],[0,1],[],[5],[2,3]");
  ck_assert_int_eq(gp_stack_owner(snapshot, 0), 4);
  ck_assert_int_eq(gp_stack_owner(snapshot, 1), 1); /* all are: the outermost */
  ck_assert_int_eq(gp_stack_owner(snapshot, 2), -1);
  ck_assert_int_eq(gp_stack_owner(snapshot, 3), 5);
  ck_assert_int_eq(gp_stack_owner(snapshot, 4), 3);
  ck_assert_int_eq(gp_stack_owner(snapshot, -1), -1);
  ck_assert_int_eq(gp_stack_owner(snapshot, 5), -1);
  gp_snapshot_destroy(snapshot);
}
END_TEST

START_TEST(test_frames_without_names_are_described)
{
  char text[64];
  gp_snapshot_t *snapshot = named(
      "{\"address\":4096,\"module\":-1},{\"address\":4097,\"module\":1},{\"address\":1,\"module\":1,\"function\":\"f\",\"file\":\"/src/a.c\"},{\"address\":1,\"module\":1,\"function\":\"\\u001b[31m\"}",
      "[0]");
  ck_assert_str_eq(gp_frame_describe(snapshot, 0, text, sizeof(text)), "0x1000");
  ck_assert_str_eq(gp_frame_describe(snapshot, 1, text, sizeof(text)), "app+0x1001");
  ck_assert_str_eq(gp_frame_describe(snapshot, 2, text, sizeof(text)), "f a.c");
  ck_assert_str_eq(gp_frame_describe(snapshot, 3, text, sizeof(text)), "?[31m");
  ck_assert_str_eq(gp_frame_describe(snapshot, 1, text, 4), "app");
  gp_snapshot_destroy(snapshot);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("symbols");
  TCase *names = tcase_create("names");
  TCase *shown = tcase_create("shown");
  if (gp_symbols_are_available()) {
    tcase_add_test(names, test_inlined_functions_become_frames);
    tcase_add_test(names, test_build_ids_of_any_length_become_text);
    tcase_add_test(names, test_another_build_lends_no_names);
    tcase_add_test(names, test_what_is_known_opens_no_file);
    tcase_add_test(names, test_a_file_that_does_not_fit_is_opened_once);
    tcase_add_test(names, test_files_that_do_not_help_are_named);
    tcase_add_test(names, test_address_outside_of_code_has_no_name);
  }
  tcase_add_test(shown, test_owner_is_who_wanted_the_memory);
  tcase_add_test(shown, test_frames_without_names_are_described);
  suite_add_tcase(suite, names);
  suite_add_tcase(suite, shown);
  return gp_check_main(suite);
}
