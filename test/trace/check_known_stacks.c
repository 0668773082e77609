/*
 * Stacks that are found again without an unwinder: the right ones, and found at all.
 */
#include <check.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "fake_engine.h"
#include "frames.h"
#include "test/pool/check_main.h"
#include "trace/record/recorder_state.h"
#include "trace/stacks/cfi.h"
#include "trace/stacks/known_stacks.h"
#include "trace/stacks/origin.h"
#include "trace/stacks/unwind.h"

static gp_region_t region;
static gp_origins_t origins;

/* Each thread walks over the log once. */
#define STACKS_MAX 20000
static __thread gp_stack_view_t views[STACKS_MAX];
static __thread uint32_t view_count, views_end;

static gp_options_t *options_with(const char *depth)
{
  static gp_options_t options;
  options = *fake_options(NULL);
  ck_assert(gp_option_parse(GP_OPTION_stacks, "native", &options, NULL, NULL));
  ck_assert(gp_option_parse(GP_OPTION_stack_depth, depth, &options, NULL, NULL));
  return &options;
}

extern char __executable_start; /* the linker's */
static uint32_t take(void);

/* The code before that of take() is the library's, as far as that counts: the frames inside of take's. */
static void begin(const char *depth)
{
  const gp_region_plan_t plan = {.root = "none",
      .capacity = {[GP_SECTION_STACKS] = GP_STACKS_LOG_BYTES, [GP_SECTION_MODULES] = GP_MODULES_LOG_BYTES}};
  ck_assert(gp_region_init(&region, &plan));
  gp_origins_init(&origins, options_with(depth), &region);
  ck_assert_int_eq(origins.mode, GP_STACKS_NATIVE);
  ck_assert_uint_gt((uintptr_t)&take, (uintptr_t)&gp_origin_find);
  gp_unwind_set_own_range((uintptr_t)&__executable_start, (uintptr_t)&take);
}

static void end(void)
{
  view_count = views_end = 0;
  gp_known_stacks_thread_ended();
  gp_origins_fini(&origins);
  gp_region_fini(&region);
}

static void setup(void)
{
  fake_reset();
  begin("64");
}

void gp_route_go(const gp_route_t *route, size_t at)
{
  if (at < route->count)
    route->calls[at](route, at);
  else
    route->end(route->arg);
  __asm__ volatile("" ::: "memory");
}

static const uint64_t *words_of(uint32_t number, size_t *ret_count)
{
  ck_assert_uint_le(number, STACKS_MAX);
  for (; view_count < number; view_count++)
    ck_assert(
        gp_stack_log_next(origins.stacks.log, origins.stacks.log_bytes, &views_end, &views[view_count]));
  *ret_count = views[number - 1].count;
  return views[number - 1].frames;
}

/* The number of the stack here, after a look at it: it is what an unwinder finds. */
static __attribute__((noinline, section("program_text"))) uint32_t take(void)
{
  uintptr_t addresses[GP_UNWIND_FRAMES_MAX];
  size_t count;

  gp_origin_begin_call();
  gp_origin_find(&origins, GP_OCCASION_ALLOC, 1);
  uint32_t number = gp_origin_tls.origin;
  ck_assert_uint_ne(number, 0);
  size_t true_count = gp_unwind(GP_UNWINDER_GLIBC, 0, addresses, origins.depth);
  const uint64_t *frames = words_of(number, &count);
  ck_assert_uint_eq(count, true_count);
  for (size_t i = 1; i < count; i++) /* after that of the call here */
    ck_assert_uint_eq(gp_frame_address(frames[i]), addresses[i] - 1);
  return number;
}

static void take_to(void *arg)
{
  *(uint32_t *)arg = take();
  __asm__ volatile("" ::: "memory");
}

static uint64_t found(void)
{
  return gp_known_stacks_counts().found;
}

/* Routes are called from one place in here, so that they differ by themselves only. */
static __attribute__((noinline)) uint32_t go(gp_route_t *route)
{
  uint32_t number = 0;
  route->end = take_to;
  route->arg = &number;
  gp_route_go(route, 0);
  __asm__ volatile("" ::: "memory");
  return number;
}

static gp_route_t route_of(const gp_frame_fn *frames, int kind)
{
  return (gp_route_t){.calls = {frames[GP_FRAME_PLAIN], frames[kind], frames[GP_FRAME_PLAIN]}, .count = 3};
}

#define TIMES 8

/* Goes each route in turn, TIMES times. The first capture of a stack is by the way,
 * the second one is kept. */
static void go_in_turn(gp_route_t *routes, size_t count, uint32_t *ret_numbers)
{
  uint64_t before = found();
  for (uint64_t i = 0; i < TIMES * count; i++) {
    gp_route_t *route = &routes[i % count];
    route->number = i;
    uint32_t number = go(route);
    ck_assert(i < count || number == ret_numbers[i % count]);
    ret_numbers[i % count] = number;
    ck_assert_uint_eq(found() - before, i < 2 * count ? 0 : i + 1 - 2 * count);
  }
  for (size_t i = 0; i < count; i++) {
    for (size_t k = 0; k < i; k++)
      ck_assert_uint_ne(ret_numbers[i], ret_numbers[k]);
  }
}

START_TEST(test_repeated_stacks_are_found)
{
  gp_route_t routes[2 * GP_FRAME_KINDS];
  uint32_t numbers[2 * GP_FRAME_KINDS];
  for (int kind = 0; kind < GP_FRAME_KINDS; kind++) {
    routes[2 * kind] = route_of(gp_frames_with_pointer, kind);
    routes[2 * kind + 1] = route_of(gp_frames_without_pointer, kind);
  }
  go_in_turn(routes, 2 * GP_FRAME_KINDS, numbers);
  ck_assert_uint_eq(gp_known_stacks_counts().refused, 0);
}
END_TEST

/* The number of the route is in all registers that functions keep, rbp one of them. */
START_TEST(test_what_functions_keep_in_registers_does_not_count)
{
  gp_route_t route = {
      .calls = {gp_frames_without_pointer[GP_FRAME_BUSY], gp_frames_without_pointer[GP_FRAME_BUSY]},
      .count = 2};
  uint32_t number;
  go_in_turn(&route, 1, &number);
}
END_TEST

/* One return address in the middle differs, and no place. */
START_TEST(test_another_caller_is_another_stack)
{
  gp_route_t routes[13];
  uint32_t numbers[13];
  for (size_t i = 0; i < 13; i++) {
    routes[i] = (gp_route_t){.count = 12};
    for (size_t k = 0; k < 12; k++)
      routes[i].calls[k] = gp_frames_without_pointer[i == k ? GP_FRAME_TWIN : GP_FRAME_PLAIN];
  }
  go_in_turn(routes, 13, numbers);
}
END_TEST

#define SITES_LEVELS 6
#define SITES_STACKS (1u << SITES_LEVELS)

/* Calls itself at one of two places in each level. */
static __attribute__((noinline)) uint32_t take_by_places(unsigned places, int level)
{
  uint32_t number;
  if (level == 0)
    number = take();
  else if (places & 1)
    number = take_by_places(places >> 1, level - 1);
  else
    number = take_by_places(places >> 1, level - 1);
  __asm__ volatile("" ::: "memory");
  return number;
}

/* Stacks that begin at the same frame, many of which differ in one word. */
START_TEST(test_stacks_that_differ_in_one_word)
{
  uint32_t numbers[SITES_STACKS];
  uint64_t before = 0;

  for (int time = 0; time < TIMES; time++) {
    before = found();
    for (unsigned i = 0; i < SITES_STACKS; i++) {
      unsigned places = i * 37 % SITES_STACKS; /* in another order than in memory */
      uint32_t number = take_by_places(places, SITES_LEVELS);
      ck_assert(time == 0 || numbers[places] == number);
      numbers[places] = number;
      for (unsigned k = 0; k < i; k++)
        ck_assert_uint_ne(numbers[k * 37 % SITES_STACKS], number);
    }
  }
  ck_assert_uint_eq(found() - before, SITES_STACKS);
}
END_TEST

START_TEST(test_depth_of_recursion_is_told_apart)
{
  gp_route_t routes[25];
  uint32_t numbers[25];
  for (size_t i = 0; i < 25; i++) {
    routes[i] = (gp_route_t){.count = i};
    for (size_t k = 0; k < i; k++)
      routes[i].calls[k] = gp_frames_with_pointer[GP_FRAME_PLAIN];
  }
  go_in_turn(routes, 25, numbers);
}
END_TEST

/* The library's own frames come on top of the depth. */
/*
 * Two functions that no compiler made: the caller's frame is found by the word at rsp + 8, and by that at
 * rbp + 8. (DWARF 5, 7.7: breg7 and breg6, deref.)
 */
#define BY_EXPRESSION(name, base)                                                                            \
  __asm__(".text\n" name ":\n.cfi_startproc\n.cfi_escape 0x0f, 0x03, " base ", 0x08, 0x06\n"                 \
          "nop\n" name "_return:\nret\n.cfi_endproc\n")
BY_EXPRESSION("cfa_at_rsp", "0x77");
BY_EXPRESSION("cfa_at_rbp", "0x76");
extern char cfa_at_rsp_return, cfa_at_rbp_return;

START_TEST(test_expressions_that_are_followed)
{
  void *addresses[] = {&cfa_at_rbp_return, &cfa_at_rsp_return};
  gp_frame_rule_t rules[2];
  (void)gp_frame_rules_find(addresses, 2, rules);
  ck_assert_int_eq(rules[0].cfa, GP_CFA_AT_RBP);
  ck_assert_int_eq(rules[0].cfa_offset, 8);
  ck_assert_int_eq(rules[1].cfa, GP_CFA_UNKNOWN);
}
END_TEST

static uint8_t *put(uint8_t *at, const void *bytes, size_t count)
{
  memcpy(at, bytes, count);
  return at + count;
}

static uint8_t *put_int(uint8_t *at, int32_t value)
{
  return put(at, &value, sizeof(value));
}

/*
 * The entry of a function with a personality, as C++ gives them, whose pointer has that encoding and length
 * (LSB Core, DW_EH_PE); after its first instruction the CFA is at rsp + 16. The function has the last byte.
 */
static const uint8_t *make_entry(uint8_t *buffer, size_t bytes, uint8_t encoding, uint8_t length)
{
  static const uint8_t head[] = {1, 'z', 'P', 'L', 'R', 0, 1, 0x78, 16}; /* factors 1 and -8; returns to 16 */
  static const uint8_t begin[] = {0x03, 0x1b, 0x0c, 7, 8, 0x90, 1};      /* L and R; CFA rsp + 8 */
  static const uint8_t rest[] = {4, 0, 0, 0, 0, 0x0e, 16};               /* LSDA; CFA + 16 */
  const uint8_t augmentation[] = {(uint8_t)(length + 3), encoding};

  memset(buffer, 0xff, bytes);
  uint8_t *at = put_int(buffer + 4, 0);
  at = put(at, head, sizeof(head));
  at = put(at, augmentation, sizeof(augmentation)) + length;
  uint8_t *entry = put(at, begin, sizeof(begin));
  (void)put_int(buffer, (int32_t)(entry - buffer - 4));
  at = put_int(entry + 4, (int32_t)(entry + 4 - buffer));
  at = put_int(at, (int32_t)(buffer + bytes - 1 - at));
  at = put_int(at, 1);
  at = put(at, rest, sizeof(rest));
  (void)put_int(entry, (int32_t)(at - entry - 4));
  return entry;
}

START_TEST(test_functions_with_a_personality)
{
  static const uint8_t lengths[] = {8, 0, 2, 4, 8, 0, 0, 0, 0, 0, 2, 4, 8, 0, 0, 0};
  uint8_t buffer[128];

  for (unsigned encoding = 0; encoding < 0xff; encoding++) {
    uint8_t length = lengths[encoding & 15];
    bool is_followed = length > 0 && (encoding & 0x70) != 0x50; /* aligned */
    const uint8_t *entry = make_entry(buffer, sizeof(buffer), (uint8_t)encoding, length);
    gp_frame_rule_t rule = gp_cfi_rule(entry, (uintptr_t)&buffer[sizeof(buffer) - 1]);
    ck_assert_msg(rule.cfa == (is_followed ? GP_CFA_RSP : GP_CFA_UNKNOWN), "encoding 0x%02x", encoding);
    ck_assert_int_eq(rule.cfa_offset, is_followed ? 16 : 0);
  }
}
END_TEST

START_TEST(test_cut_stacks_are_found)
{
  gp_route_t route = {.count = GP_ROUTE_MAX};
  uint32_t number;
  size_t count;
  for (size_t i = 0; i < GP_ROUTE_MAX; i++)
    route.calls[i] = gp_frames_with_pointer[i % 3];
  go_in_turn(&route, 1, &number);
  (void)words_of(number, &count);
  ck_assert_uint_eq(count, 64);

  end();
  begin("3");
  go_in_turn(&route, 1, &number);
  (void)words_of(number, &count);
  ck_assert_uint_eq(count, 3);
}
END_TEST

START_TEST(test_stacks_that_are_too_deep_are_captured)
{
  gp_route_t deep = {.count = GP_ROUTE_MAX};
  for (size_t i = 0; i < GP_ROUTE_MAX; i++)
    deep.calls[i] = i % 2 ? gp_frames_with_pointer[GP_FRAME_PLAIN] : gp_frames_with_pointer[GP_FRAME_TWIN];
  end();
  begin("256");
  for (int i = 0; i < 4; i++)
    ck_assert_uint_ne(go(&deep), 0);
  ck_assert_uint_eq(found(), 0);
  ck_assert_uint_eq(gp_known_stacks_counts().refused, 3);
}
END_TEST

static void take_and_move_on(void *arg)
{
  uint32_t **next = arg;
  *(*next)++ = take();
  __asm__ volatile("" ::: "memory");
}

/*
 * Two calls of one function, the second one a little further down. An aligned frame below them may lie at the
 * same place in both, and where the return address of the first was, it still lies about.
 */
START_TEST(test_aligned_frames_of_two_callers_are_told_apart)
{
  gp_route_t route = {
      .calls = {gp_frames_without_pointer[GP_FRAME_SIZED], gp_frames_without_pointer[GP_FRAME_TWO_CALLS],
          gp_frames_without_pointer[GP_FRAME_ALIGNED_AND_SIZED]},
      .count = 3,
      .end = take_and_move_on};
  for (size_t i = 0; i < 8 * 6; i++) {
    uint32_t numbers[2] = {0}, *next = numbers;
    route.sizes[0] = i / 6 * 16;
    route.arg = &next;
    gp_route_go(&route, 0);
    ck_assert_ptr_eq(next, numbers + 2);
    ck_assert_uint_ne(numbers[0], numbers[1]);
  }
  ck_assert_uint_ge(found(), 8 * 4 * 2); /* more, where two sizes are one */
}
END_TEST

static __thread uint64_t random_state;

static uint64_t random_below(uint64_t limit)
{
  random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
  return (random_state >> 33) % limit;
}

static void make_random(gp_route_t *route)
{
  route->count = random_below(30);
  for (size_t i = 0; i < route->count; i++) {
    const gp_frame_fn *frames = random_below(2) ? gp_frames_with_pointer : gp_frames_without_pointer;
    route->calls[i] = frames[random_below(GP_FRAME_KINDS)];
    route->sizes[i] = random_below(4) * 64;
  }
}

#define ROUTES 200

/* Some are changed a little all the time, so that stacks of the same places and other callers follow each
 * other. */
static void *wander(void *arg)
{
  static __thread gp_route_t routes[ROUTES];
  random_state = (uintptr_t)arg;
  for (size_t i = 0; i < ROUTES; i++)
    make_random(&routes[i]);
  for (int i = 0; i < 3000; i++) {
    /* Mostly a few of them, else none would be found before others take its room. */
    gp_route_t *route = &routes[random_below(4) ? random_below(20) : random_below(ROUTES)];
    if (route->count > 0 && random_below(20) == 0) {
      size_t at = random_below(route->count);
      route->calls[at] = gp_frames_without_pointer[random_below(GP_FRAME_KINDS)];
      route->sizes[at] = random_below(4) * 64;
    }
    route->number = random_below(1000);
    (void)go(route);
  }
  return NULL;
}

START_TEST(test_random_routes_have_true_stacks)
{
  (void)wander((void *)(uintptr_t)(1 + _i));
  ck_assert_uint_gt(found(), 700);
}
END_TEST

#if !defined(__SANITIZE_THREAD__)
static void *wander_and_end(void *arg)
{
  ck_assert_uint_eq(found(), 0);
  (void)wander(arg);
  ck_assert_uint_gt(found(), 700);
  gp_known_stacks_thread_ended();
  ck_assert_uint_eq(found(), 0);
  return NULL;
}

START_TEST(test_threads_know_their_own)
{
  pthread_t threads[2];
  for (uintptr_t i = 0; i < 2; i++)
    ck_assert_int_eq(pthread_create(&threads[i], NULL, wander_and_end, (void *)(i + 50)), 0);
  for (int i = 0; i < 2; i++)
    ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
}
END_TEST
#endif

static gp_recorder_t *recorder;

static void *ask_in_thread(void *arg)
{
  const gp_observer_t observer = gp_recorder_observer(recorder);
  observer.find_origin(observer.self, GP_OCCASION_ALLOC, 1);
  return arg;
}

static long mapped_pages(void)
{
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_eq(fscanf(file, "%ld", &pages), 1);
  fclose(file);
  return pages;
}

/* With "state" a thread records no event that would see to its end. */
START_TEST(test_threads_give_their_tables_back)
{
  gp_options_t *options = options_with("64");
  long before = 0;
  ck_assert(gp_option_parse(GP_OPTION_trace, "state", options, NULL, NULL));
  recorder = gp_recorder_create(options, fake_clock, NULL);
  ck_assert_ptr_nonnull(recorder);
  for (int i = 0; i < 101; i++) {
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, ask_in_thread, NULL), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    if (i == 0)
      before = mapped_pages();
  }
  ck_assert_int_lt(mapped_pages() - before, 100 * 8); /* a table has 16 */
  gp_recorder_destroy(recorder);
}
END_TEST

typedef void (*call_fn)(void (*callback)(void *arg), void *arg);

/* Through a function of a library that is loaded for it; stays loaded if ret_library is there. */
static uint32_t visit(const char *path, int times, call_fn *ret_function, void **ret_library)
{
  uint32_t number = 0;
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  ck_assert_msg(library != NULL, "%s", dlerror());
  *(void **)ret_function = dlsym(library, "gp_unloaded_call");
  ck_assert(*ret_function != NULL);
  for (int i = 0; i < times; i++)
    (*ret_function)(take_to, &number);
  if (ret_library)
    *ret_library = library;
  else
    ck_assert_int_eq(dlclose(library), 0);
  return number;
}

START_TEST(test_other_code_at_the_address_is_another_stack)
{
  static const char *const paths[] = {GP_UNLOADED_A, GP_UNLOADED_B};
  static const int times[] = {4, 1};
  call_fn functions[2];
  uint32_t numbers[2];
  for (int i = 0; i < 2; i++) {
    numbers[i] = visit(paths[i], times[i], &functions[i], NULL);
    ck_assert_uint_eq(found(), 2);
  }
  ck_assert_uint_ne(numbers[0], numbers[1]);
  ck_assert(functions[0] == functions[1]); /* else nothing was shown */
}
END_TEST

START_TEST(test_loading_more_forgets_nothing)
{
  call_fn function;
  void *library = NULL;
  static const uint64_t found_after[] = {0, 0, 1, 2, 3, 3};
  gp_route_t route = route_of(gp_frames_with_pointer, GP_FRAME_PLAIN);
  for (uint64_t i = 0; i < 6; i++) {
    if (i == 3)
      (void)visit(GP_UNLOADED_A, 0, &function, &library);
    if (i == 5) /* what is unloaded may have been part of it */
      ck_assert_int_eq(dlclose(library), 0);
    ck_assert_uint_eq(go(&route), 1);
    ck_assert_uint_eq(found(), found_after[i]);
  }
}
END_TEST

static gp_route_t in_handler;
static uint32_t handled;

static void handle(int number)
{
  (void)number;
  handled = go(&in_handler);
}

/* The interrupted code may be anywhere, and has no call that could be looked up. */
START_TEST(test_stacks_through_a_signal_are_captured)
{
  const struct sigaction action = {.sa_handler = handle};
  in_handler = route_of(gp_frames_without_pointer, GP_FRAME_PLAIN);
  ck_assert_int_eq(sigaction(SIGUSR1, &action, NULL), 0);
  for (int i = 0; i < 5; i++) {
    raise(SIGUSR1);
    ck_assert_uint_ne(handled, 0);
  }
  ck_assert_uint_eq(found(), 0);
  ck_assert_uint_gt(gp_known_stacks_counts().refused, 0);
}
END_TEST

static ucontext_t main_context, fiber_context;
static gp_route_t *fiber_route;
static uint32_t fiber_number;

static void fiber_one(void)
{
  fiber_number = go(fiber_route);
  __asm__ volatile("" ::: "memory");
}

static void fiber_two(void)
{
  fiber_number = go(fiber_route);
  __asm__ volatile("nop" ::: "memory");
}

static uint32_t run_fiber(void (*function)(void), char *stack, size_t bytes)
{
  ck_assert_int_eq(getcontext(&fiber_context), 0);
  fiber_context.uc_stack.ss_sp = stack;
  fiber_context.uc_stack.ss_size = bytes;
  fiber_context.uc_link = &main_context;
  makecontext(&fiber_context, function, 0);
  ck_assert_int_eq(swapcontext(&main_context, &fiber_context), 0);
  return fiber_number;
}

/* Fibers take turns in the same memory, where what the last one left lies about. */
START_TEST(test_fibers_have_true_stacks)
{
  const size_t bytes = 256 * 1024;
  char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ck_assert_ptr_ne(stack, MAP_FAILED);
  gp_route_t shallow = route_of(gp_frames_with_pointer, GP_FRAME_PLAIN);
  gp_route_t deep = {.count = 30};
  for (size_t i = 0; i < deep.count; i++)
    deep.calls[i] = gp_frames_without_pointer[i % GP_FRAME_KINDS];
  for (int i = 0; i < 300; i++) {
    fiber_route = random_below(2) ? &shallow : &deep;
    void (*function)(void) = random_below(2) ? fiber_one : fiber_two;
    ck_assert_uint_ne(run_fiber(function, stack, bytes - 64 * random_below(3)), 0);
  }
  ck_assert_uint_gt(found(), 100);
  munmap(stack, bytes);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("known stacks");
  TCase *known = tcase_create("known");

  tcase_set_timeout(known, 100);
  tcase_add_checked_fixture(known, setup, end);
  tcase_add_test(known, test_repeated_stacks_are_found);
  tcase_add_test(known, test_what_functions_keep_in_registers_does_not_count);
  tcase_add_test(known, test_another_caller_is_another_stack);
  tcase_add_test(known, test_depth_of_recursion_is_told_apart);
  tcase_add_test(known, test_stacks_that_differ_in_one_word);
  tcase_add_test(known, test_aligned_frames_of_two_callers_are_told_apart);
  tcase_add_test(known, test_expressions_that_are_followed);
  tcase_add_test(known, test_functions_with_a_personality);
  tcase_add_test(known, test_cut_stacks_are_found);
  tcase_add_test(known, test_stacks_that_are_too_deep_are_captured);
  tcase_add_loop_test(known, test_random_routes_have_true_stacks, 0, 2);
#if !defined(__SANITIZE_THREAD__) /* libunwind ends its part of a thread after TSan has ended its own */
  tcase_add_test(known, test_threads_know_their_own);
#endif
  tcase_add_test(known, test_threads_give_their_tables_back);
  tcase_add_test(known, test_other_code_at_the_address_is_another_stack);
  tcase_add_test(known, test_loading_more_forgets_nothing);
  tcase_add_test(known, test_stacks_through_a_signal_are_captured);
  tcase_add_test(known, test_fibers_have_true_stacks);
  suite_add_tcase(suite, known);
  return gp_check_main_apart(suite);
}
