/*
 * Declarations for all of gpupool's subcommands: exit statuses, messages, help.
 */
#ifndef GP_TOOLS_TOOL_H
#define GP_TOOLS_TOOL_H

#include <stddef.h>

enum {
  GP_EXIT_DONE = 0,
  GP_EXIT_FINDINGS = 1, /* from doctor; from other commands only if requested */
  GP_EXIT_USAGE = 2,
  GP_EXIT_INPUT = 3,   /* unreadable or corrupt input, or an output that cannot be written */
  GP_EXIT_PARTIAL = 4, /* with --strict: the input is incomplete */
};

/* The commands, each in NAME.c or NAME_command.c. argv[0] is the command's name. With --help each prints
 * its help to stdout. Each returns the exit status. */
int gp_command_run(int argc, char **argv);
int gp_command_config(int argc, char **argv);
int gp_command_path(int argc, char **argv);
int gp_command_doctor(int argc, char **argv);
int gp_command_ctl(int argc, char **argv);
int gp_command_recover(int argc, char **argv);
int gp_command_live(int argc, char **argv);
int gp_command_metrics(int argc, char **argv);
int gp_command_ps(int argc, char **argv);
int gp_command_summary(int argc, char **argv);
int gp_command_export(int argc, char **argv);
int gp_command_leaks(int argc, char **argv);
int gp_command_timeline(int argc, char **argv);
int gp_command_frag(int argc, char **argv);
int gp_command_html(int argc, char **argv);
int gp_command_diff(int argc, char **argv);
int gp_command_replay(int argc, char **argv);
int gp_command_tune(int argc, char **argv);
int gp_command_sites(int argc, char **argv);
int gp_command_symbolize(int argc, char **argv);

/* message.c */

/* Prints one line on stderr: "gpupool: ...". Replaces unprintable characters and line ends. */
void gp_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Like gp_message, but appends "; try gpupool COMMAND --help", or "; try gpupool --help" if `command` is
 * NULL. Returns GP_EXIT_USAGE. */
int gp_message_usage(const char *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a message about an unknown option. Suggests the nearest of `names` if it is close; `names` has
 * `count` strings without dashes. `option` is the argument as typed. Returns GP_EXIT_USAGE. */
int gp_message_unknown_option(
    const char *command, const char *option, const char *const *names, size_t count);

/* Copies `text` to `buffer`, and replaces every character that could control a terminal (base/printable.h) by
 * '?'. Truncates to `capacity` (at least 1), but never inside a UTF-8 character. Returns `buffer`. */
char *gp_printable(const char *text, char *buffer, size_t capacity);

/* parameters.c */

/* Returns the name that is nearest to `text`, or NULL if the user is unlikely to have meant any of them.
 * Ignores case, and treats '_' as '-'. */
const char *gp_suggest_nearest(const char *text, const char *const *names, size_t count);

#endif
