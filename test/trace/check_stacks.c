/*
 * Stacks: captured, interned, and which calls have one.
 */
#include <check.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_engine.h"
#include "leaks.h"
#include "base/lock_gaps.h"
#include "tools/symbols/frame_text.h"
#include "trace/snapshot/document_stacks.h"
#include "trace/snapshot/event_merge.h"
#include "trace/record/recorder_state.h"
#include "trace/stacks/bounds.h"
#include "trace/stacks/origin.h"
#include "trace/stacks/unwind.h"

static gp_stacks_t stacks;
static gp_region_t region;

static void setup(void)
{
  const gp_region_plan_t plan = {.root = "none",
      .capacity = {[GP_SECTION_STACKS] = GP_STACKS_LOG_BYTES, [GP_SECTION_MODULES] = GP_MODULES_LOG_BYTES}};
  fake_reset();
  ck_assert(gp_region_init(&region, &plan));
  ck_assert(gp_stacks_init(&stacks, &region));
  gp_unwind_set_own_range(0, 1); /* nothing here is the library's */
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

/* Libraries take turns, mostly at the same address: the same number then must not mean two things. */
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

/* The document of the logs; the caller frees it. */
static char *write_document(const gp_stack_logs_t *logs)
{
  static char buffer[4096];
  gp_json_t json;
  int fd = memfd_create("document", 0);
  ck_assert_int_ge(fd, 0);
  gp_json_init(&json, fd, buffer, sizeof(buffer));
  gp_json_begin(&json, '{');
  gp_document_write_stacks(&json, logs);
  gp_json_end(&json, '}');
  ck_assert_int_eq(gp_json_finish(&json), 0);
  off_t length = lseek(fd, 0, SEEK_END);
  char *text = calloc(1, (size_t)length + 1);
  ck_assert_int_eq(pread(fd, text, (size_t)length, 0), length);
  close(fd);
  return text;
}

static void expect_logs(const gp_stack_logs_t *logs, const char *stacks_and_frames)
{
  char *text = write_document(logs);
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
  char *text = write_document(&logs);
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

/*
 * Unwinding
 */

typedef struct capture {
  gp_unwinder_t unwinder;
  uintptr_t addresses[GP_UNWIND_FRAMES_MAX];
  size_t capacity;
  size_t count;
} capture_t;

static __attribute__((noinline)) void take(capture_t *capture)
{
  capture->count = gp_unwind(capture->unwinder, 0, capture->addresses, capture->capacity);
  __asm__ volatile("" ::: "memory");
}

static void recurse(capture_t *capture, int depth);
static void (*volatile recurse_again)(
    capture_t *capture, int depth) = recurse; /* or -O3 makes one frame of several */

static __attribute__((noinline)) void recurse(capture_t *capture, int depth)
{
  if (depth > 0)
    recurse_again(capture, depth - 1);
  else
    take(capture);
  __asm__ volatile("" ::: "memory");
}

/* Not a must; where it is missing, or has other addresses than glibc as 1.3 has, the rest has to work. It
 * starts in a child, for here the library has to be the first to call it. */
static bool has_libunwind(void)
{
#if defined(__x86_64__)
  int status = 1;
  pid_t child = fork();
  if (child == 0) {
    int (*function)(void **addresses, int capacity) = NULL;
    void *library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    void *one[2], *other[2];
    if (library)
      *(void **)&function = dlsym(library, "unw_backtrace");
    _exit(!(function && function(one, 2) == 2 && backtrace(other, 2) == 2 && one[1] == other[1]));
  }
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  return status == 0;
#else
  return false;
#endif
}

START_TEST(test_unwinders_find_the_callers)
{
  static const gp_unwinder_t unwinders[] = {
      GP_UNWINDER_BEST, GP_UNWINDER_LIBUNWIND, GP_UNWINDER_GLIBC, GP_UNWINDER_FRAME_POINTERS};
  capture_t captures[4] = {{0}};

  gp_unwind_prepare();
  for (int i = 0; i < 4; i++) {
    captures[i].unwinder = unwinders[i];
    captures[i].capacity = 40;
    recurse_again(&captures[i], 10);
    if (captures[i].unwinder == GP_UNWINDER_LIBUNWIND && !has_libunwind())
      continue;
    size_t repeated = 0; /* the call of recurse in itself */
    for (size_t k = 1; k < captures[i].count; k++)
      repeated += captures[i].addresses[k] == captures[i].addresses[k - 1];
    ck_assert_uint_eq(repeated, 9);
  }
  if (!has_libunwind())
    return;
  /* Two threads of one site, by different unwinders, must be one stack; but for the innermost frames, inside
   * this library. */
  const capture_t *a = &captures[1], *b = &captures[2];
  ck_assert_uint_eq(a->count, b->count);
  size_t differ = 0;
  for (size_t k = 0; k < a->count; k++)
    differ += a->addresses[k] != b->addresses[k];
  ck_assert_uint_le(differ, 2); /* the call of the unwinder, and the call of recurse in the loop above */
}
END_TEST

START_TEST(test_depth_keeps_the_innermost)
{
  capture_t whole = {.unwinder = GP_UNWINDER_GLIBC, .capacity = 100};
  capture_t cut = {.unwinder = GP_UNWINDER_GLIBC, .capacity = 7};
  recurse_again(&whole, 60);
  recurse_again(&cut, 60);
  ck_assert_uint_gt(whole.count, 60);
  ck_assert_uint_eq(cut.count, 7);
  ck_assert_mem_eq(cut.addresses, whole.addresses, sizeof(uintptr_t) * 7);
  whole.capacity = GP_UNWIND_FRAMES_MAX;
  recurse_again(&whole, 1000);
  ck_assert_uint_eq(whole.count, GP_UNWIND_FRAMES_MAX);
}
END_TEST

extern char __executable_start, etext; /* the linker's: this program's code is between them */

START_TEST(test_own_frames_are_left_out)
{
  const uintptr_t start = (uintptr_t)&__executable_start, end = (uintptr_t)&etext;
  for (int i = has_libunwind() ? GP_UNWINDER_LIBUNWIND : GP_UNWINDER_GLIBC; i <= GP_UNWINDER_GLIBC; i++) {
    capture_t capture = {.unwinder = (gp_unwinder_t)i, .capacity = 40};
    gp_unwind_set_own_range(start, end);
    recurse_again(&capture, 5);
    ck_assert_uint_gt(capture.count, 0); /* main's caller */
    ck_assert(capture.addresses[0] < start || capture.addresses[0] >= end);
    gp_unwind_set_own_range(0, 1);
    recurse_again(&capture, 5);
    ck_assert(capture.addresses[0] >= start && capture.addresses[0] < end);
  }
}
END_TEST

static void *take_in_thread(void *arg)
{
  take(arg);
  return NULL;
}

static size_t frames_with_stack_of(size_t bytes)
{
  capture_t capture = {.unwinder = GP_UNWINDER_GLIBC, .capacity = 40};
  pthread_attr_t attributes;
  pthread_t thread;
  ck_assert_int_eq(pthread_attr_init(&attributes), 0);
  ck_assert_int_eq(pthread_attr_setstacksize(&attributes, bytes), 0);
  ck_assert_int_eq(pthread_create(&thread, &attributes, take_in_thread, &capture), 0);
  ck_assert_int_eq(pthread_join(thread, NULL), 0);
  pthread_attr_destroy(&attributes);
  return capture.count;
}

START_TEST(test_stack_that_is_nearly_full_is_left_alone)
{
  gp_unwind_prepare();
  ck_assert_uint_gt(frames_with_stack_of(256 * 1024), 1);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  ck_assert_uint_gt(frames_with_stack_of(64 * 1024), 1);
  ck_assert_uint_eq(frames_with_stack_of(16 * 1024), 0);
#endif
}
END_TEST

static capture_t in_handler = {.unwinder = GP_UNWINDER_GLIBC, .capacity = 40};

static void handle(int number)
{
  (void)number;
  take(&in_handler);
}

START_TEST(test_alternate_signal_stack_gets_no_frames)
{
  /* Between readable memory, as one from malloc is. */
  char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  stack_t stack = {.ss_sp = memory + (512 << 10), .ss_size = 64 << 10};
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};

  ck_assert_ptr_ne(memory, MAP_FAILED);
  gp_unwind_prepare();
  ck_assert_int_eq(sigaltstack(&stack, NULL), 0);
  ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
  in_handler.count = 99;
  raise(SIGUSR1);
  ck_assert_uint_eq(in_handler.count, 0);
  take(&in_handler);
  ck_assert_uint_gt(in_handler.count, 1);
  in_handler.count = 99;
  raise(SIGUSR1);
  ck_assert_uint_eq(in_handler.count, 0);
}
END_TEST

/*
 * Which calls have a stack
 */

static uint32_t origin_of(const gp_observer_t *observer, gp_occasion_t occasion, uint64_t size)
{
  observer->find_origin(observer->self, occasion, size);
  return observer->origin(observer->self);
}

static gp_recorder_t *recorder_with(const char *mode, const char *trace, const char *frees)
{
  static gp_options_t options;
  options = *fake_options(NULL);
  ck_assert(gp_option_parse(GP_OPTION_trace, trace, &options, NULL, NULL));
  ck_assert(gp_option_parse(GP_OPTION_stacks, mode, &options, NULL, NULL));
  ck_assert(gp_option_parse(GP_OPTION_stacks_free, frees, &options, NULL, NULL));
  ck_assert(gp_option_parse(GP_OPTION_small_max, "1MiB", &options, NULL, NULL));
  gp_recorder_t *recorder = gp_recorder_create(&options, fake_clock, NULL);
  ck_assert_ptr_nonnull(recorder);
  gp_origin_begin_call();
  return recorder;
}

START_TEST(test_auto_is_for_the_driver_and_the_large)
{
  gp_recorder_t *recorder = recorder_with("auto", "all", "0");
  const gp_observer_t observer = gp_recorder_observer(recorder);

  ck_assert_uint_eq(origin_of(&observer, GP_OCCASION_ALLOC, 1 << 20), 0);
  ck_assert_uint_eq(origin_of(&observer, GP_OCCASION_FREE, 0), 0);
  ck_assert_uint_ne(origin_of(&observer, GP_OCCASION_DRIVER, 1), 0);
  gp_origin_begin_call();
  ck_assert_uint_eq(observer.origin(observer.self), 0); /* not that of the last call */
  ck_assert_uint_ne(origin_of(&observer, GP_OCCASION_ALLOC, (1 << 20) + 1), 0);
  gp_recorder_destroy(recorder);
}
END_TEST

START_TEST(test_native_is_for_all)
{
  static const char *const modes[] = {"native", "fp"};
  for (int i = 0; i < 2; i++) {
    gp_recorder_t *recorder = recorder_with(modes[i], "state", "0");
    const gp_observer_t observer = gp_recorder_observer(recorder);
    uint32_t origin = origin_of(&observer, GP_OCCASION_ALLOC, 1);
    ck_assert_uint_ne(origin, 0);
    ck_assert_uint_eq(origin_of(&observer, GP_OCCASION_DRIVER, 1), origin); /* once a call */
    gp_origin_begin_call();
    ck_assert_uint_eq(origin_of(&observer, GP_OCCASION_FREE, 0), 0);
    gp_recorder_destroy(recorder);
  }
}
END_TEST

START_TEST(test_off_is_for_none)
{
  gp_recorder_t *recorder = recorder_with("off", "all", "1");
  ck_assert_ptr_null(gp_recorder_observer(recorder).find_origin);
  ck_assert_ptr_null(gp_recorder_observer(recorder).origin);
  ck_assert_ptr_null(recorder->origins.stacks.log);
  gp_recorder_destroy(recorder);

  recorder = recorder_with("native", "off", "1");
  const gp_observer_t observer = gp_recorder_observer(recorder);
  ck_assert_uint_eq(origin_of(&observer, GP_OCCASION_DRIVER, 1), 0);
  gp_recorder_destroy(recorder);
}
END_TEST

static const gp_observer_t *asked_in_fork; /* NULL: by no thread */
static uint32_t origin_in_fork;

static void *ask_in_fork(void *unused)
{
  gp_origin_begin_call();
  origin_in_fork = origin_of(asked_in_fork, GP_OCCASION_ALLOC, 1);
  return unused;
}

static void before_fork(void)
{
  pthread_t thread;
  if (asked_in_fork && pthread_create(&thread, NULL, ask_in_fork, NULL) == 0)
    (void)pthread_join(thread, NULL);
}

/* Before the first walk of what is loaded, so that it runs after the library's handler. */
__attribute__((constructor)) static void watch_forks(void)
{
  (void)pthread_atfork(before_fork, NULL, NULL);
}

START_TEST(test_no_stack_while_another_thread_forks)
{
  static const char *const modes[] = {"native", "fp"};
  gp_recorder_t *recorder = recorder_with(modes[_i], "all", "0");
  const gp_observer_t observer = gp_recorder_observer(recorder);

  ck_assert_uint_ne(origin_of(&observer, GP_OCCASION_ALLOC, 1), 0);
  origin_in_fork = 1;
  asked_in_fork = &observer;
  pid_t pid = fork();
  if (pid == 0)
    _exit(0);
  asked_in_fork = NULL;
  ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
  ck_assert_uint_eq(origin_in_fork, 0);
  gp_origin_begin_call();
  ck_assert_uint_ne(origin_of(&observer, GP_OCCASION_ALLOC, 1), 0);
  gp_recorder_destroy(recorder);
}
END_TEST

static int32_t recorded_stack(gp_recorder_t *recorder, gp_action_t action, uint32_t origin)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  const gp_event_t event = {.action = action, .origin = origin, .time_ns = ++fake_now_ns};
  uint64_t until_ns[GP_MAX_DEVICES];
  gp_event_merge_t history = {0};

  for (int i = 0; i < GP_MAX_DEVICES; i++)
    until_ns[i] = UINT64_MAX;
  observer.event(observer.self, &event);
  ck_assert(gp_event_merge_take(&recorder->chunks, until_ns, &history));
  int32_t stack = history.records[history.order[history.count - 1]].stack;
  gp_event_merge_fini(&history);
  return stack;
}

START_TEST(test_frees_have_the_stack_of_the_allocation_or_their_own)
{
  gp_recorder_t *recorder = recorder_with("auto", "all", "0");
  ck_assert_int_eq(recorded_stack(recorder, GP_ACTION_FREE_REQUESTED, 5), 4);
  gp_recorder_destroy(recorder);

  recorder = recorder_with("auto", "all", "1");
  const gp_observer_t observer = gp_recorder_observer(recorder);
  int32_t own = (int32_t)origin_of(&observer, GP_OCCASION_FREE, 0) - 1;
  ck_assert_int_ge(own, 0);
  ck_assert_int_eq(recorded_stack(recorder, GP_ACTION_FREE_REQUESTED, 5), own);
  ck_assert_int_eq(recorded_stack(recorder, GP_ACTION_FORWARDED_FREE, 5), own);
  ck_assert_int_eq(recorded_stack(recorder, GP_ACTION_FREE_COMPLETED, 5), 4);
  ck_assert_int_eq(recorded_stack(recorder, GP_ACTION_ALLOC, 5), 4);
  gp_recorder_destroy(recorder);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("stacks");
  TCase *interning = tcase_create("interning");
  TCase *modules = tcase_create("modules");
  TCase *written = tcase_create("written");
  TCase *unwinding = tcase_create("unwinding");
  TCase *policy = tcase_create("policy");

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
  tcase_add_checked_fixture(unwinding, setup, teardown);
  tcase_add_test(unwinding, test_unwinders_find_the_callers);
  tcase_add_test(unwinding, test_depth_keeps_the_innermost);
  tcase_add_test(unwinding, test_own_frames_are_left_out);
  tcase_add_test(unwinding, test_stack_that_is_nearly_full_is_left_alone);
  tcase_add_test(unwinding, test_alternate_signal_stack_gets_no_frames);
  tcase_add_checked_fixture(policy, setup, teardown);
  tcase_add_test(policy, test_auto_is_for_the_driver_and_the_large);
  tcase_add_test(policy, test_native_is_for_all);
  tcase_add_test(policy, test_off_is_for_none);
  tcase_add_loop_test(policy, test_no_stack_while_another_thread_forks, 0, 2);
  tcase_add_test(policy, test_frees_have_the_stack_of_the_allocation_or_their_own);
  suite_add_tcase(suite, interning);
  suite_add_tcase(suite, modules);
  suite_add_tcase(suite, written);
  suite_add_tcase(suite, unwinding);
  suite_add_tcase(suite, policy);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
