/*
 * The HTTP server of `gpupool metrics --listen`, by libmicrohttpd, which is opened when it is needed.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tools/machine/metrics.h"
#include "tools/optional_headers.h"
#include "tools/optional_library.h"
#include "tools/tool.h"

#define LOOPBACK "127.0.0.1"

#if GP_HAVE_MICROHTTPD
#include <microhttpd.h>

#define LIBRARY     "libmicrohttpd.so.12"
#define CONNECTIONS 16
#define PATIENCE_S  10 /* for a silent client */
#define TYPE        "application/openmetrics-text; version=1.0.0; charset=utf-8"

static __typeof__(&MHD_start_daemon) start_daemon;
static __typeof__(&MHD_stop_daemon) stop_daemon;
static __typeof__(&MHD_create_response_from_buffer) create_response;
static __typeof__(&MHD_add_response_header) add_header;
static __typeof__(&MHD_queue_response) queue_response;
static __typeof__(&MHD_destroy_response) destroy_response;

static bool open_library(void)
{
  static const gp_optional_function_t functions[] = {
      {"MHD_start_daemon", (void **)&start_daemon},
      {"MHD_stop_daemon", (void **)&stop_daemon},
      {"MHD_create_response_from_buffer", (void **)&create_response},
      {"MHD_add_response_header", (void **)&add_header},
      {"MHD_queue_response", (void **)&queue_response},
      {"MHD_destroy_response", (void **)&destroy_response},
  };
  return gp_optional_library_open(LIBRARY, functions, sizeof(functions) / sizeof(functions[0]));
}

/* text is copied. */
static enum MHD_Result answer_with(
    struct MHD_Connection *connection, unsigned status, const char *type, const char *text, size_t length)
{
  struct MHD_Response *response = create_response(length, (void *)text, MHD_RESPMEM_MUST_COPY);
  if (!response)
    return MHD_NO;                                                /* closes the connection */
  (void)add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type); /* without it the text is right, too */
  if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
    (void)add_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  enum MHD_Result result = queue_response(connection, status, response);
  destroy_response(response);
  return result;
}

static enum MHD_Result answer_plainly(struct MHD_Connection *connection, unsigned status, const char *text)
{
  return answer_with(connection, status, "text/plain", text, strlen(text));
}

static enum MHD_Result answer(void *self, struct MHD_Connection *connection, const char *url,
    const char *method, const char *version, const char *upload, size_t *upload_bytes, void **state)
{
  char *text = NULL;
  size_t length = 0;
  (void)self, (void)version, (void)upload, (void)state;

  if (*upload_bytes) { /* a body, which nothing here wants */
    *upload_bytes = 0;
    return MHD_YES;
  }
  if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
    return answer_plainly(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
  if (strcmp(url, "/metrics") != 0)
    return answer_plainly(connection, MHD_HTTP_NOT_FOUND, "the figures are at /metrics\n");
  FILE *stream = open_memstream(&text, &length);
  int error = !stream || gp_metrics_write(stream);
  error |= !stream || fclose(stream);
  enum MHD_Result result = error
                               ? answer_plainly(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n")
                               : answer_with(connection, MHD_HTTP_OK, TYPE, text, length);
  free(text);
  return result;
}

static int serve(const char *text, const struct sockaddr *address)
{
  sigset_t ends;

  if (!open_library()) {
    gp_message("metrics: --listen needs " LIBRARY " (Debian and Ubuntu: the package libmicrohttpd12)");
    return GP_EXIT_INPUT;
  }
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, NULL); /* before the server's thread begins, which inherits it */
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL;
  if (address->sa_family == AF_INET6)
    flags |= MHD_USE_IPv6;
  struct MHD_Daemon *daemon = start_daemon(flags, 0, NULL, NULL, answer, NULL, MHD_OPTION_SOCK_ADDR, address,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)PATIENCE_S,
      MHD_OPTION_END);
  if (!daemon) {
    gp_message(
        "metrics: cannot listen at %s: the address is not of this machine, or taken, or needs root", text);
    return GP_EXIT_INPUT;
  }
  gp_message(
      "metrics at http://%s%s/metrics; Control-C ends it", strchr(text, ':') ? "" : LOOPBACK ":", text);
  while (sigtimedwait(&ends, NULL, NULL) < 0) /* interrupted by another signal, or stopped and continued */
    ;
  stop_daemon(daemon);
  return GP_EXIT_DONE;
}
#else
static int serve(const char *text, const struct sockaddr *address)
{
  (void)text, (void)address;
  gp_message("metrics: this gpupool was built without libmicrohttpd; use -o FILE and the textfile collector");
  return GP_EXIT_INPUT;
}
#endif

typedef union endpoint {
  struct sockaddr any;
  struct sockaddr_in four;
  struct sockaddr_in6 six;
} endpoint_t;

static bool parse_address(const char *text, endpoint_t *ret_endpoint)
{
  char host[INET6_ADDRSTRLEN] = LOOPBACK, *end;
  const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
  unsigned long number = strtoul(port, &end, 10);
  bool is_six = text[0] == '[';
  size_t length = colon ? (size_t)(colon - text) : 0;

  if (port[0] < '0' || port[0] > '9' || *end || number == 0 || number > UINT16_MAX)
    return false;
  if (is_six && (length < 2 || text[length - 1] != ']'))
    return false;
  if (colon) {
    length -= is_six ? 2 : 0;
    if (length >= sizeof(host))
      return false;
    memcpy(host, text + is_six, length);
    host[length] = '\0';
  }
  memset(ret_endpoint, 0, sizeof(*ret_endpoint));
  if (is_six) {
    ret_endpoint->six.sin6_family = AF_INET6;
    ret_endpoint->six.sin6_port = htons((uint16_t)number);
    return inet_pton(AF_INET6, host, &ret_endpoint->six.sin6_addr) == 1;
  }
  ret_endpoint->four.sin_family = AF_INET;
  ret_endpoint->four.sin_port = htons((uint16_t)number);
  return inet_pton(AF_INET, host, &ret_endpoint->four.sin_addr) == 1;
}

int gp_metrics_serve(const char *address)
{
  endpoint_t endpoint;
  if (!parse_address(address, &endpoint))
    return gp_message_usage(
        "metrics", "metrics: --listen %s: accepted are 9464, 127.0.0.1:9464 and [::1]:9464", address);
  return serve(address, &endpoint.any);
}
