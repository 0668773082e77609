#include "use_commands.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "base/log.h"
#include "tools/tool.h"

#define ARGUMENTS 9

typedef struct invocation {
  int (*run)(int argc, char **argv);
  bool is_of_a_device;
  bool may_refuse;                  /* there may be nothing in a good snapshot that it can do its work on */
  const char *arguments[ARGUMENTS]; /* "FILE" is the snapshot, "DEVICE" the device */
} invocation_t;

static const invocation_t invocations[] = {
    {gp_command_summary, false, false, {"summary", "FILE", "--no-symbols"}},
    {gp_command_summary, false, false, {"summary", "FILE", "--json", "--no-symbols"}},
    {gp_command_leaks, false, false, {"leaks", "FILE", "--no-symbols"}},
    {gp_command_leaks, false, false, {"leaks", "FILE", "FILE", "--json", "--no-symbols"}},
    {gp_command_sites, false, false, {"sites", "FILE", "--no-symbols"}},
    {gp_command_sites, false, false, {"sites", "FILE", "--json", "--by", "size", "--no-symbols"}},
    {gp_command_frag, false, false, {"frag", "FILE", "--at", "peak", "--no-symbols"}},
    {gp_command_frag, false, false, {"frag", "FILE", "--json", "--no-symbols"}},
    {gp_command_timeline, false, false, {"timeline", "FILE", "--no-symbols"}},
    {gp_command_timeline, false, false, {"timeline", "FILE", "--json", "--no-symbols"}},
    {gp_command_diff, false, false, {"diff", "FILE", "FILE", "--no-symbols"}},
    {gp_command_diff, false, false, {"diff", "FILE", "FILE", "--json", "--no-symbols"}},
    {gp_command_export, false, false, {"export", "--to", "pytorch", "FILE", "--no-symbols"}},
    {gp_command_export, false, false, {"export", "--to", "pytorch-json", "FILE", "--no-symbols"}},
    {gp_command_export, false, false, {"export", "--to", "perfetto", "FILE", "--no-symbols"}},
    {gp_command_export, false, false, {"export", "--to", "speedscope", "FILE", "--no-symbols"}},
    {gp_command_export, false, false, {"export", "--to", "folded", "FILE", "--no-symbols"}},
    {gp_command_export, true, false, {"export", "--to", "csv", "FILE", "--device", "DEVICE", "--no-symbols"}},
    {gp_command_html, false, false, {"html", "FILE", "-o", "-", "--no-symbols"}},
    {gp_command_html, false, false, {"html", "FILE", "FILE", "-o", "-", "--no-symbols"}},
    {gp_command_replay, false, true, {"replay", "FILE"}},
    {gp_command_replay, false, true, {"replay", "FILE", "--json"}},
    {gp_command_tune, false, true, {"tune", "FILE"}},
};

static void run(const invocation_t *invocation, const char *path, int device, bool is_good)
{
  char file[256], number[16];
  char *argv[ARGUMENTS + 1] = {NULL};
  int argc = 0;

  snprintf(file, sizeof(file), "%s", path);
  snprintf(number, sizeof(number), "%d", device);
  for (; argc < ARGUMENTS && invocation->arguments[argc]; argc++) {
    const char *argument = invocation->arguments[argc];
    argv[argc] = strcmp(argument, "FILE") == 0     ? file
                 : strcmp(argument, "DEVICE") == 0 ? number
                                                   : (char *)argument;
  }
  int status = invocation->run(argc, argv);
  if (gp_log_fd() > STDERR_FILENO) /* what a replay silences the pool with; a command ends with its process */
    close(gp_log_fd());
  gp_log_init(0, -1);
  bool is_refused = status == GP_EXIT_USAGE || status == GP_EXIT_INPUT || status == GP_EXIT_PARTIAL;
  if (status != GP_EXIT_DONE && (!is_refused || (is_good && !invocation->may_refuse))) {
    dprintf(STDERR_FILENO, "fuzz: gpupool %s: exit status %d\n", invocation->arguments[0], status);
    fuzz_failed("every command reads what recover writes", __FILE__, __LINE__);
  }
}

/* Takes many times as long as what reads and prints. */
static bool is_slow(const invocation_t *invocation)
{
  return invocation->run == gp_command_html || invocation->run == gp_command_replay ||
         invocation->run == gp_command_tune;
}

void fuzz_run_commands(const char *path, int device, bool is_good, bool slow_ones)
{
  static int nowhere = -1;
  fflush(stdout);
  int saved = dup(STDOUT_FILENO);
  if (nowhere < 0)
    nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  FUZZ_CHECK(saved >= 0 && nowhere >= 0 && dup2(nowhere, STDOUT_FILENO) >= 0);
  for (size_t i = 0; i < sizeof(invocations) / sizeof(invocations[0]); i++) {
    if ((device >= 0 || !invocations[i].is_of_a_device) && (slow_ones || !is_slow(&invocations[i])))
      run(&invocations[i], path, device, is_good);
  }
  fflush(stdout);
  FUZZ_CHECK(dup2(saved, STDOUT_FILENO) >= 0);
  close(saved);
}
