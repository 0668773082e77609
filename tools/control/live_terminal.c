#include "tools/control/live_terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "tools/output.h"

#define ENTER                "\033[?1049h\033[?25l" /* the alternate screen, no cursor */
#define LEAVE                "\033[?25h\033[?1049l"
#define HOME                 "\033[H"
#define CLEAR_TO_END_OF_LINE "\033[K"
#define CLEAR_BELOW          "\033[J"

static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP};
#define HANDLED_COUNT (sizeof(handled) / sizeof(handled[0]))

static struct {
  bool is_taken;
  bool has_exit_handler;
  struct termios before;
  struct sigaction actions[HANDLED_COUNT];
  sigset_t mask_before; /* signals are blocked except while waiting, so none is lost in between */
  volatile sig_atomic_t ended_by;
  volatile sig_atomic_t was_stopped;
} terminal;

static void on_signal(int number)
{
  if (number == SIGTSTP)
    terminal.was_stopped = 1;
  else if (number != SIGWINCH)
    terminal.ended_by = number;
}

static void put(const char *text, size_t length)
{
  (void)gp_write_all(STDOUT_FILENO, text, length); /* where the terminal has gone, a signal will follow */
}

static void set_mode(bool ours)
{
  struct termios mode = terminal.before;
  if (ours) {
    mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    mode.c_cc[VMIN] = 1;
    mode.c_cc[VTIME] = 0;
    put(ENTER, strlen(ENTER));
  } else {
    put(LEAVE, strlen(LEAVE));
  }
  (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &mode); /* the terminal may have gone */
}

static void restore(void)
{
  if (!terminal.is_taken)
    return;
  terminal.is_taken = false;
  set_mode(false);
  for (size_t i = 0; i < HANDLED_COUNT; i++)
    (void)sigaction(handled[i], &terminal.actions[i], NULL); /* as before */
  (void)sigprocmask(SIG_SETMASK, &terminal.mask_before, NULL);
}

bool gp_terminal_enter(void)
{
  struct sigaction action;
  sigset_t blocked;

  if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &terminal.before) != 0)
    return false;
  memset(&action, 0, sizeof(action));
  action.sa_handler = on_signal;
  (void)sigemptyset(&blocked); /* none of these can fail */
  for (size_t i = 0; i < HANDLED_COUNT; i++)
    (void)sigaddset(&blocked, handled[i]);
  (void)sigprocmask(SIG_BLOCK, &blocked, &terminal.mask_before);
  for (size_t i = 0; i < HANDLED_COUNT; i++)
    (void)sigaction(handled[i], &action, &terminal.actions[i]);
  if (!terminal.has_exit_handler)
    terminal.has_exit_handler = atexit(restore) == 0;
  terminal.is_taken = true;
  set_mode(true);
  return true;
}

void gp_terminal_leave(void)
{
  int number = terminal.ended_by;
  if (!terminal.is_taken)
    return;
  restore();
  if (number)
    (void)raise(number); /* our parent process sees the cause */
}

static void stop(void)
{
  set_mode(false);
  (void)raise(SIGSTOP); /* execution continues here */
  set_mode(true);
}

gp_terminal_event_t gp_terminal_wait(unsigned wait_ms, int fd, short events, char *ret_key)
{
  const struct timespec wait = {wait_ms / 1000, (long)(wait_ms % 1000) * 1000000};
  struct pollfd waiting[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = fd, .events = events}};

  int ready = ppoll(waiting, 2, &wait, &terminal.mask_before);
  if (terminal.ended_by)
    return GP_TERMINAL_SIGNAL;
  if (terminal.was_stopped) {
    terminal.was_stopped = 0;
    stop();
    return GP_TERMINAL_TIME;
  }
  if (ready <= 0)
    return GP_TERMINAL_TIME;
  if (!waiting[0].revents)
    return GP_TERMINAL_READY;
  if (read(STDIN_FILENO, ret_key, 1) == 1)
    return GP_TERMINAL_KEY;
  terminal.ended_by = SIGHUP; /* the terminal has gone and sends no more keys */
  return GP_TERMINAL_SIGNAL;
}

void gp_terminal_show(const char *text, size_t length)
{
  put(HOME, strlen(HOME));
  for (const char *end = text + length; text < end;) {
    const char *line_end = memchr(text, '\n', (size_t)(end - text));
    if (!line_end)
      line_end = end;
    put(text, (size_t)(line_end - text));
    put(CLEAR_TO_END_OF_LINE, strlen(CLEAR_TO_END_OF_LINE));
    text = line_end + 1;
    if (text < end)
      put("\n", 1); /* not after the last line: that would scroll a full screen */
  }
  put(CLEAR_BELOW, strlen(CLEAR_BELOW));
}

void gp_terminal_size(unsigned *ret_columns, unsigned *ret_rows)
{
  struct winsize size = {0};
  bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
  *ret_columns = known ? size.ws_col : 80;
  *ret_rows = known ? size.ws_row : 24;
}
