#include "tools/control/live_frame.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "tools/control/control_client.h"
#include "tools/tool.h"

#define ENTER                "\033[?1049h\033[?25l" /* alternate screen, hidden cursor */
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
  sigset_t mask_before; /* original mask; live blocks signals except while it waits, so it misses none */
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
  (void)gp_write_all(STDOUT_FILENO, text, length); /* on failure the terminal is gone, and a signal follows */
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
  (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &mode); /* fails only if the terminal is gone */
}

static void restore(void)
{
  if (!terminal.is_taken)
    return;
  terminal.is_taken = false;
  set_mode(false);
  for (size_t i = 0; i < HANDLED_COUNT; i++)
    (void)sigaction(handled[i], &terminal.actions[i], NULL); /* restores the earlier handler */
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
    (void)raise(number); /* with the same signal, so that the parent process sees the cause */
}

static void stop(void)
{
  set_mode(false);
  (void)raise(SIGSTOP); /* the process continues here after SIGCONT */
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
  terminal.ended_by = SIGHUP; /* the terminal is gone and sends no more keys */
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
      put("\n", 1); /* no line end after the last line, because it would scroll a full screen */
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

#define TEXT_BYTES  (GP_NUMBER_BYTES > GP_SIZE_TEXT_BYTES ? GP_NUMBER_BYTES : GP_SIZE_TEXT_BYTES)
#define MIN_COLUMNS 40
#define MAX_COLUMNS 200

static uint64_t member(const cJSON *stats, const char *gauge, const char *name)
{
  return gp_control_number(cJSON_GetObjectItem(stats, gauge), name);
}

static double per_second(uint64_t before, uint64_t now, uint64_t elapsed_ns)
{
  return elapsed_ns && now >= before ? (double)(now - before) * 1e9 / (double)elapsed_ns : -1;
}

static void update_device(
    gp_monitor_device_t *device, const cJSON *answer, uint64_t elapsed_ns, uint64_t sample)
{
  const cJSON *stats = cJSON_GetObjectItem(answer, "stats");
  const cJSON *use = cJSON_GetObjectItem(answer, "use");
  uint64_t allocations = device->hits + device->misses;
  uint64_t calls = device->driver_calls;

  device->limit = gp_control_number(answer, "limit");
  device->total = gp_control_number(use, "total");
  device->device_free = gp_control_number(use, "free");
  device->allocated = member(stats, "allocated_bytes", "current");
  device->deferred = member(stats, "deferred_bytes", "current");
  device->cached = member(stats, "cached_bytes", "current");
  device->forwarded = member(stats, "passthrough_bytes", "current");
  device->reserved = member(stats, "reserved_bytes", "current");
  device->peak_allocated = member(stats, "allocated_bytes", "peak");
  device->peak_reserved = member(stats, "reserved_bytes", "peak");
  device->hits = gp_control_number(stats, "cache_hits");
  device->misses = gp_control_number(stats, "cache_misses");
  device->driver_calls = gp_control_number(stats, "driver_allocs") + gp_control_number(stats, "driver_frees");
  device->ooms = gp_control_number(stats, "num_ooms");
  if (!device->is_there)
    elapsed_ns = 0;
  device->allocations_per_second = per_second(allocations, device->hits + device->misses, elapsed_ns);
  device->calls_per_second = per_second(calls, device->driver_calls, elapsed_ns);
  device->history[sample % GP_MONITOR_HISTORY] = device->reserved + device->forwarded;
  device->is_there = true;
}

void gp_monitor_update(gp_monitor_t *monitor, const cJSON *stats)
{
  uint64_t time_ns = gp_control_number(stats, "time_ns");
  uint64_t elapsed_ns = monitor->samples && time_ns > monitor->time_ns ? time_ns - monitor->time_ns : 0;
  const cJSON *answer;

  monitor->pid = (int)gp_control_number(stats, "pid");
  monitor->time_ns = time_ns;
  gp_printable(gp_control_text(stats, "program"), monitor->program, sizeof(monitor->program));
  gp_printable(gp_control_text(stats, "trace"), monitor->trace, sizeof(monitor->trace));
  cJSON_ArrayForEach(answer, cJSON_GetObjectItem(stats, "devices"))
  {
    uint64_t ordinal = gp_control_number(answer, "device");
    if (ordinal < GP_MAX_DEVICES)
      update_device(&monitor->devices[ordinal], answer, elapsed_ns, monitor->samples);
  }
  monitor->samples++;
}

/* Printing a frame. A line consists of text and style sequences; only the text counts towards its width. */
typedef struct page {
  const gp_monitor_layout_t *layout;
  const gp_output_t *output;
  unsigned columns;
  unsigned lines;
} page_t;

static bool has_room(const page_t *page, unsigned lines)
{
  return !page->layout->rows || page->lines + lines <= page->layout->rows;
}

static void end_line(page_t *page)
{
  fputs(gp_output_style(page->output, GP_STYLE_PLAIN), page->output->stream);
  fputc('\n', page->output->stream);
  page->lines++;
}

/* Prints a line, truncated to the page's columns. `text` is ASCII, so truncation splits no character. */
static void print_line(page_t *page, gp_style_t style, const char *text)
{
  if (!has_room(page, 1))
    return;
  fprintf(page->output->stream, "%s%.*s", gp_output_style(page->output, style), (int)page->columns, text);
  end_line(page);
}

/* One part of the bar: its bytes and how to draw it. */
typedef struct part {
  uint64_t bytes;
  gp_style_t style;
  const char *unicode;
  char ascii;
} part_t;

enum { PART_ALLOCATED, PART_FORWARDED, PART_DEFERRED, PART_CACHED, PART_COUNT };

static void parts_of(const gp_monitor_device_t *device, part_t *parts)
{
  parts[PART_ALLOCATED] = (part_t){device->allocated, GP_STYLE_GOOD, "\u2588", '#'};
  parts[PART_FORWARDED] = (part_t){device->forwarded, GP_STYLE_HEADING, "\u2593", '%'};
  parts[PART_DEFERRED] = (part_t){device->deferred, GP_STYLE_WARNING, "\u2592", '+'};
  parts[PART_CACHED] = (part_t){device->cached, GP_STYLE_FAINT, "\u2591", '='};
}

/* Returns the number of bytes that a full bar represents: the limit if there is one, else the device's memory
 * if known, else the peak. */
static uint64_t scale_of(const gp_monitor_device_t *device)
{
  uint64_t held = device->reserved + device->forwarded;
  uint64_t scale = device->limit ? device->limit : device->total ? device->total : device->peak_reserved;
  return scale > held ? scale : held ? held : 1;
}

static void print_part(const page_t *page, const part_t *part, unsigned cells)
{
  fputs(gp_output_style(page->output, part->style), page->output->stream);
  while (cells-- > 0) {
    if (page->layout->unicode)
      fputs(part->unicode, page->output->stream);
    else
      fputc(part->ascii, page->output->stream);
  }
  fputs(gp_output_style(page->output, GP_STYLE_PLAIN), page->output->stream);
}

static void print_bar(page_t *page, const gp_monitor_device_t *device)
{
  const unsigned width = page->columns - 4;
  const uint64_t scale = scale_of(device);
  part_t parts[PART_COUNT];
  uint64_t sum = 0;
  unsigned used = 0;

  if (!has_room(page, 1))
    return;
  parts_of(device, parts);
  fputs("  [", page->output->stream);
  for (int i = 0; i < PART_COUNT; i++) {
    /* Rounds the ends of parts, not the lengths, so that the lengths add up. Parts with bytes get a cell. */
    sum += parts[i].bytes;
    unsigned end = (unsigned)((double)sum / (double)scale * width + 0.5);
    if (parts[i].bytes && end <= used)
      end = used + 1;
    if (end > width)
      end = width;
    print_part(page, &parts[i], end > used ? end - used : 0);
    used = end > used ? end : used;
  }
  fprintf(page->output->stream, "%*s]", (int)(width - used), "");
  end_line(page);
}

static void print_legend(page_t *page, const gp_monitor_device_t *device)
{
  static const char *const names[] = {"in use", "forwarded", "deferred", "cached"};
  part_t parts[PART_COUNT];
  unsigned used = 0;

  if (!has_room(page, 1))
    return;
  parts_of(device, parts);
  for (int i = 0; i < PART_COUNT; i++) {
    char text[64];
    int length = snprintf(text, sizeof(text), " %s %s", names[i], GP_AS_SIZE(parts[i].bytes));
    if (used + 3 + (unsigned)length > page->columns)
      break;
    fputs("  ", page->output->stream);
    print_part(page, &parts[i], 1);
    fputs(text, page->output->stream);
    used += 3 + (unsigned)length;
  }
  end_line(page);
}

/* Prints the memory in the last samples as one line of bars, with the newest sample at the right. */
static void print_history(page_t *page, const gp_monitor_t *monitor, const gp_monitor_device_t *device)
{
  static const char *const unicode[] = {
      " ", "\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"};
  static const char ascii[] = " .:-=+*#@";
  const unsigned width = page->columns - 4;
  const uint64_t scale = scale_of(device);
  uint64_t count = monitor->samples < GP_MONITOR_HISTORY ? monitor->samples : GP_MONITOR_HISTORY;

  if (!has_room(page, 1) || monitor->samples < 2)
    return;
  if (count > width)
    count = width;
  fprintf(page->output->stream, "  |%s", gp_output_style(page->output, GP_STYLE_FAINT));
  fprintf(page->output->stream, "%*s", (int)(width - count), "");
  for (uint64_t i = monitor->samples - count; i < monitor->samples; i++) {
    uint64_t held = device->history[i % GP_MONITOR_HISTORY];
    unsigned level = held ? 1 + (unsigned)((double)held / (double)scale * 7 + 0.5) : 0;
    if (level > 8)
      level = 8;
    if (page->layout->unicode)
      fputs(unicode[level], page->output->stream);
    else
      fputc(ascii[level], page->output->stream);
  }
  fprintf(page->output->stream, "%s|", gp_output_style(page->output, GP_STYLE_PLAIN));
  end_line(page);
}

static char *rate(double value, char *buffer)
{
  if (value < 0)
    return strcpy(buffer, "-");
  return gp_number_count((uint64_t)(value + 0.5), buffer);
}

static void print_device(page_t *page, const gp_monitor_t *monitor, int ordinal)
{
  const gp_monitor_device_t *device = &monitor->devices[ordinal];
  uint64_t allocations = device->hits + device->misses;
  char numbers[4][TEXT_BYTES];
  char line[MAX_COLUMNS + 1];
  int length;

  print_line(page, GP_STYLE_PLAIN, "");
  length = snprintf(line, sizeof(line), "Device %d: %s of %s", ordinal,
      gp_size_format(device->reserved + device->forwarded, numbers[0]),
      gp_size_format(scale_of(device), numbers[1]));
  snprintf(line + length, sizeof(line) - (size_t)length, "%s",
      device->limit   ? " (GPUPOOL_LIMIT)"
      : device->total ? ""
                      : " (the highest so far)");
  print_line(page, GP_STYLE_HEADING, line);
  print_bar(page, device);
  print_history(page, monitor, device);
  print_legend(page, device);
  snprintf(line, sizeof(line), "  peak: in use %s, reserved %s%s%s",
      gp_size_format(device->peak_allocated, numbers[0]), gp_size_format(device->peak_reserved, numbers[1]),
      device->total ? "; free on the device: " : "",
      device->total ? gp_size_format(device->device_free, numbers[2]) : "");
  print_line(page, GP_STYLE_PLAIN, line);
  snprintf(line, sizeof(line), "  allocations %s (%s/s), without a driver call %s, driver calls %s (%s/s)",
      gp_number_count(allocations, numbers[0]), rate(device->allocations_per_second, numbers[1]),
      allocations ? gp_number_percent((double)device->hits / (double)allocations, numbers[2]) : "-",
      gp_number_count(device->driver_calls, numbers[3]),
      rate(device->calls_per_second, (char[TEXT_BYTES]){""}));
  print_line(page, GP_STYLE_PLAIN, line);
  if (device->ooms) {
    snprintf(line, sizeof(line), "  out of memory: %s", gp_number_plural(device->ooms, "time", numbers[0]));
    print_line(page, GP_STYLE_ERROR, line);
  }
}

void gp_monitor_print(
    const gp_monitor_t *monitor, const gp_monitor_layout_t *layout, const gp_output_t *output)
{
  unsigned columns = layout->columns < MIN_COLUMNS ? MIN_COLUMNS : layout->columns;
  page_t page = {layout, output, columns > MAX_COLUMNS ? MAX_COLUMNS : columns, 0};
  gp_monitor_layout_t body = *layout;
  char line[MAX_COLUMNS + 1];
  unsigned kept = (layout->message != NULL) + layout->shows_keys;

  /* Leaves room for the message and the keys. */
  if (body.rows)
    body.rows = body.rows > kept ? body.rows - kept : 1;
  page.layout = &body;
  snprintf(line, sizeof(line), "%s, process %d: %s since its first GPU memory, recording %s",
      monitor->program, monitor->pid, GP_AS_DURATION(monitor->time_ns), monitor->trace);
  print_line(&page, GP_STYLE_PLAIN, line);
  for (int i = 0; i < GP_MAX_DEVICES; i++) {
    if (monitor->devices[i].is_there)
      print_device(&page, monitor, i);
  }
  page.layout = layout;
  if (layout->message)
    print_line(&page, GP_STYLE_WARNING, layout->message);
  if (layout->shows_keys)
    print_line(&page, GP_STYLE_FAINT, "q quit   s snapshot   e empty the cache   r reset peaks");
}
