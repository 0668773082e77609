#include "trace/control/triggers.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "base/signal_name.h"
#include "trace/control/helper_thread.h"

#define SIGNALS 65 /* the signals of Linux have the numbers 1 to 64 */

/* The data that the signal handler uses. There is one instance per process, set before any handler is
 * installed. */
static struct {
  pid_t pid;
  sem_t wake; /* a semaphore and not a descriptor, which the program might close and reuse */
  struct sigaction previous[SIGNALS];
  atomic_bool was_called[SIGNALS]; /* for a previous handler that runs only once (SA_RESETHAND) */
} signals;

static void call_previous(int number, siginfo_t *info, void *context)
{
  const struct sigaction *previous = &signals.previous[number];

  if ((previous->sa_flags & (int)SA_RESETHAND) && atomic_exchange(&signals.was_called[number], true))
    return;
  if (previous->sa_flags & SA_SIGINFO)
    previous->sa_sigaction(number, info, context);
  else if (previous->sa_handler != SIG_DFL && previous->sa_handler != SIG_IGN)
    previous->sa_handler(number);
}

/* Handles a signal: wakes the thread that writes snapshots, and calls the program's previous handler. Apart
 * from that handler it calls only sem_post, so it is async-signal-safe. */
static void on_signal(int number, siginfo_t *info, void *context)
{
  int saved_errno = errno;
  if (getpid() == signals.pid)
    (void)sem_post(&signals.wake); /* fails only if 2^31 - 1 posts are waiting */
  errno = saved_errno;
  call_previous(number, info, context);
}

/* Writes a snapshot after each signal. If several signals arrive during a snapshot, they cause one more
 * snapshot together. */
static void *write_when_woken(void *arg)
{
  for (;;) {
    while (sem_wait(&signals.wake) != 0) {
    }
    while (sem_trywait(&signals.wake) == 0) {
    }
    (void)gp_snapshot_write(arg, "signal", NULL, NULL); /* any error was logged */
  }
  return NULL;
}

static bool is_function(const struct sigaction *action)
{
  return (action->sa_flags & SA_SIGINFO) || (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

static void install(int number)
{
  struct sigaction *previous = &signals.previous[number];
  struct sigaction ours;
  char name[GP_SIGNAL_NAME_BYTES];

  (void)sigaction(number, NULL, previous); /* cannot fail for a valid signal, nor can the call below */
  bool chained = is_function(previous);
  memset(&ours, 0, sizeof(ours));
  ours.sa_sigaction = on_signal;
  /* Keeps the previous handler's flags. If there is none, requests that system calls are restarted, so that
   * none fails because of the library. Uses the alternate stack if there is one, because the stacks of some
   * programs are too small. */
  ours.sa_flags =
      SA_SIGINFO | SA_ONSTACK | (chained ? previous->sa_flags & (SA_RESTART | (int)SA_NODEFER) : SA_RESTART);
  if (chained)
    ours.sa_mask = previous->sa_mask;
  (void)sigaction(number, &ours, NULL);
  gp_log(GP_LOG_INFO, "%s writes a snapshot%s", gp_signal_name(number, name),
      chained                           ? ", and calls the program's handler"
      : previous->sa_handler == SIG_IGN ? ""
                                        : ", and no longer ends the program");
}

/* The newest peak snapshot of each device. The table exists once per process. It needs no lock, because the
 * engine calls gp_triggers_peak from one thread at a time. */
static gp_snapshot_name_t peak_files[GP_MAX_DEVICES];

void gp_triggers_peak(gp_snapshot_writer_t *writer, gp_engine_t *engine, int device, uint64_t bytes)
{
  uint64_t step = bytes / 10 > GP_PEAK_STEP ? bytes / 10 : GP_PEAK_STEP;

  (void)gp_snapshot_write_named(writer, "peak", NULL, &peak_files[device]); /* any error was logged */
  gp_engine_watch_use(engine, device, bytes + step);
}

static void watch_peaks(gp_engine_t *engine)
{
  for (int device = 0; device < GP_MAX_DEVICES; device++)
    gp_engine_watch_use(engine, device, GP_PEAK_STEP);
}

static void start_signals(gp_snapshot_writer_t *writer, uint64_t wanted)
{
  char text[128];

  signals.pid = getpid();
  (void)sem_init(&signals.wake, 0, 0); /* cannot fail */
  int error = gp_helper_thread_start(write_when_woken, writer);
  if (error) {
    gp_log(GP_LOG_ERROR, "cannot start a thread (%s); no signal will write a snapshot",
        strerror_r(error, text, sizeof(text)));
  } else {
    for (int number = 1; number < SIGNALS; number++)
      if (wanted >> (number - 1) & 1)
        install(number);
  }
}

void gp_triggers_start(gp_snapshot_writer_t *writer, gp_engine_t *engine, const gp_options_t *options)
{
  int saved_errno = errno;

  if (gp_option_number(options, GP_OPTION_snapshot_at) & GP_SNAPSHOT_AT_PEAK)
    watch_peaks(engine);
  if (options->snapshot_signals)
    start_signals(writer, options->snapshot_signals);
  errno = saved_errno;
}
