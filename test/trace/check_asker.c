/*
 * Whose code the library names when memory runs out, by the paths of modules and of Python's files.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "trace/stacks/asker.h"
#include "test/pool/check_main.h"

#define LOG_BYTES 4096
#define ADDRESS   0x1000 /* in no module of this process, so that no frame has a name */

static union {
  gp_stack_log_t log;
  uint8_t bytes[LOG_BYTES];
} stacks;

static union {
  gp_module_log_t log;
  uint8_t bytes[LOG_BYTES];
} modules;

static union {
  gp_code_log_t log;
  uint8_t bytes[LOG_BYTES];
} codes;

static void add_module(const char *path)
{
  uint32_t at = modules.log.byte_count;
  gp_module_record_t *record = (gp_module_record_t *)(modules.log.data + at);
  *record = (gp_module_record_t){.path_length = (uint16_t)strlen(path),
      .record_bytes = (uint32_t)(sizeof(*record) + strlen(path) + 7) / 8 * 8};
  memcpy(record->path, path, strlen(path));
  modules.log.byte_count = at + record->record_bytes;
}

static void add_code(const char *name, const char *file)
{
  uint32_t at = codes.log.byte_count;
  gp_code_record_t *record = (gp_code_record_t *)(codes.log.data + at);
  *record = (gp_code_record_t){.name_length = (uint32_t)strlen(name),
      .file_length = (uint32_t)strlen(file),
      .record_bytes = (uint32_t)(sizeof(*record) + strlen(name) + strlen(file) + 7) / 8 * 8};
  memcpy(record->text, name, strlen(name));
  memcpy(record->text + strlen(name), file, strlen(file));
  codes.log.byte_count = at + record->record_bytes;
}

/* The description of a stack of one frame in each of these, the innermost first; "": there is none. */
static const char *describe(const char *const *paths, bool are_python)
{
  static char text[GP_ASKER_BYTES];
  const gp_stack_logs_t logs = {.stacks = &stacks.log,
      .stack_bytes = LOG_BYTES,
      .modules = &modules.log,
      .module_bytes = LOG_BYTES,
      .codes = &codes.log,
      .code_bytes = LOG_BYTES};
  uint32_t count = 0;

  modules.log.byte_count = codes.log.byte_count = 0;
  for (; paths[count]; count++) {
    if (are_python)
      add_code("step", paths[count]);
    else
      add_module(paths[count]);
    stacks.log.words[1 + count] = are_python ? gp_frame_pack_python(count, GP_FRAME_INSTRUCTION_NONE, false)
                                             : gp_frame_pack(ADDRESS, (int32_t)count);
  }
  stacks.log.words[0] = count;
  stacks.log.word_count = 1 + count;
  return gp_asker_describe(&logs, 1, text, sizeof(text)) ? text : "";
}

#define PATHS(...) ((const char *const[]){__VA_ARGS__, NULL})

START_TEST(test_modules_that_ask_for_others_are_passed_over)
{
  ck_assert_str_eq(describe(PATHS("/opt/libgpupool.so", "/opt/libcudart.so.13", "/opt/libcublas.so.13",
                                "/opt/librmm.so", "/opt/libstdc++.so.6", "/usr/lib/libany.so",
                                "/lib64/libany.so", "/opt/app/libmodel.so", "/opt/app/main"),
                       false),
      "libmodel.so+0x1000");
  ck_assert_str_eq(
      describe(PATHS("/opt/libnccl.so.2", "/opt/app/libcustom.so"), false), "libcustom.so+0x1000");
  ck_assert_str_eq(
      describe(PATHS("/opt/libcuda.so.1", "/opt/libtorch_cuda.so"), false), "libtorch_cuda.so+0x1000");
  ck_assert_str_eq(describe(PATHS("/opt/libcudart.so.13", "/lib/libc.so.6"), false), "");
}
END_TEST

START_TEST(test_files_of_python_packages_are_passed_over)
{
  ck_assert_str_eq(describe(PATHS("<frozen importlib._bootstrap>", "/usr/lib/python3.12/functools.py",
                                "/env/lib/site-packages/torch/nn/modules/module.py",
                                "/usr/lib/dist-packages/rmm/mr.py", "<eval_with_key>.1", "/home/me/train.py"),
                       true),
      "step (train.py:0)");
  ck_assert_str_eq(describe(PATHS("<stdin>", "/home/me/train.py"), true), "step (<stdin>:0)");
  ck_assert_str_eq(describe(PATHS("/env/lib/site-packages/jax/api.py"), true), "");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("asker");
  TCase *tcase = tcase_create("asker");
  tcase_add_test(tcase, test_modules_that_ask_for_others_are_passed_over);
  tcase_add_test(tcase, test_files_of_python_packages_are_passed_over);
  suite_add_tcase(suite, tcase);
  return gp_check_main(suite);
}
