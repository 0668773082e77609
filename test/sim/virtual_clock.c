/*
 * A monotonic clock of the process's own, to be preloaded: sleeping takes no real time but moves the clock
 * on. A program that waits for a minute is done in a moment, and sees that a minute has passed.
 *
 * The clock starts at the real one and goes on by itself by 1 us for each reading. A sleep ends when every
 * other thread is blocked, so those that run see the clock stand; sleeps end in the order of their ends,
 * whichever thread began first. Real time moves the clock only beside a thread that neither sleeps nor blocks
 * for longer than a sleep is to last: the sleep then ends after that real time. sched_yield is a sleep of
 * 100 us, so that a loop around it ends. So a program whose threads sleep, or block on each other, sees
 * the same times in every run, but for the order of threads that run at once.
 *
 * Not moved: CLOCK_REALTIME and the clocks of processor time, and what waits for these or with a timeout of
 * its own (pthread_cond_timedwait, sem_timedwait, poll). A thread that waits so, or for another process, is
 * blocked: the sleeps of other threads end meanwhile. Sleeps are not interrupted by signals. A child process
 * has a clock of its own, which starts at its parent's.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT     __attribute__((visibility("default")))
#define READING_NS 1000u
#define YIELD_NS   100000u

enum { SHORTEST_LOOK_NS = 20000, LONGEST_LOOK_NS = 2000000 }; /* real time between two looks */

typedef struct sleeper {
  uint64_t end_ns;
  struct sleeper *next;
} sleeper_t;

static _Atomic uint64_t now_ns; /* 0: not started */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sleeper_t *sleepers; /* by their ends, the first first; under the mutex */

static uint64_t to_ns(const struct timespec *time)
{
  return (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
}

static struct timespec to_timespec(uint64_t ns)
{
  return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

static uint64_t real_ns(void)
{
  struct timespec now;
  (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now); /* cannot fail */
  return to_ns(&now);
}

static uint64_t read_clock(void)
{
  uint64_t now = atomic_load(&now_ns);
  if (now == 0)
    (void)atomic_compare_exchange_strong(&now_ns, &now, real_ns());
  return atomic_fetch_add(&now_ns, READING_NS) + READING_NS;
}

static void advance(uint64_t to)
{
  uint64_t now = atomic_load(&now_ns);
  while (now < to && !atomic_compare_exchange_weak(&now_ns, &now, to))
    ;
}

/* ---- whether the other threads are blocked ---- */

static long count_switches(void)
{
  struct rusage usage;
  (void)getrusage(RUSAGE_SELF, &usage); /* cannot fail */
  return usage.ru_nvcsw;
}

/* Files of /proc/self/task, which stay open: opening them is most of a look. Of the thread that looks, which
 * is one at a time: the first sleeper. Descriptors with high numbers, which no program expects. */
enum { LOWEST_FD = 700, MOST_THREADS = 256 };

static pthread_mutex_t look_mutex = PTHREAD_MUTEX_INITIALIZER;
static int task_fd = -1;   /* of the folder */
static pid_t task_process; /* whose */
static struct {
  long number;
  int fd; /* of its file stat */
} threads[MOST_THREADS];
static int thread_count;

static int keep(int fd)
{
  int high = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD) : -1;
  if (high < 0)
    return fd; /* fewer are allowed */
  (void)close(fd);
  return high;
}

static void forget_threads(void)
{
  while (thread_count > 0)
    (void)close(threads[--thread_count].fd);
}

static void list_threads(void)
{
  forget_threads();
  DIR *tasks = opendir("/proc/self/task");
  if (!tasks)
    abort();
  for (struct dirent *entry; (entry = readdir(tasks));) {
    char path[300];
    (void)snprintf(path, sizeof path, "%s/stat", entry->d_name);
    int fd = entry->d_name[0] != '.' ? keep(openat(dirfd(tasks), path, O_RDONLY | O_CLOEXEC)) : -1;
    if (fd < 0)
      continue; /* it has ended */
    if (thread_count == MOST_THREADS)
      abort();
    threads[thread_count].number = atol(entry->d_name);
    threads[thread_count++].fd = fd;
  }
  (void)closedir(tasks);
}

/* Lists the threads anew if there are others: more, or fewer. One that takes the place of one that has ended
 * is found when that is read. */
static void update_threads(void)
{
  struct stat folder;
  if (task_process != getpid()) { /* not those of the parent of a child */
    forget_threads();
    if (task_fd >= 0)
      (void)close(task_fd);
    task_fd = keep(open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    task_process = getpid();
  }
  if (fstat(task_fd, &folder) != 0 || (nlink_t)thread_count + 2 != folder.st_nlink)
    list_threads();
}

enum { ENDED, BLOCKED, RUNS };

/* Running, or about to: by the letter after the name of the thread (proc(5), /proc/pid/stat) */
static int state_of(int fd)
{
  char text[512];
  ssize_t length = pread(fd, text, sizeof text - 1, 0);
  if (length <= 0)
    return ENDED;
  text[length] = '\0';
  const char *name_end = strrchr(text, ')');
  return name_end && strchr("RD", name_end[2]) ? RUNS : BLOCKED;
}

/* The threads are looked at one by one. That none ran at any moment in between is certain, as a thread that
 * stops running is counted. */
static bool others_are_blocked(void)
{
  const long self = syscall(SYS_gettid);
  bool found = false;
  pthread_mutex_lock(&look_mutex);
  long before = count_switches();
  update_threads();
  for (int i = 0; !found && i < thread_count; i++) {
    int state = threads[i].number != self ? state_of(threads[i].fd) : BLOCKED;
    if (state == ENDED) { /* one that has begun may not be listed */
      list_threads();
      i = -1;
    }
    found = state == RUNS;
  }
  bool blocked = !found && count_switches() == before;
  pthread_mutex_unlock(&look_mutex);
  return blocked;
}

/* ---- sleeping ---- */

static void insert(sleeper_t *self)
{
  sleeper_t **link = &sleepers;
  while (*link && (*link)->end_ns <= self->end_ns)
    link = &(*link)->next;
  self->next = *link;
  *link = self;
}

static void take_out(const sleeper_t *self)
{
  sleeper_t **link = &sleepers;
  while (*link != self)
    link = &(*link)->next;
  *link = self->next;
}

/* The first to wake looks at the others without the mutex, since one that waits for it is about to sleep.
 * Less and less often, since a thread that looks is not blocked. */
static void wait_for_end(const sleeper_t *self, uint64_t real_end)
{
  struct timespec pause = {.tv_nsec = SHORTEST_LOOK_NS};
  while (atomic_load(&now_ns) < self->end_ns) {
    bool first = sleepers == self;
    pthread_mutex_unlock(&mutex);
    bool over = first && (others_are_blocked() || real_ns() >= real_end);
    if (!over) {
      (void)syscall(SYS_nanosleep, &pause, NULL);
      if (pause.tv_nsec < LONGEST_LOOK_NS)
        pause.tv_nsec *= 2;
    }
    pthread_mutex_lock(&mutex);
    if (over && sleepers == self)
      advance(self->end_ns);
  }
}

static void sleep_until(uint64_t end_ns)
{
  int cancelable, error = errno;
  sleeper_t self = {.end_ns = end_ns};
  uint64_t now = read_clock();
  pthread_testcancel(); /* all of these are cancellation points */
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
  pthread_mutex_lock(&mutex);
  insert(&self);
  wait_for_end(&self, real_ns() + (end_ns > now ? end_ns - now : 0));
  take_out(&self);
  pthread_mutex_unlock(&mutex);
  errno = error;
  (void)pthread_setcancelstate(cancelable, NULL);
  pthread_testcancel();
}

/* A forked child has one thread, which was not asleep. */
static void start_child(void)
{
  pthread_mutex_init(&mutex, NULL);
  pthread_mutex_init(&look_mutex, NULL);
  sleepers = NULL;
}

__attribute__((constructor)) static void start(void)
{
  (void)pthread_atfork(NULL, NULL, start_child);
}

/* ---- the functions of the C library ---- */

static bool is_virtual(clockid_t clock)
{
  return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_RAW || clock == CLOCK_MONOTONIC_COARSE ||
         clock == CLOCK_BOOTTIME;
}

static bool is_valid(const struct timespec *time)
{
  return time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < 1000000000;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *ret)
{
  if (!is_virtual(clock))
    return (int)syscall(SYS_clock_gettime, clock, ret);
  *ret = to_timespec(read_clock());
  return 0;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *ret_left)
{
  if (!is_valid(time))
    return EINVAL;
  if (is_virtual(clock) || (clock == CLOCK_REALTIME && !(flags & TIMER_ABSTIME))) {
    sleep_until(flags & TIMER_ABSTIME ? to_ns(time) : read_clock() + to_ns(time));
    return 0;
  }
  return syscall(SYS_clock_nanosleep, clock, flags, time, ret_left) == 0 ? 0 : errno;
}

EXPORT int nanosleep(const struct timespec *time, struct timespec *ret_left)
{
  (void)ret_left; /* nothing interrupts it */
  if (!is_valid(time)) {
    errno = EINVAL;
    return -1;
  }
  sleep_until(read_clock() + to_ns(time));
  return 0;
}

EXPORT int usleep(useconds_t us)
{
  sleep_until(read_clock() + (uint64_t)us * 1000u);
  return 0;
}

EXPORT unsigned sleep(unsigned seconds)
{
  sleep_until(read_clock() + (uint64_t)seconds * 1000000000u);
  return 0;
}

EXPORT int sched_yield(void)
{
  sleep_until(read_clock() + YIELD_NS);
  return 0;
}
