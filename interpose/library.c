#include "interpose/library.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "interpose/cuda_abi.h"
#include "interpose/driver_cuda.h"
#include "interpose/routes/escape.h"
#include "interpose/process.h"
#include "interpose/nvtx/early_marks.h"
#include "interpose/nvtx/nvtx_path.h"
#include "interpose/routes/loaded.h"
#include "interpose/routes/real.h"
#include "interpose/routes/real_dlsym.h"
#include "interpose/report.h"
#include "interpose/routes/after_unknown.h"
#include "base/assert.h"
#include "base/cancel.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/options.h"
#include "base/path.h"
#include "base/settings_files.h"
#include "trace/control/control.h"
#include "trace/stacks/origin.h"
#include "trace/record/recorder.h"
#include "trace/snapshot/snapshot.h"
#include "base/pages.h"
#include "trace/control/triggers.h"
#include "trace/stacks/unwind.h"

#define FINISH_SECONDS 60
/* Number of exit handlers for threads that call exit() before one of them has registered another. Fewer than
 * 32: glibc allocates a list for more, and before 2.41 threads that leave that list at the same time free it
 * twice. */
#define EXITING_THREADS 24

typedef enum library_state {
  LIBRARY_NEW,
  LIBRARY_ACTIVE,
  LIBRARY_OFF, /* permanent; every call is forwarded */
} library_state_t;

static _Atomic(library_state_t) state;
static gp_lock_t start_lock = GP_LOCK_INIT(GP_RANK_START);
static gp_engine_t *the_engine; /* set before state becomes ACTIVE */
static gp_recorder_t *the_recorder;
static gp_snapshot_writer_t *the_snapshots; /* NULL if and only if the_recorder is NULL */
static gp_driver_t driver;
static gp_options_t options;
static gp_runtime_share_t runtime_share; /* set before state becomes ACTIVE */

/* True while this thread starts the library. The start calls the driver, and a driver may call back: such a
 * call is forwarded. */
static _Thread_local bool starting __attribute__((tls_model("initial-exec")));

static const char *from_environment(void *arg, const char *variable)
{
  (void)arg;
  return secure_getenv(variable); /* returns NULL in a setuid program */
}

static void log_problem(void *arg, bool malformed, const char *message)
{
  (void)arg;
  (void)malformed;
  gp_log(GP_LOG_ERROR, "%s", message);
}

/*
 * Opens GPUPOOL_LOG for appending. Returns -1 (stderr) if it is not set or cannot be opened. Opens it without
 * blocking, so that the program never waits for its log: opening a FIFO without a reader fails (ENXIO), and
 * messages that do not fit into a FIFO are lost. Another user's links cannot redirect the log.
 */
static int open_log(void)
{
  static char path[GP_PATH_BYTES]; /* guarded by start_lock; static, because the calling thread may have a
                                      small stack */
  const gp_option_value_t *value = &options.values[GP_OPTION_log];
  char reason[96];

  if (value->source == GP_OPTION_FROM_DEFAULT)
    return -1;
  errno = ENAMETOOLONG;
  if (gp_path_expand(value->text, 0, "log", path, sizeof(path)) == 0) {
    int fd = gp_own_path_open(
        path, sizeof(path), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
    if (fd >= 0)
      return fd;
  }
  gp_log(GP_LOG_ERROR, "GPUPOOL_LOG=%s cannot be opened for writing (%s); messages go to stderr", value->text,
      errno == ENXIO   ? "nothing reads from it"
      : errno == ELOOP ? "a link of another user is on its way"
                       : strerror_r(errno, reason, sizeof(reason)));
  return -1;
}

static void log_options(void)
{
  for (int id = 0; id < GP_OPTION_COUNT; id++)
    if (options.values[id].source != GP_OPTION_FROM_DEFAULT || gp_log_enabled(GP_LOG_DEBUG))
      gp_log(GP_LOG_INFO, "%s=%s", gp_option_table[id].variable, options.values[id].text);
}

/*
 * Turns the library off permanently in a forked child: CUDA does not work in the child of a process that has
 * used it, and the memory belongs to the parent. Threads that do not exist in the child may have held locks.
 * Nothing in the child takes a lock of this library, so fork() need not wait for its locks; for the loader's
 * lock see base/loader_walk.c.
 */
static void abandon(void)
{
  if (atomic_exchange(&state, LIBRARY_OFF) == LIBRARY_ACTIVE && the_recorder)
    gp_recorder_fork_child(the_recorder);
}

/* Stops pooling if the process contains a tool that watches the driver's calls; limits and recording remain
 * active. */
static void make_way_for_tools(void)
{
  char text[512];
  if (!gp_loaded_find_tool(text, sizeof(text)))
    return;
  gp_log(GP_LOG_ERROR, "%s: a tool watches the CUDA calls of this process; nothing is pooled", text);
  gp_engine_stop_pooling(the_engine);
}

/* Decides which calls of the runtime the library may serve: none if NVTX loads another tool. If a tool
 * watches the driver's calls, pooling has stopped, so the library serves none in any case. */
static void share_runtime(void)
{
  long mode = (long)gp_option_number(&options, GP_OPTION_stacks);

  if (!gp_option_number(&options, GP_OPTION_runtime_hooks) || gp_nvtx_other_tool())
    return;
  runtime_share.most_bytes = mode == GP_STACKS_OFF    ? UINT64_MAX
                             : mode == GP_STACKS_AUTO ? gp_option_number(&options, GP_OPTION_small_max)
                                                      : 0;
  runtime_share.frees = mode == GP_STACKS_OFF || !gp_option_number(&options, GP_OPTION_stacks_free);
}

const gp_runtime_share_t *gp_library_runtime_share(void)
{
  return &runtime_share;
}

/* Starts the library's threads and handlers when the program first gets GPU memory. Before that the library
 * has no thread, no handler and no file. */
static void first_use(void *self)
{
  int cancel_state = gp_cancel_hold(); /* the calls below start threads and wait for them */

  (void)gp_emergency_pages_prepare(); /* if this fails, a snapshot may fail later, with a message */
  gp_triggers_start(the_snapshots, the_engine, &options);
  if (gp_option_number(&options, GP_OPTION_control))
    gp_control_start(the_recorder, the_snapshots, the_engine);
  gp_cancel_restore(cancel_state);
}

static void peak(void *self, int device, uint64_t bytes)
{
  (void)self;
  gp_triggers_peak(the_snapshots, the_engine, device, bytes);
}

static void finish(void);

/* For thread tests: makes threads pause at random around locks (base/lock.h). */
static void leave_gaps(void)
{
#if GP_DEBUG_LEVEL >= 1
  const char *one_in = secure_getenv("GP_LOCK_GAPS");
  if (one_in)
    gp_lock_leave_gaps((unsigned)strtoul(one_in, NULL, 10));
#endif
}

static void read_settings(gp_option_problem_fn problem)
{
  static gp_settings_files_t files; /* too large for a small stack */

  gp_assert(gp_lock_is_held(&start_lock));
  gp_settings_files_find(&files, from_environment, NULL);
  gp_settings_read(&options, from_environment, NULL, &files, problem, NULL);
}

/* Reads the settings and opens the log. */
static void begin_messages(void)
{
  read_settings(NULL);
  gp_log_init((int)gp_option_number(&options, GP_OPTION_verbose), -1);
  gp_log_init((int)gp_option_number(&options, GP_OPTION_verbose), open_log());
  /* Reads the settings again, now that messages go to the right file. */
  read_settings(log_problem);
  gp_options_check_names(environ, log_problem, NULL);
  log_options();
}

/* Replaces pool types that need driver 12.5 by round. Before 12.5 only the program's own synchronizations
 * prove that work is complete. Memory freed beyond GPUPOOL_MAX_DEFERRED must then be released to the driver,
 * which does not know parts of larger allocations. */
static void replace_type(void)
{
  uint64_t type = gp_option_number(&options, GP_OPTION_type);

  if (driver.ops->fence_record || (type != GP_TYPE_SEGMENT && type != GP_TYPE_VMM))
    return;
  gp_log(GP_LOG_ERROR, "GPUPOOL_TYPE=%s needs driver 12.5 or newer; round is used",
      gp_option_text(&options, GP_OPTION_type));
  (void)gp_option_parse(GP_OPTION_type, "round", &options, NULL, NULL);
}

/* GPUPOOL_CHECK reports who allocated and freed the damaged memory, which needs the stacks of all requests.
 */
static void imply_stacks(void)
{
  static const struct {
    gp_option_id_t id;
    const char *value;
  } implied[] = {{GP_OPTION_stacks, "native"}, {GP_OPTION_stacks_free, "1"}};

  for (size_t i = 0; i < 2 && gp_option_number(&options, GP_OPTION_check); i++)
    if (options.values[implied[i].id].source == GP_OPTION_FROM_DEFAULT)
      (void)gp_option_parse(implied[i].id, implied[i].value, &options, NULL, NULL);
}

static library_state_t start(void)
{
  int version = 0;

  gp_assert(gp_lock_is_held(&start_lock) && starting && !the_engine);

  leave_gaps();
  begin_messages();
  if (gp_option_number(&options, GP_OPTION_disable))
    return LIBRARY_OFF;
  if (!gp_real_is_glibc()) { /* no driver supports other C libraries, so the library is untested there */
    gp_log(
        GP_LOG_ERROR, "the C library of this program is not glibc; nothing is pooled, limited or recorded");
    return LIBRARY_OFF;
  }
  if (gp_escape_check())
    return LIBRARY_OFF;

  driver = gp_driver_cuda(&version);
  replace_type();
  imply_stacks();
  the_recorder = gp_recorder_create(&options, driver.ops->now_ns, driver.self);
  the_snapshots = the_recorder ? gp_snapshot_writer_create(the_recorder) : NULL;
  if (!the_snapshots) {
    gp_recorder_destroy(the_recorder);
    the_recorder = NULL;
    gp_log(GP_LOG_ERROR, "out of host memory: nothing is recorded, and no snapshots will be written");
  }
  gp_observer_t observer = the_recorder ? gp_recorder_observer(the_recorder) : (gp_observer_t){0};
  if (the_recorder) {
    observer.first_use = first_use;
    observer.peak = peak;
  }
  the_engine = gp_engine_create(&driver, &observer, &options);
  if (!the_engine) {
    gp_log(GP_LOG_ERROR, "out of host memory: the program runs without the pool");
    return LIBRARY_OFF;
  }
  gp_escape_look_for_unknown(the_engine);
  if (the_recorder) {
    gp_snapshot_writer_attach(the_snapshots, the_engine);
    gp_recorder_set_versions(the_recorder, version, 0);
  }
  make_way_for_tools();
  share_runtime();
  gp_driver_cuda_watch_escapes(the_engine);
  if (gp_option_number(&options, GP_OPTION_nvtx))
    gp_nvtx_say_what_is_missing();
  (void)at_quick_exit(finish); /* quick_exit runs no destructors; if registering fails, there is no report */
  return LIBRARY_ACTIVE;
}

/* The slow path of gp_library_engine: for the first call in this process, for calls while another thread
 * starts the library, and for all calls while the library is off. */
static __attribute__((noinline)) gp_engine_t *engine_slowly(void)
{
  if (!gp_process_is_ours())
    abandon();
  /* The caller continues with GP_REAL, which returns an error while there is no driver; the library starts
   * once there is one. */
  if (!gp_real_bind() || atomic_load(&state) == LIBRARY_OFF || starting)
    return NULL;
  gp_process_watch(abandon);           /* before taking the lock, which a child could inherit */
  int cancel_state = gp_cancel_hold(); /* the start opens files, writes messages and calls the driver */
  starting = true;
  gp_lock_take(&start_lock);
  if (atomic_load(&state) == LIBRARY_NEW)
    atomic_store(&state, start());
  gp_lock_release(&start_lock);
  starting = false;
  gp_cancel_restore(cancel_state);
  if (atomic_load(&state) != LIBRARY_ACTIVE)
    return NULL;
  if (the_recorder)
    gp_early_marks_flush(the_recorder);
  /* Opens libraries, so the call comes after the release of the lock. This thread may wait for the loader
   * here, as it has just done in gp_real_bind. */
  if (gp_option_number(&options, GP_OPTION_stacks) != GP_STACKS_OFF)
    gp_unwind_prepare();
  return the_engine;
}

gp_engine_t *gp_library_engine(void)
{
  gp_origin_begin_call();
  if (atomic_load_explicit(&state, memory_order_acquire) == LIBRARY_ACTIVE && gp_process_is_ours()) {
    gp_assert_internal(gp_locks_held() == 0); /* a hook may wait in the driver, so it holds no lock */
    if (gp_after_unknown_is_due)
      gp_after_unknown_look(the_engine);
    return the_engine;
  }
  return engine_slowly();
}

struct gp_recorder *gp_library_recorder(void)
{
  return the_recorder;
}

struct gp_recorder *gp_library_started_recorder(void)
{
  return atomic_load_explicit(&state, memory_order_acquire) == LIBRARY_ACTIVE && gp_process_is_ours()
             ? the_recorder
             : NULL;
}

gp_engine_t *gp_library_nvml_engine(void)
{
  bool answers = atomic_load_explicit(&state, memory_order_acquire) == LIBRARY_ACTIVE &&
                 gp_option_number(&options, GP_OPTION_nvml) == GP_NVML_LIMIT;
  return answers ? gp_library_engine() : NULL;
}

bool gp_library_records_nvtx(void)
{
  int cancel_state = gp_cancel_hold(); /* opens the settings files */
  gp_process_watch(abandon);
  gp_lock_take(&start_lock);
  if (atomic_load(&state) == LIBRARY_NEW)
    read_settings(NULL);
  bool records = gp_option_number(&options, GP_OPTION_nvtx) && !gp_option_number(&options, GP_OPTION_disable);
  gp_lock_release(&start_lock);
  gp_cancel_restore(cancel_state);
  return records;
}

struct gp_snapshot_writer *gp_library_snapshots(void)
{
  return the_snapshots;
}

void gp_library_stop_pooling(void)
{
  if (atomic_load(&state) == LIBRARY_ACTIVE && gp_process_is_ours())
    gp_engine_stop_pooling(the_engine);
  else
    abandon();
}

#if GP_DEBUG_LEVEL >= 1
/* Returns true if the pool owns the address. The simulated driver checks this before it frees memory
 * (test/sim/memory.c). */
__attribute__((visibility("default"))) bool gpupool_debug_holds(uint64_t address);

bool gpupool_debug_holds(uint64_t address)
{
  return atomic_load(&state) == LIBRARY_ACTIVE && gp_process_is_ours() &&
         gp_engine_holds(the_engine, address);
}
#endif

/* In a debug build, checks that the engine's accounts balance at exit. Does nothing if other threads exist,
 * because they may be in the middle of a call, with unbalanced accounts. */
static void check_books(void)
{
#if GP_DEBUG_LEVEL >= 3
  struct dirent *entry;
  int threads = 0;
  DIR *tasks = opendir("/proc/self/task");

  while (tasks && (entry = readdir(tasks)))
    threads += entry->d_name[0] != '.';
  if (tasks)
    (void)closedir(tasks);
  gp_assert_full(threads != 1 || gp_engine_check(the_engine));
#endif
}

/*
 * Writes the reports at exit, after the program's own exit handlers and the destructors of libraries, so that
 * the reports include their frees. The function calls no driver function and releases no memory: the driver
 * may be gone, and the memory ends with the process.
 */
static void write_reports(void)
{
  gp_assert(the_engine && gp_locks_held() == 0);
  gp_control_stop();
  if (!gp_engine_locks_available(the_engine)) {
    gp_log(GP_LOG_ERROR, "the program exited during an allocation; no snapshot is written");
    if (the_snapshots)
      gp_snapshot_leave_record(the_snapshots);
    return;
  }
  check_books();
  (void)gp_escape_check(); /* checks libraries that were loaded since the start */
  if (gp_option_number(&options, GP_OPTION_stats))
    gp_report_write(the_engine);
  gp_engine_tell_peaks(the_engine);         /* reports peaks of memory that was never freed */
  (void)gp_snapshot_at_exit(the_snapshots); /* logs its own errors */
  gp_snapshot_close(the_snapshots);
}

static void finish(void)
{
  if (atomic_load(&state) != LIBRARY_ACTIVE || !gp_process_is_ours())
    return;
  int cancel_state = gp_cancel_hold(); /* exit() may be called with a cancellation pending */
  write_reports();
  gp_cancel_restore(cancel_state);
}

int __cxa_atexit(void (*fn)(void *arg), void *arg, void *library); /* Itanium C++ ABI, 3.3.6.3 */

static atomic_bool is_finishing;
static _Thread_local bool finishing __attribute__((tls_model("initial-exec")));

/*
 * Exit handler that writes the reports in one thread and makes other threads wait. Before glibc 2.41, threads
 * that call exit() at the same time share the handlers, and the first thread that finds none left ends the
 * process. So several handlers are registered, and each thread takes one. The first thread writes the reports
 * and continues to end the process. The others wait in their handlers, as they do in exit() since 2.41, and
 * register another one for the next thread. All handlers are the same function, because glibc 2.36 and later
 * do not run more than 32 handlers that were registered during exit in reverse order of registration.
 */
static void finish_or_wait(void *unused)
{
  struct timespec left = {.tv_sec = FINISH_SECONDS}; /* not longer: a handler may wait for this thread */

  if (finishing || !gp_process_is_ours())
    return;
  if (!atomic_exchange(&is_finishing, true)) {
    finishing = true; /* a signal handler may call exit() from here */
    finish();
    return;
  }
  int cancel_state = gp_cancel_hold();
  (void)__cxa_atexit(finish_or_wait, unused, NULL); /* if this fails, the next thread ends the process */
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
  gp_cancel_restore(cancel_state);
}

/* Registers the exit handlers. Returns false if there is no host memory for a handler. */
static bool prepare_to_finish(void)
{
  if (__cxa_atexit(finish_or_wait, NULL, NULL) != 0)
    return false;
  for (int i = 0; i < EXITING_THREADS; i++)
    (void)__cxa_atexit(finish_or_wait, NULL, NULL); /* if this fails, a thread may end the process early */
  return true;
}

/* Reports, at exit, that no call has reached this library although the process has a driver. Another library
 * has then bypassed this one, and the user must be informed. */
static void tell_if_passed_by(void)
{
  if (!gp_escape_is_possible() || !gp_real_bind())
    return;
  int cancel_state = gp_cancel_hold(); /* opens files and writes messages */
  gp_process_watch(abandon);
  gp_lock_take(&start_lock);
  begin_messages();
  bool is_wanted = !gp_option_number(&options, GP_OPTION_disable);
  gp_lock_release(&start_lock);
  if (is_wanted)
    (void)gp_escape_check();
  gp_cancel_restore(cancel_state);
}

#ifdef GP_COUNTED
static const bool is_counted = true;
#else
static const bool is_counted = false;
#endif

/*
 * The loader runs the destructors of a preloaded library before those of libraries loaded after it, unless
 * the preloaded library depends on them. An exit handler that is registered now runs after all destructors
 * (exit(3): a handler may register another). It is registered for no particular library, so the unloading of
 * a library does not run it early.
 *
 * A build with line counts (b_coverage) writes the counts in a destructor that runs after this one, and then
 * stops counting. So in such a build the library finishes here, and misses later frees.
 */
__attribute__((destructor)) static void begin_to_finish(void)
{
  if (atomic_load(&state) == LIBRARY_NEW && gp_process_is_ours())
    tell_if_passed_by();
  if (atomic_load(&state) != LIBRARY_ACTIVE || !gp_process_is_ours() || (!is_counted && prepare_to_finish()))
    return;
  if (!is_counted)
    gp_log(GP_LOG_ERROR,
        "out of host memory for an exit handler: the report at exit may show memory as in use that libraries free later");
  finish();
}
