/*
 * Captured stacks: what each unwinder finds, and which threads it leaves alone.
 */
#include <check.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/pool/check_main.h"
#include "trace/stacks/unwind.h"

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

static void setup(void)
{
  gp_unwind_set_own_range(0, 1); /* nothing here is the library's */
}

int main(void)
{
  Suite *suite = suite_create("unwind");
  TCase *tcase = tcase_create("unwind");

  tcase_add_checked_fixture(tcase, setup, NULL);
  tcase_add_test(tcase, test_unwinders_find_the_callers);
  tcase_add_test(tcase, test_depth_keeps_the_innermost);
  tcase_add_test(tcase, test_own_frames_are_left_out);
  tcase_add_test(tcase, test_stack_that_is_nearly_full_is_left_alone);
  tcase_add_test(tcase, test_alternate_signal_stack_gets_no_frames);
  suite_add_tcase(suite, tcase);
  return gp_check_main_apart(suite);
}
