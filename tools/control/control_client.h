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
  uint64_t start;                   /* start time; identifies the process together with its pid */
  char path[GP_CONTROL_PATH_BYTES]; /* path of the process's socket; "" until it is found */

  /* Waits at most `wait_ms` until `fd` is ready for `events`, which are those of poll(2). With fd -1, only
   * waits. It may return early. Returns false to make the client stop waiting. If NULL, the client calls
   * poll(2) itself. */
  bool (*wait)(void *self, int fd, short events, unsigned wait_ms);
  void *wait_self;
  bool is_left; /* wait returned false */
} gp_control_client_t;

/* Return a member of an answer, or 0 or "" if the answer lacks it. */
uint64_t gp_control_number(const cJSON *object, const char *name);
const char *gp_control_text(const cJSON *object, const char *name);

/* Returns true if text can be a process id. */
bool gp_control_client_is_number(const char *text);

/* Initializes a client for the process whose pid is in `text`. If that process is a `gpupool run`, the client
 * connects to the program that it runs. If there is no such process, returns false and writes a sentence to
 * `problem`, a buffer of GP_CONTROL_PROBLEM_BYTES. */
bool gp_control_client_init(gp_control_client_t *client, const char *text, char *problem);

/*
 * Sends a request (control_request.h) to the process, and waits for the answer. Returns the answer if the
 * request succeeded; the caller frees it with cJSON_Delete. Otherwise returns NULL and writes a sentence to
 * `problem`. Possible reasons: the process has no control socket, belongs to another user, has ended, or
 * refused, or another process listens on its socket. The client never sends the request to another process.
 * If client->wait returned false, returns NULL with is_left set and writes no sentence.
 */
cJSON *gp_control_client_ask(gp_control_client_t *client, const char *request, char *problem);

/* Returns true if a signal or a debugger has stopped the process, so that it cannot answer. */
bool gp_control_client_is_stopped(const gp_control_client_t *client);

/* Returns true if the process has ended, even if another process has its pid now. */
bool gp_control_client_is_gone(const gp_control_client_t *client);

#endif
