#include "tools/control/live_all.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"
#include "tools/control/live_frame.h"
#include "tools/machine/ps_table.h"
#include "tools/model/sites.h"
#include "tools/read/load.h"
#include "tools/read/record/record_reader.h"
#include "tools/symbols/stack_owners.h"
#include "tools/symbols/symbols.h"
#include "tools/tool.h"

/*
 * Finds the functions that own a running program's memory. Reads the program's record, and counts like
 * `gpupool sites` for a snapshot.
 */

#define GP_LIVE_OWNERS      64
#define GP_LIVE_OWNER_BYTES 256

typedef struct live_owner {
  char name[GP_LIVE_OWNER_BYTES]; /* a function; may contain any character */
  uint64_t bytes;                 /* requested bytes */
  uint64_t blocks;
} live_owner_t;

typedef struct live_owners {
  live_owner_t owners[GP_LIVE_OWNERS]; /* the largest ones, sorted */
  size_t count;
  uint64_t bytes; /* of all owners, including those not listed */
} live_owners_t;

/* Makes a snapshot of the record in an unnamed file, and loads that snapshot. Returns NULL on failure. */
static gp_snapshot_t *snapshot_of(int fd)
{
  static gp_record_t record; /* too large for a stack */
  static char buffer[65536];
  gp_snapshot_t *snapshot = NULL;
  char path[64];
  gp_json_t json;

  int file = (int)syscall(SYS_memfd_create, "gpupool", MFD_CLOEXEC); /* libc may lack the function */
  if (file >= 0 && gp_record_read(fd, &record)) {
    gp_json_init(&json, file, buffer, sizeof(buffer));
    gp_document_write(&json, &record.document);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    if (gp_json_finish(&json) == 0)
      snapshot = gp_snapshot_load(path, 0);
  }
  gp_record_fini(&record);
  if (file >= 0)
    close(file);
  return snapshot;
}

static bool live_owners_find_owners(gp_snapshot_t *snapshot, live_owners_t *owners)
{
  const gp_request_t everything = {.device = GP_REQUEST_ALL_DEVICES, .until_ns = UINT64_MAX};
  gp_lifetimes_t lifetimes;
  gp_moments_t now;
  gp_filter_t filter;
  gp_sites_t sites;

  if (gp_stack_owners_find(snapshot, NULL) || gp_filter_init(&filter, &everything, snapshot, "the record"))
    return false;
  bool good = gp_lifetimes_init(&lifetimes, snapshot) == 0;
  if (good) {
    gp_moments_end(&now, &lifetimes);
    good = gp_sites_init(&sites, &lifetimes, &filter, &now, GP_SITE_BY_FUNCTION, NULL, NULL) == 0;
    gp_sites_sort(&sites, GP_SITE_LIVE, false);
    owners->bytes = sites.sums[GP_SITE_LIVE].bytes;
    for (size_t i = 0; good && i < sites.count && owners->count < GP_LIVE_OWNERS; i++) {
      const gp_site_t *site = &sites.sites[i];
      live_owner_t *owner = &owners->owners[owners->count];
      if (!site->flat[GP_SITE_LIVE].bytes)
        break;
      *owner =
          (live_owner_t){.bytes = site->flat[GP_SITE_LIVE].bytes, .blocks = site->flat[GP_SITE_LIVE].count};
      snprintf(owner->name, sizeof(owner->name), "%s", site->name);
      owners->count++;
    }
    gp_sites_fini(&sites);
  }
  gp_lifetimes_fini(&lifetimes);
  gp_filter_fini(&filter);
  return good;
}

/* Finds the owners in the record that is open at `fd`, which is borrowed. Returns false if the record cannot
 * be read or memory runs out. Not thread-safe. */
static bool live_owners_read(int fd, live_owners_t *ret_owners)
{
  ret_owners->count = 0;
  ret_owners->bytes = 0;
  gp_snapshot_t *snapshot = snapshot_of(fd);
  if (!snapshot)
    return false;
  gp_symbols_resolve(snapshot, NULL);
  bool good = live_owners_find_owners(snapshot, ret_owners);
  gp_snapshot_destroy(snapshot);
  return good;
}

#define ESCAPE         '\033'
#define ESCAPE_MS      50 /* an arrow key sends three characters at once; Escape sends one */
#define FILTER_BYTES   64
#define LINE_BYTES     256
#define OWNERS_SHARE   10 /* finding owners uses at most one tenth of the time */
#define OWNER_OVERHEAD 30 /* columns before an owner's name */

typedef enum key {
  KEY_NONE,
  KEY_UP,
  KEY_DOWN,
  KEY_OPEN,
  KEY_BACK,
  KEY_QUIT,
  KEY_ORDER,
  KEY_FILTER,
} live_key_t;

/* The state of the screen. A program is identified by its user, both pids and its start time, because another
 * user can create a record with the same name. */
typedef struct screen {
  gp_machine_t machine;
  gp_ps_table_t table;
  gp_ps_sort_t sort;
  char filter[FILTER_BYTES];
  bool is_typing; /* the user is typing the filter */
  size_t chosen;  /* index of the selected row; updated when the program's row moves */
  pid_t chosen_pid, chosen_inside;
  uid_t chosen_user;
  uint64_t chosen_start_us;
  int chosen_device;
  bool is_open; /* the selected program is shown alone */
  bool has_owners;
  uint64_t owners_due_ns;
  live_owners_t owners;
} screen_t;

static uint64_t clock_ns(clockid_t clock)
{
  struct timespec now;
  (void)clock_gettime(clock, &now); /* cannot fail */
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void choose(screen_t *screen, size_t row)
{
  if (screen->table.count == 0)
    return;
  const gp_ps_row_t *chosen = &screen->table.rows[row < screen->table.count ? row : screen->table.count - 1];
  screen->chosen = (size_t)(chosen - screen->table.rows);
  screen->chosen_pid = chosen->process->pid;
  screen->chosen_inside = chosen->process->inside;
  screen->chosen_user = chosen->process->user;
  screen->chosen_start_us = chosen->process->start_time_us;
  screen->chosen_device = chosen->device ? chosen->device->ordinal : -1;
}

static bool is_chosen(const screen_t *screen, const gp_ps_row_t *row)
{
  const gp_machine_process_t *process = row->process;
  return process->pid == screen->chosen_pid && process->inside == screen->chosen_inside &&
         process->user == screen->chosen_user && process->start_time_us == screen->chosen_start_us;
}

/* Reads all records, and finds the row of the selected program again. Returns 0 or ENOMEM. */
static int look(screen_t *screen)
{
  gp_ps_table_fini(&screen->table);
  gp_machine_fini(&screen->machine);
  int error = gp_machine_read(&screen->machine);
  if (!error)
    error = gp_ps_table_init(&screen->table, &screen->machine, screen->sort, screen->filter);
  size_t row = screen->chosen;
  bool is_there = false;
  for (size_t i = 0; !error && !is_there && i < screen->table.count; i++) {
    const gp_ps_row_t *candidate = &screen->table.rows[i];
    is_there = is_chosen(screen, candidate) &&
               (candidate->device ? candidate->device->ordinal : -1) == screen->chosen_device;
    row = is_there ? i : row;
  }
  if (is_there || !screen->is_open)
    choose(screen, row);
  return error;
}

static int find_owners(void *self, const gp_found_record_t *found)
{
  screen_t *screen = self;
  if (found->user == screen->chosen_user && found->pid == screen->chosen_inside &&
      found->start_time_us == screen->chosen_start_us)
    screen->has_owners = live_owners_read(found->fd, &screen->owners);
  return 0;
}

/* Finds the owners again if enough time has passed. Not done at each update: it reads the whole record. */
static void refresh_owners(screen_t *screen)
{
  uint64_t begin = clock_ns(CLOCK_MONOTONIC);
  if (begin < screen->owners_due_ns)
    return;
  screen->has_owners = false;
  (void)gp_machine_visit(find_owners, screen); /* if memory runs out, no owners are shown */
  uint64_t end = clock_ns(CLOCK_MONOTONIC);
  screen->owners_due_ns = end + OWNERS_SHARE * (end - begin);
}

static void print_owners(const screen_t *screen, unsigned columns, size_t most, const gp_output_t *output)
{
  const live_owners_t *owners = &screen->owners;
  char name[GP_LIVE_OWNER_BYTES];
  size_t room = columns > OWNER_OVERHEAD + 8 ? columns - OWNER_OVERHEAD : 8;

  if (!screen->has_owners) {
    fputs("Its record cannot be read.\n", output->stream);
    return;
  }
  fprintf(output->stream, "%s%10s  %6s  %8s  OWNER%s\n", gp_output_style(output, GP_STYLE_FAINT), "USED",
      "SHARE", "BLOCKS", gp_output_style(output, GP_STYLE_PLAIN));
  for (size_t i = 0; i < owners->count && i + 1 < most; i++) {
    const live_owner_t *owner = &owners->owners[i];
    fprintf(output->stream, "%10s  %6s  %8s  %s\n", GP_AS_SIZE(owner->bytes),
        GP_AS_PERCENT((double)owner->bytes / (double)owners->bytes), GP_AS_COUNT(owner->blocks),
        gp_text_shorten(owner->name, room, name, sizeof(name)));
  }
}

/* Prints the rows of the selected program's devices, and the program's owners. */
static void print_open(const screen_t *screen, unsigned columns, unsigned rows, const gp_output_t *output)
{
  gp_ps_table_t own = {0};
  const gp_ps_look_t view = {
      .columns = columns, .chosen = SIZE_MAX, .now_us = clock_ns(CLOCK_REALTIME) / 1000, .most = 1};
  unsigned used = 3;
  for (size_t i = 0; i < screen->table.count; i++) {
    if (!is_chosen(screen, &screen->table.rows[i]))
      continue;
    own = (gp_ps_table_t){&screen->table.rows[i], 1};
    gp_ps_table_print(&own, &view, output);
    used += 3;
  }
  if (!own.rows) {
    fprintf(output->stream, "Process %d has ended.\n", (int)screen->chosen_pid);
    return;
  }
  fputc('\n', output->stream);
  print_owners(screen, columns, rows > used ? rows - used : 2, output);
}

static void print_list(const screen_t *screen, unsigned columns, unsigned rows, const gp_output_t *output)
{
  size_t most = rows > 5 ? rows - 5 : 1; /* the sum, headings, omitted columns, the filter, the keys */
  const gp_ps_look_t view = {.columns = columns,
      .first = screen->chosen < most ? 0 : screen->chosen - most + 1,
      .most = most,
      .chosen = screen->chosen,
      .now_us = clock_ns(CLOCK_REALTIME) / 1000};
  char sum[LINE_BYTES], line[LINE_BYTES];

  snprintf(line, sizeof(line), "%s; by %s", gp_ps_table_sum(&screen->table, sum, sizeof(sum)),
      gp_ps_sort_name(screen->sort));
  fprintf(output->stream, "%.*s\n", (int)columns, line);
  gp_ps_table_print(&screen->table, &view, output);
  if (screen->filter[0] || screen->is_typing)
    fprintf(output->stream, "filter: %s%s\n", screen->filter, screen->is_typing ? "_" : "");
}

static int draw(screen_t *screen)
{
  static const char list_keys[] = "q quit   arrows select   Enter open   o order   / filter";
  static const char typing_keys[] = "Enter: done   Escape: no filter";
  static const char open_keys[] = "q quit   Escape back";
  unsigned columns, rows;
  gp_output_t output;

  int status = gp_output_open(&output, NULL, false, false);
  if (status)
    return status;
  gp_terminal_size(&columns, &rows);
  if (screen->is_open)
    print_open(screen, columns, rows, &output);
  else
    print_list(screen, columns, rows, &output);
  fprintf(output.stream, "%s%.*s%s\n", gp_output_style(&output, GP_STYLE_FAINT), (int)columns,
      screen->is_open     ? open_keys
      : screen->is_typing ? typing_keys
                          : list_keys,
      gp_output_style(&output, GP_STYLE_PLAIN));
  if (gp_output_settle(&output))
    gp_terminal_show(output.text, output.length);
  gp_output_discard(&output);
  return 0;
}

/* Reads the rest of an arrow key's characters, and returns that key. Returns KEY_BACK for the key Escape. */
static live_key_t read_escape(void)
{
  char key;
  if (gp_terminal_wait(ESCAPE_MS, -1, 0, &key) != GP_TERMINAL_KEY)
    return KEY_BACK;
  if (key != '[' || gp_terminal_wait(ESCAPE_MS, -1, 0, &key) != GP_TERMINAL_KEY)
    return KEY_NONE;
  return key == 'A' ? KEY_UP : key == 'B' ? KEY_DOWN : key == 'D' ? KEY_BACK : KEY_NONE;
}

static live_key_t key_of(char key)
{
  switch (key) {
  case ESCAPE: return read_escape();
  case 'k': return KEY_UP;
  case 'j': return KEY_DOWN;
  case '\r':
  case '\n': return KEY_OPEN;
  case 'q': return KEY_QUIT;
  case 'o': return KEY_ORDER;
  case '/': return KEY_FILTER;
  default: return KEY_NONE;
  }
}

static void type(screen_t *screen, char key)
{
  size_t length = strlen(screen->filter);
  if (key == '\r' || key == '\n') {
    screen->is_typing = false;
  } else if (key == ESCAPE) {
    screen->is_typing = read_escape() != KEY_BACK;
    if (!screen->is_typing)
      screen->filter[0] = '\0';
  } else if ((key == 0x7f || key == '\b') && length) {
    screen->filter[length - 1] = '\0';
  } else if (key >= ' ' && key != 0x7f && length + 1 < sizeof(screen->filter)) {
    screen->filter[length] = key;
    screen->filter[length + 1] = '\0';
  }
}

/* Handles a key. Returns false if the user quits. */
static bool obey(screen_t *screen, char key)
{
  if (screen->is_typing) {
    type(screen, key);
    return true;
  }
  switch (key_of(key)) {
  case KEY_UP: choose(screen, screen->chosen ? screen->chosen - 1 : 0); break;
  case KEY_DOWN: choose(screen, screen->chosen + 1); break;
  case KEY_OPEN:
    screen->is_open = screen->table.count > 0;
    screen->owners_due_ns = 0;
    break;
  case KEY_BACK: screen->is_open = false; break;
  case KEY_ORDER: screen->sort = (screen->sort + 1) % GP_PS_SORT_COUNT; break;
  case KEY_FILTER: screen->is_typing = !screen->is_open; break;
  case KEY_QUIT: return false;
  case KEY_NONE: break;
  }
  return true;
}

static int watch(screen_t *screen, unsigned interval_ms)
{
  for (;;) {
    char key;
    int status = look(screen) ? ENOMEM : 0;
    if (!status && screen->is_open)
      refresh_owners(screen);
    if (status || draw(screen))
      return GP_EXIT_INPUT;
    switch (gp_terminal_wait(interval_ms, -1, 0, &key)) {
    case GP_TERMINAL_SIGNAL: return GP_EXIT_DONE;
    case GP_TERMINAL_KEY:
      if (!obey(screen, key))
        return GP_EXIT_DONE;
      break;
    default: break;
    }
  }
}

int gp_live_all(unsigned interval_ms, bool once)
{
  static screen_t screen; /* too large for a stack */
  char name[] = "ps", *ps[] = {name, NULL};

  if (once || !gp_terminal_enter())
    return gp_command_ps(1, ps);
  int status = watch(&screen, interval_ms);
  gp_terminal_leave();
  if (status)
    gp_message("live: out of memory");
  gp_ps_table_fini(&screen.table);
  gp_machine_fini(&screen.machine);
  return status;
}
