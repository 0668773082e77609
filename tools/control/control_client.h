/*
 * The tool's end of the control socket (doc/control.md).
 */
#ifndef GP_TOOLS_CONTROL_CLIENT_H
#define GP_TOOLS_CONTROL_CLIENT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <sys/types.h>

#include "pool/util/control_path.h"

#define GP_CONTROL_PROBLEM_BYTES 512

typedef struct gp_control_client {
  pid_t pid;
  uint64_t start;                   /* the process is the one of this number that began then */
  char path[GP_CONTROL_PATH_BYTES]; /* of its socket, once it was found; "" */

  /* Waits until fd is ready for events (poll(2); -1: for nothing), wait_ms at most. It may return sooner.
   * False: the caller wants to stop waiting. NULL: poll(2) itself. */
  bool (*wait)(void *self, int fd, short events, unsigned wait_ms);
  void *wait_self;
  bool is_left; /* wait returned false */
} gp_control_client_t;

/* True if text is the number that a process may have. */
bool gp_control_client_is_number(const char *text);

/*
 * text is a process number. Returns false with a sentence in problem, which holds GP_CONTROL_PROBLEM_BYTES,
 * if there is no such process.
 */
bool gp_control_client_init(gp_control_client_t *client, const char *text, char *problem);

/*
 * Sends a request (control_request.h) to the process and waits for the answer. Returns the answer, which the
 * caller ends with cJSON_Delete, if it says ok; NULL with a sentence in problem otherwise: the process has no
 * control and why, it belongs to another user, another process answers in its place, it has gone, or it
 * refused. The client sends nothing to another process. NULL with is_left and without a sentence:
 * client->wait returned false.
 */
cJSON *gp_control_client_ask(gp_control_client_t *client, const char *request, char *problem);

/* The process was stopped by a signal or by a debugger, and cannot answer. */
bool gp_control_client_is_stopped(const gp_control_client_t *client);

/* The process has ended, or its number is another's. */
bool gp_control_client_is_gone(const gp_control_client_t *client);

#endif
