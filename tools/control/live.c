/*
 * gpupool live: watches a running program.
 */
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/control/control_client.h"
#include "tools/control/live_all.h"
#include "tools/control/live_frame.h"
#include "tools/json_print.h"
#include "tools/parameters.h"
#include "tools/tool.h"
#include "tools/new_snapshots.h"

#define INTERVAL_MS_MIN     50
#define INTERVAL_MS_MAX     3600000
#define INTERVAL_MS_DEFAULT 1000
#define SLOW_MS             500 /* after this time, live prints that the answer is late */

typedef struct options {
  const char *process;
  const char *interval; /* as typed; NULL: not given */
  unsigned interval_ms;
  bool once;
  bool json;
} options_t;

typedef struct watch {
  const options_t *options;
  gp_control_client_t client;
  gp_monitor_t monitor;
  gp_new_snapshots_t written; /* the snapshots that were written since live started */
  bool knows_written;
  bool has_looked; /* live has received at least one answer */
  char message[GP_PATH_BYTES + 64];
  char problem[GP_CONTROL_PROBLEM_BYTES];
} watch_t;

static void print_help(void)
{
  printf("usage: gpupool live [--interval MS] [--once] [--json] [PID]\n"
         "\n"
         "Without PID: shows the programs of gpupool ps until q is pressed. Arrows select\n"
         "one, Enter shows what owns its memory, o changes the order, / shows only those\n"
         "whose command, host, container or pod contains the text typed next.\n"
         "\n"
         "With PID: shows the memory of a running program on each device, and how often it\n"
         "allocates, until the program ends or q is pressed. The program must have been\n"
         "started with GPUPOOL_CONTROL=1 (gpupool run --control). Only its user and root\n"
         "may watch it.\n"
         "\n"
         "  --interval MS\n"
         "      milliseconds between updates (%d to %d, default %d)\n"
         "  --once\n"
         "      print the state once and exit; the default if the output is not a terminal\n"
         "  --json\n"
         "      with PID: print the program's answers unchanged, one per line\n"
         "\n"
         "Keys with PID: q quit, s write a snapshot, e release idle memory to the driver,\n"
         "r set the peaks to the current values.\n"
         "\n"
         "Exit status: 0 done; 2 usage; 3 the program cannot be reached.\n",
      INTERVAL_MS_MIN, INTERVAL_MS_MAX, INTERVAL_MS_DEFAULT);
}

static const gp_parameter_t parameters[] = {
    {"interval", .kind = GP_PARAMETER_TEXT, .offset = offsetof(options_t, interval)},
    {"once", .offset = offsetof(options_t, once)},
    {"json", .offset = offsetof(options_t, json)},
};

static const gp_words_form_t form = {
    "live", parameters, sizeof(parameters) / sizeof(parameters[0]), 1, print_help};

/* Validates the options. Returns 0 or, after a message, the exit status. */
static int check(options_t *options)
{
  const char *text = options->interval;
  char *end;
  unsigned long number = text ? strtoul(text, &end, 10) : INTERVAL_MS_DEFAULT;

  if (text &&
      (text[0] < '0' || text[0] > '9' || *end || number < INTERVAL_MS_MIN || number > INTERVAL_MS_MAX))
    return gp_message_usage("live", "live: --interval %s is malformed; accepted: %d to %d milliseconds", text,
        INTERVAL_MS_MIN, INTERVAL_MS_MAX);
  options->interval_ms = (unsigned)number;
  if (!options->process && options->json)
    return gp_message_usage("live", "live: --json needs a process id; for all programs: gpupool ps --json");
  if (options->process && !gp_control_client_is_number(options->process))
    return gp_message_usage("live", "live: %s is not a process id", options->process);
  return 0;
}

/* Reads the output pattern of the program's snapshots from an answer. A relative pattern is resolved against
 * the program's working directory. */
static void note_written(watch_t *watch, const cJSON *stats)
{
  const cJSON *output = cJSON_GetObjectItem(stats, "output");
  char folder[GP_PATH_BYTES];
  char pattern[2 * GP_PATH_BYTES];
  char link[64];

  if (watch->knows_written || !cJSON_IsString(output))
    return;
  snprintf(link, sizeof(link), "/proc/%d/cwd", (int)watch->client.pid);
  ssize_t length = readlink(link, folder, sizeof(folder) - 1);
  folder[length > 0 ? length : 0] = '\0';
  int used = output->valuestring[0] == '/'
                 ? snprintf(pattern, sizeof(pattern), "%s", output->valuestring)
                 : snprintf(pattern, sizeof(pattern), "%s/%s", folder, output->valuestring);
  if (used < 0 || used >= GP_PATH_BYTES)
    return;
  gp_new_snapshots_begin(&watch->written, pattern);
  watch->knows_written = true;
}

/* Requests the program's statistics once. Returns false with the reason in watch->problem. */
static bool look(watch_t *watch)
{
  cJSON *stats = gp_control_client_ask(&watch->client, "stats", watch->problem);
  if (!stats)
    return false;
  gp_monitor_update(&watch->monitor, stats);
  watch->has_looked = true;
  note_written(watch, stats);
  char *text = watch->options->json ? gp_json_print(stats, true) : NULL;
  if (text)
    puts(text);
  fflush(stdout);
  free(text);
  cJSON_Delete(stats);
  return true;
}

static void ask(watch_t *watch, const char *request, const char *done)
{
  cJSON *answer = gp_control_client_ask(&watch->client, request, watch->problem);
  const cJSON *path = cJSON_GetObjectItem(answer, "path");
  char text[GP_PATH_BYTES];

  if (!answer)
    snprintf(watch->message, sizeof(watch->message), "%s", watch->problem);
  else if (cJSON_IsString(path))
    snprintf(watch->message, sizeof(watch->message), "%s: %s", done,
        gp_printable(path->valuestring, text, sizeof(text)));
  else if (cJSON_GetNumberValue(cJSON_GetObjectItem(answer, "kept")) > 0) /* NaN if missing */
    snprintf(watch->message, sizeof(watch->message),
        "the device is busy: idle memory is released when the program frees or synchronizes while it is quiet");
  else
    snprintf(watch->message, sizeof(watch->message), "%s", done);
  cJSON_Delete(answer);
}

static int draw(const watch_t *watch, bool full_screen)
{
  gp_monitor_layout_t layout = {.columns = GP_OUTPUT_COLUMNS, .shows_keys = full_screen};
  gp_output_t output;

  int status = gp_output_open(&output, NULL, false, false);
  if (status)
    return status;
  layout.unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  layout.message = watch->message[0] ? watch->message : NULL;
  if (full_screen)
    gp_terminal_size(&layout.columns, &layout.rows);
  gp_monitor_print(&watch->monitor, &layout, &output);
  if (!full_screen)
    return gp_output_close(&output);
  if (gp_output_settle(&output))
    gp_terminal_show(output.text, output.length);
  gp_output_discard(&output);
  return 0;
}

/* The client's wait function while live uses the screen. Lets the user quit if the program is stopped. */
static bool wait_for_answer(void *self, int fd, short events, unsigned wait_ms)
{
  watch_t *watch = self;
  char text[128];
  char key;

  switch (gp_terminal_wait(wait_ms < SLOW_MS ? wait_ms : SLOW_MS, fd, events, &key)) {
  case GP_TERMINAL_SIGNAL: return false;
  case GP_TERMINAL_READY: return true;
  case GP_TERMINAL_KEY: return key != 'q'; /* live handles other keys only after an answer */
  case GP_TERMINAL_TIME: break;
  }
  snprintf(text, sizeof(text), "process %d does not answer%s", (int)watch->client.pid,
      gp_control_client_is_stopped(&watch->client) ? ": it is stopped" : " yet");
  if (watch->has_looked) {
    snprintf(watch->message, sizeof(watch->message), "%s", text);
    draw(watch, true);
    watch->message[0] = '\0';
  } else {
    strcat(text, "; q quit\n");
    gp_terminal_show(text, strlen(text));
  }
  return true;
}

#define END_STEPS 200 /* steps of 10 ms */

/* Prints the last message after the terminal was restored. First waits until the process is gone, because a
 * process closes its socket some time before it ends. Returns the exit status. */
static int say_end(watch_t *watch)
{
  for (int i = 0; watch->has_looked && i < END_STEPS && !gp_control_client_is_gone(&watch->client); i++)
    (void)usleep(10000);
  if (!watch->has_looked || !gp_control_client_is_gone(&watch->client)) {
    gp_message("live: %s", watch->problem);
    return GP_EXIT_INPUT;
  }
  gp_message("%s, process %d, has ended", watch->monitor.program, (int)watch->client.pid);
  if (watch->knows_written) {
    bool is_oom;
    gp_new_snapshots_end(&watch->written, watch->client.pid, NULL);
    if (watch->written.count)
      gp_message("next: gpupool summary %s", gp_new_snapshots_best(&watch->written, &is_oom));
  }
  return GP_EXIT_DONE;
}

/* Waits until the next update is due, and handles keys. Returns false if the user or a signal ends live. */
static bool wait_and_obey(watch_t *watch, bool *ret_draw)
{
  char key;
  *ret_draw = true;
  switch (gp_terminal_wait(watch->options->interval_ms, -1, 0, &key)) {
  case GP_TERMINAL_SIGNAL: return false;
  case GP_TERMINAL_READY: /* impossible, because no descriptor was passed */
  case GP_TERMINAL_TIME: return true;
  case GP_TERMINAL_KEY: break;
  }
  switch (key) {
  case 'q': return false;
  case 's': ask(watch, "snapshot", "snapshot written"); break;
  case 'e': ask(watch, "empty-cache", "idle memory was released"); break;
  case 'r': ask(watch, "reset-peaks", "peaks were reset"); break;
  default: *ret_draw = false; break;
  }
  return !watch->client.is_left;
}

static int watch_screen(watch_t *watch)
{
  bool goes_on = true;
  bool draws = true;

  watch->client.wait = wait_for_answer;
  watch->client.wait_self = watch;
  bool answers = look(watch);
  while (goes_on && answers) {
    if (draws)
      draw(watch, true);
    goes_on = wait_and_obey(watch, &draws);
    if (goes_on && draws)
      answers = look(watch);
  }
  gp_terminal_leave();
  return answers || watch->client.is_left ? GP_EXIT_DONE : say_end(watch);
}

static int watch_lines(watch_t *watch)
{
  do {
    (void)usleep(watch->options->interval_ms * 1000); /* a signal only shortens the wait */
  } while (look(watch) && !ferror(stdout));
  return ferror(stdout) ? GP_EXIT_INPUT : say_end(watch);
}

int gp_command_live(int argc, char **argv)
{
  static watch_t watch; /* too large for a stack */
  options_t options = {0};
  int words, status;

  if (!gp_words_parse(&form, argc, argv, &options, &words, &status))
    return status;
  options.process = words ? argv[1] : NULL;
  status = check(&options);
  if (status)
    return status;
  if (!options.process)
    return gp_live_all(options.interval_ms, options.once);
  (void)setlocale(LC_CTYPE, ""); /* without this, bars would be drawn in ASCII */
  watch.options = &options;
  if (!gp_control_client_init(&watch.client, options.process, watch.problem)) {
    gp_message("live: %s", watch.problem);
    return GP_EXIT_INPUT;
  }
  if (!options.json && !options.once && gp_terminal_enter())
    status = watch_screen(&watch);
  else if (!look(&watch))
    status = say_end(&watch);
  else if (options.json)
    status = options.once ? GP_EXIT_DONE : watch_lines(&watch);
  else
    status = draw(&watch, false);
  if (watch.knows_written)
    gp_new_snapshots_fini(&watch.written);
  return status;
}
