/*
 * Stacks in the log: interned, with their modules, and written.
 */
#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "leaks.h"
#include "base/lock.h"
#include "test/pool/check_main.h"
#include "test/trace/stacks_document.h"
#include "trace/stacks/stacks.h"
#include "trace/stacks/modules.h"

static gp_stacks_t stacks;
static gp_region_t region;

static void setup(void)
{
  const gp_region_plan_t plan = {.root = "none",
      .capacity = {[GP_SECTION_STACKS] = GP_STACKS_LOG_BYTES, [GP_SECTION_MODULES] = GP_MODULES_LOG_BYTES}};
  ck_assert(gp_region_init(&region, &plan));
  ck_assert(gp_stacks_init(&stacks, &region));
}

static void teardown(void)
{
  gp_stacks_fini(&stacks);
  gp_region_fini(&region);
}

static uint32_t intern(const uintptr_t *addresses, size_t count)
{
  return gp_stacks_intern(&stacks, addresses, count, gp_loader_counts());
}

/*
 * Interning
 */

START_TEST(test_equal_stacks_are_one)
{
  const uintptr_t a[] = {0x1001, 0x2001, 0x3001};
  const uintptr_t b[] = {0x1001, 0x2001, 0x3002};
  const uint64_t words[] = {3, 0x1000, 0x2000, 0x3000, 3, 0x1000, 0x2000, 0x3001, 2, 0x1000, 0x2000};

  ck_assert_uint_eq(intern(a, 0), 0);
  ck_assert_uint_eq(intern(a, 3), 1);
  ck_assert_uint_eq(intern(b, 3), 2);
  ck_assert_uint_eq(intern(a, 2), 3);
  ck_assert_uint_eq(intern(a, 3), 1);
  ck_assert_uint_eq(intern(b, 3), 2);
  ck_assert_uint_eq(stacks.log->stack_count, 3);
  ck_assert_uint_eq(stacks.log->word_count, 11);
  ck_assert_mem_eq(stacks.log->words, words, sizeof(words));
  ck_assert_uint_eq(stacks.log->lost, 0);
}
END_TEST

START_TEST(test_full_table_counts_what_it_loses)
{
  stacks.log_bytes = sizeof(*stacks.log) + 8 * sizeof(uint64_t);
  const uintptr_t a[] = {0x1001, 0x2001, 0x3001};
  const uintptr_t b[] = {0x1001, 0x2001, 0x4001, 0x5001};

  ck_assert_uint_eq(intern(a, 3), 1);
  ck_assert_uint_eq(intern(b, 4), 0); /* a word too many */
  ck_assert_uint_eq(stacks.log->lost, 1);
  ck_assert_uint_eq(intern(b, 3), 2);
  ck_assert_uint_eq(intern(b, 2), 0);
  ck_assert_uint_eq(stacks.log->lost, 2);
  ck_assert_uint_eq(intern(a, 3), 1);
  ck_assert_uint_eq(stacks.log->word_count, 8);
  stacks.log_bytes = GP_STACKS_LOG_BYTES;
}
END_TEST

#define THREADS      4
#define GAPS         8 /* between holds of locks */
#define SAME_STACKS  3000
#define STACK_FRAMES 5

static uint32_t numbers[THREADS][SAME_STACKS];

static void *intern_many(void *arg)
{
  uint32_t *mine = arg;
  for (int round = 0; round < 3; round++) {
    for (uint32_t i = 0; i < SAME_STACKS; i++) {
      uintptr_t addresses[STACK_FRAMES];
      for (uintptr_t k = 0; k < STACK_FRAMES; k++)
        addresses[k] = 0x10000 + i * 64 + k;
      uint32_t number = intern(addresses, STACK_FRAMES);
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
  ck_assert_uint_eq(stacks.log->stack_count, SAME_STACKS);
  ck_assert_uint_eq(stacks.log->word_count, SAME_STACKS * (STACK_FRAMES + 1));
}
END_TEST

static void *intern_one(void *ret_number)
{
  const uintptr_t addresses[] = {0x1001, 0x2001, 0x3001};
  *(uint32_t *)ret_number = intern(addresses, 3);
  return NULL;
}

/* The thread would not end. */
START_TEST(test_a_known_stack_takes_no_lock)
{
  uint32_t number = 0, again = 0;
  pthread_t thread;
  intern_one(&number);
  gp_lock_take(&stacks.lock);
  ck_assert_int_eq(pthread_create(&thread, NULL, intern_one, &again), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  gp_lock_release(&stacks.lock);
  ck_assert_uint_eq(again, number);
}
END_TEST

/*
 * Modules
 */

static const gp_module_record_t *module_at(int32_t index)
{
  const gp_module_record_t *at = NULL;
  for (int32_t i = 0; i <= index; i++)
    at = gp_module_log_next(stacks.modules.log, stacks.modules.log_bytes, at);
  ck_assert_ptr_nonnull(at);
  return at;
}

START_TEST(test_modules_tell_path_and_build_id)
{
  char program[4096];
  ssize_t length = readlink("/proc/self/exe", program, sizeof(program));
  gp_modules_scan(&stacks.modules);
  int32_t own = gp_modules_find(&stacks.modules, (uint64_t)(uintptr_t)&intern_many);
  ck_assert_int_eq(own, 0); /* the program comes first */
  const gp_module_record_t *record = module_at(own);
  ck_assert_int_eq(record->path_length, length);
  ck_assert_mem_eq(record->path, program, (size_t)length);
  ck_assert_int_eq(record->build_id_length, 20);
  ck_assert_uint_le(record->start, (uint64_t)(uintptr_t)&intern_many);
  ck_assert_uint_gt(record->end, (uint64_t)(uintptr_t)&numbers);

  int32_t libc = gp_modules_find(&stacks.modules, (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "getpid"));
  ck_assert_int_gt(libc, 0);
  ck_assert_ptr_nonnull(memmem(module_at(libc)->path, module_at(libc)->path_length, "/libc", 5));
  ck_assert_int_eq(gp_modules_find(&stacks.modules, 16), -1);

  uint32_t count = stacks.modules.log->module_count;
  gp_modules_scan(&stacks.modules);
  ck_assert_uint_eq(stacks.modules.log->module_count, count); /* none twice */
}
END_TEST

START_TEST(test_a_build_id_behind_another_note)
{
  void *library = dlopen(GP_NOTED, RTLD_NOW | RTLD_LOCAL);
  ck_assert_msg(library != NULL, "%s", dlerror());
  gp_modules_scan(&stacks.modules);
  int32_t number = gp_modules_find(&stacks.modules, (uint64_t)(uintptr_t)dlsym(library, "gp_noted_function"));
  ck_assert_int_gt(number, 0);
  ck_assert_int_eq(module_at(number)->build_id_length, 20);
  for (int i = 0; i < 20; i++)
    ck_assert_uint_eq(module_at(number)->build_id[i], 0xab);
  ck_assert_int_eq(dlclose(library), 0);
}
END_TEST

/* Loads a library, interns a stack of an address in it, unloads it. */
static uint32_t visit(const char *path, uintptr_t *ret_address)
{
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  ck_assert_msg(library != NULL, "%s", dlerror());
  *ret_address = (uintptr_t)dlsym(library, "gp_unloaded_function");
  ck_assert_uint_ne(*ret_address, 0);
  uintptr_t address = *ret_address + 1;
  uint32_t number = intern(&address, 1);
  ck_assert_uint_eq(intern(&address, 1), number);
  ck_assert_int_eq(dlclose(library), 0);
  return number;
}

static const char *module_of(uint32_t number, size_t *ret_length)
{
  /* Stacks of one frame: two words each. */
  ck_assert_uint_eq(stacks.log->words[2 * (number - 1)], 1);
  const gp_module_record_t *record = module_at(gp_frame_module(stacks.log->words[2 * (number - 1) + 1]));
  *ret_length = record->path_length;
  return record->path;
}

/* The loader tells the name as the program gave it. */
START_TEST(test_relative_paths_are_made_absolute)
{
  char folder[4096], back[4096];
  const char *name = strrchr(GP_UNLOADED_A, '/') + 1;
  uintptr_t address;
  size_t length;
  ck_assert_ptr_nonnull(getcwd(back, sizeof(back)));
  snprintf(folder, sizeof(folder), "%.*s", (int)(name - 1 - GP_UNLOADED_A), GP_UNLOADED_A);
  ck_assert_int_eq(chdir(folder), 0);
  ck_assert_ptr_nonnull(getcwd(folder, sizeof(folder)));
  char relative[300], expected[4400];
  snprintf(relative, sizeof(relative), "./%s", name);
  int expected_length = snprintf(expected, sizeof(expected), "%s/%s", folder, name);
  const char *path = module_of(visit(relative, &address), &length);
  ck_assert_uint_eq(length, (size_t)expected_length);
  ck_assert_mem_eq(path, expected, length);
  ck_assert_int_eq(chdir(back), 0);
}
END_TEST

static int expect_bounds(struct dl_phdr_info *info, size_t size, void *arg)
{
  extern char __executable_start, _etext, _end; /* of the linker */
  gp_bounds_t bounds = gp_bounds_of(info);

  (void)size;
  (void)arg;
  ck_assert_uint_eq(bounds.start, (uintptr_t)&__executable_start);
  ck_assert_uint_gt(bounds.end, (uintptr_t)&_etext);
  ck_assert_uint_ge((bounds.end + 15) & ~(uintptr_t)15, (uintptr_t)&_end & ~(uintptr_t)15);
  ck_assert_uint_le(bounds.end, (uintptr_t)&_end + 15);
  return 1; /* the program comes first */
}

START_TEST(test_bounds_are_those_of_the_linker)
{
  ck_assert_int_eq(dl_iterate_phdr(expect_bounds, NULL), 1);
}
END_TEST

/* Libraries take turns, mostly at the same address: the same number then must not mean two things. */
START_TEST(test_unloaded_code_is_kept_apart)
{
  uintptr_t first, second, third;
  uint32_t a = visit(GP_UNLOADED_A, &first);
  uint32_t b = visit(GP_UNLOADED_B, &second);
  uint32_t again = visit(GP_UNLOADED_A, &third);
  size_t length;

  const char *path = module_of(a, &length);
  ck_assert_ptr_nonnull(memmem(path, length, "unloaded_a", 10));
  path = module_of(b, &length);
  ck_assert_ptr_nonnull(memmem(path, length, "unloaded_b", 10));
  ck_assert_uint_ne(a, b);
  if (first == third)
    ck_assert_uint_eq(again, a);
  if (first == second) /* an address that came to mean other code */
    ck_assert_uint_gt(stacks.modules.generation, 1);
}
END_TEST

/*
 * Written
 */

static void expect_logs(const gp_stack_logs_t *logs, const char *stacks_and_frames)
{
  char *text = write_document(logs, 0, 0);
  ck_assert_msg(strncmp(text, stacks_and_frames, strlen(stacks_and_frames)) == 0, "%s", text);
  free(text);
}

static void expect_document(const char *stacks_and_frames)
{
  const gp_stack_logs_t logs = gp_stacks_logs(&stacks);
  expect_logs(&logs, stacks_and_frames);
}

START_TEST(test_frames_are_written_once)
{
  const uintptr_t a[] = {17, 33, 17};
  const uintptr_t b[] = {33, 49};
  expect_document("{\n\"stacks\":[],\n\"frames\":[],\n\"modules\":[],\n\"lost_stacks\":0}");
  ck_assert_uint_eq(intern(a, 3), 1);
  ck_assert_uint_eq(intern(b, 2), 2);
  stacks.log->lost = 7;
  expect_document(
      "{\n\"stacks\":[\n[0,1,0],\n[1,2]],\n\"frames\":[\n{\"address\":16,\"module\":-1},\n"
      "{\"address\":32,\"module\":-1},\n{\"address\":48,\"module\":-1}],\n\"modules\":[\n{\"path\":");
  const gp_stack_logs_t logs = gp_stacks_logs(&stacks);
  char *text = write_document(&logs, 0, 0);
  ck_assert_ptr_nonnull(strstr(text, "],\n\"lost_stacks\":7}"));
  free(text);
}
END_TEST

/* What another process left may have been damaged. */
START_TEST(test_damage_ends_the_lists)
{
  const uintptr_t a[] = {17, 33};
  ck_assert_uint_eq(intern(a, 2), 1);
  ck_assert_uint_eq(intern(a, 1), 2);
  gp_module_record_t *first = (gp_module_record_t *)stacks.modules.log->data;
  stacks.log->words[2] |= UINT64_C(9999) << GP_FRAME_ADDRESS_BITS; /* a module that is not there */
  expect_document("{\n\"stacks\":[\n[0,1],\n[0]],\n\"frames\":[\n{\"address\":16,\"module\":-1},\n"
                  "{\"address\":32,\"module\":-1}],\n\"modules\":[\n{");
  gp_stack_logs_t logs = gp_stacks_logs(&stacks);
  stacks.log->words[3] = 2; /* more frames than words */
  stacks.log->word_count = UINT32_MAX;
  logs.stack_bytes = sizeof(*stacks.log) + 5 * sizeof(uint64_t);
  uint32_t good = first->record_bytes;
  const uint32_t sizes[] = {0, 8, good + 4, UINT32_MAX & ~7u};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
    first->record_bytes = sizes[i];
    expect_logs(&logs, "{\n\"stacks\":[\n[0,1]],\n\"frames\":[\n{\"address\":16,\"module\":-1},\n"
                       "{\"address\":32,\"module\":-1}],\n\"modules\":[],\n");
  }
  first->record_bytes = good;
  first->build_id_length = GP_BUILD_ID_BYTES + 1;
  stacks.modules.log->byte_count = UINT32_MAX;
  stacks.log->words[0] = UINT64_MAX;
  expect_logs(&logs, "{\n\"stacks\":[],\n\"frames\":[],\n\"modules\":[],\n");
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stacks");
  TCase *interning = tcase_create("interning");
  TCase *modules = tcase_create("modules");
  TCase *written = tcase_create("written");

  gp_add_leak_fixtures(interning);
  gp_add_leak_fixtures(modules);
  gp_add_leak_fixtures(written);
  tcase_add_checked_fixture(interning, setup, teardown);
  tcase_add_test(interning, test_equal_stacks_are_one);
  tcase_add_test(interning, test_full_table_counts_what_it_loses);
  tcase_add_test(interning, test_threads_agree);
  tcase_add_test(interning, test_a_known_stack_takes_no_lock);
  tcase_add_checked_fixture(modules, setup, teardown);
  tcase_add_test(modules, test_modules_tell_path_and_build_id);
  tcase_add_test(modules, test_a_build_id_behind_another_note);
  tcase_add_test(modules, test_bounds_are_those_of_the_linker);
  tcase_add_test(modules, test_unloaded_code_is_kept_apart);
  tcase_add_test(modules, test_relative_paths_are_made_absolute);
  tcase_add_checked_fixture(written, setup, teardown);
  tcase_add_test(written, test_frames_are_written_once);
  tcase_add_test(written, test_damage_ends_the_lists);
  suite_add_tcase(suite, interning);
  suite_add_tcase(suite, modules);
  suite_add_tcase(suite, written);
  return gp_check_main(suite);
}
