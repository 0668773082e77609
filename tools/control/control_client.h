/*
 * The tool's end of the control socket (doc/control.md).
 */
#ifndef GP_TOOLS_CONTROL_CLIENT_H
#define GP_TOOLS_CONTROL_CLIENT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/path.h"

#define GP_CONTROL_PROBLEM_BYTES 512

typedef struct gp_control_client {
  pid_t pid;
  uint64_t start;                   /* with the process number, identifies the process: when it began */
  char path[GP_CONTROL_PATH_BYTES]; /* its socket, once found; else "" */

  /* Waits until fd is ready for events (poll(2); -1: for nothing), wait_ms at most. It may return sooner.
   * False: stop waiting. NULL: the client calls poll(2) itself. */
  bool (*wait)(void *self, int fd, short events, unsigned wait_ms);
  void *wait_self;
  bool is_left; /* wait returned false */
} gp_control_client_t;

/* A member of an answer; 0, or "", if it has none. */
uint64_t gp_control_number(const cJSON *object, const char *name);
const char *gp_control_text(const cJSON *object, const char *name);

/* True if text can be a process number. */
bool gp_control_client_is_number(const char *text);

/* text is a process number; that of a gpupool run stands for its program's. If there is no such process,
 * returns false with a sentence in problem, which holds GP_CONTROL_PROBLEM_BYTES. */
bool gp_control_client_init(gp_control_client_t *client, const char *text, char *problem);

/*
 * Sends a request (control_request.h) to the process and waits for the answer. Returns the answer if it
 * says ok; the caller ends it with cJSON_Delete. Otherwise returns NULL with a sentence in problem: the
 * process has no control (and why), belongs to another user, has ended, or refused, or another process
 * answers in its place. Sends nothing to another process. NULL with is_left and without a sentence:
 * client->wait returned false.
 */
cJSON *gp_control_client_ask(gp_control_client_t *client, const char *request, char *problem);

/* True if a signal or a debugger has stopped the process, so that it cannot answer. */
bool gp_control_client_is_stopped(const gp_control_client_t *client);

/* True if the process has ended, or another process has its number now. */
bool gp_control_client_is_gone(const gp_control_client_t *client);

#endif
