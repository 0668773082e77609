/*
 * The HTTP server of `gpupool metrics --listen`. Uses libmicrohttpd, which is opened when it is first needed.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/machine/metrics.h"
#include "tools/optional_headers.h"
#include "tools/optional_library.h"
#include "tools/tool.h"

#define LOOPBACK "127.0.0.1"

typedef union endpoint {
  struct sockaddr any;
  struct sockaddr_in four;
  struct sockaddr_in6 six;
} endpoint_t;

#if GP_HAVE_MICROHTTPD
#include <microhttpd.h>

#define LIBRARY     "libmicrohttpd.so.12"
#define CONNECTIONS 64
#define REQUEST_MS  1000  /* timeout from the connection to the end of the request */
#define ANSWER_MS   10000 /* timeout for the client to read the answer */
#define PAUSE_MS    100   /* pause after the system failed to accept a connection */
#define TYPE        "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* A connection, which serves a single request. */
typedef struct client {
  int fd;      /* -1: the slot is free */
  bool is_cut; /* was shut down; libmicrohttpd will close it soon */
  bool is_answered;
  uint64_t since_ms; /* time when the connection or, later, its answer began */
} client_t;

typedef struct server {
  struct MHD_Daemon *daemon;
  int listening;
  int ends; /* signalfd of the signals that end the server */
  uint64_t accepts_from_ms;
  client_t clients[CONNECTIONS];
} server_t;

static __typeof__(&MHD_start_daemon) start_daemon;
static __typeof__(&MHD_stop_daemon) stop_daemon;
static __typeof__(&MHD_create_response_from_buffer) create_response;
static __typeof__(&MHD_add_response_header) add_header;
static __typeof__(&MHD_queue_response) queue_response;
static __typeof__(&MHD_destroy_response) destroy_response;
static __typeof__(&MHD_add_connection) add_connection;
static __typeof__(&MHD_get_connection_info) get_connection_info;
static __typeof__(&MHD_get_daemon_info) get_daemon_info;
static __typeof__(&MHD_get_timeout) get_timeout;
static __typeof__(&MHD_run) run_daemon;

static bool open_library(void)
{
  static const gp_optional_function_t functions[] = {
      {"MHD_start_daemon", (void **)&start_daemon},
      {"MHD_stop_daemon", (void **)&stop_daemon},
      {"MHD_create_response_from_buffer", (void **)&create_response},
      {"MHD_add_response_header", (void **)&add_header},
      {"MHD_queue_response", (void **)&queue_response},
      {"MHD_destroy_response", (void **)&destroy_response},
      {"MHD_add_connection", (void **)&add_connection},
      {"MHD_get_connection_info", (void **)&get_connection_info},
      {"MHD_get_daemon_info", (void **)&get_daemon_info},
      {"MHD_get_timeout", (void **)&get_timeout},
      {"MHD_run", (void **)&run_daemon},
  };
  return gp_optional_library_open(LIBRARY, functions, sizeof(functions) / sizeof(functions[0]));
}

static uint64_t now_ms(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Queues an answer with a copy of `text`. */
static enum MHD_Result answer_with(
    struct MHD_Connection *connection, unsigned status, const char *type, const char *text, size_t length)
{
  struct MHD_Response *response = create_response(length, (void *)text, MHD_RESPMEM_MUST_COPY);
  if (!response)
    return MHD_NO;                                                /* MHD_NO closes the connection */
  (void)add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type); /* optional: the text is valid without it */
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

  const union MHD_ConnectionInfo *info = get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  client_t *client = info ? info->socket_context : NULL;
  if (*upload_bytes) { /* part of a body, which the server ignores */
    *upload_bytes = 0;
    return MHD_YES;
  }
  if (client) {
    client->is_answered = true;
    client->since_ms = now_ms();
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

/* Called by libmicrohttpd after it has taken a connection, and before it closes one. It does both only during
 * calls from this file. */
static void note_connection(void *self, struct MHD_Connection *connection, void **ret_client,
    enum MHD_ConnectionNotificationCode code)
{
  server_t *server = self;
  client_t *client = *ret_client;

  if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
    if (client)
      client->fd = -1;
    return;
  }
  const union MHD_ConnectionInfo *info = get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  for (unsigned i = 0; info && i < CONNECTIONS; i++) {
    client = &server->clients[i];
    if (client->fd >= 0)
      continue;
    *client = (client_t){.fd = info->connect_fd, .since_ms = now_ms()};
    *ret_client = client;
    return;
  }
}

/* Shuts a connection down. libmicrohttpd then reads the rest of the client's data, and closes it. */
static void cut(client_t *client)
{
  client->is_cut = true;
  (void)shutdown(client->fd, SHUT_RDWR); /* fails if the client has already disconnected */
}

/* Returns true if a slot is free. Otherwise cuts the connection that has been silent the longest, which soon
 * frees its slot. */
static bool make_room(server_t *server)
{
  client_t *oldest = NULL;

  for (unsigned i = 0; i < CONNECTIONS; i++) {
    client_t *client = &server->clients[i];
    if (client->fd < 0)
      return true;
    if (!client->is_cut && (!oldest || client->since_ms < oldest->since_ms))
      oldest = client;
  }
  if (oldest)
    cut(oldest);
  return false;
}

static void accept_one(server_t *server)
{
  endpoint_t peer;
  socklen_t bytes = sizeof(peer);

  if (!make_room(server))
    return;
  int fd = accept4(server->listening, &peer.any, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0)
    (void)add_connection(server->daemon, fd, &peer.any, bytes); /* closes fd on failure */
  else if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
    server->accepts_from_ms = now_ms() + PAUSE_MS; /* accept failed: no descriptor or memory is available */
}

static uint64_t end_of(const client_t *client)
{
  return client->since_ms + (client->is_answered ? ANSWER_MS : REQUEST_MS);
}

static void cut_late(server_t *server)
{
  const uint64_t now = now_ms();
  for (unsigned i = 0; i < CONNECTIONS; i++) {
    client_t *client = &server->clients[i];
    if (client->fd >= 0 && !client->is_cut && end_of(client) <= now)
      cut(client);
  }
}

/* Returns the timeout for poll(2): milliseconds until libmicrohttpd or this file must act, or -1 for none. */
static int wait_ms(server_t *server)
{
  const uint64_t now = now_ms();
  uint64_t first = server->accepts_from_ms > now ? server->accepts_from_ms : UINT64_MAX;
  MHD_UNSIGNED_LONG_LONG left;

  for (unsigned i = 0; i < CONNECTIONS; i++) {
    const client_t *client = &server->clients[i];
    if (client->fd >= 0 && !client->is_cut && end_of(client) < first)
      first = end_of(client);
  }
  if (get_timeout(server->daemon, &left) == MHD_YES && now + left < first)
    first = now + left;
  return first == UINT64_MAX ? -1 : first <= now ? 0 : (int)(first - now);
}

/* Serves clients until a signal ends the server. Reads what clients have sent before it checks for timeouts,
 * because answering another client may have used up their time. */
static void serve_all(server_t *server)
{
  const union MHD_DaemonInfo *info = get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  struct pollfd waiting[] = {{.fd = server->ends, .events = POLLIN},
      {.fd = info ? info->epoll_fd : -1, .events = POLLIN}, {.events = POLLIN}};

  while (!waiting[0].revents) {
    waiting[2].fd = server->accepts_from_ms <= now_ms() ? server->listening : -1;
    if (poll(waiting, sizeof(waiting) / sizeof(waiting[0]), wait_ms(server)) < 0)
      waiting[0].revents = waiting[2].revents = 0; /* stopped and continued, or no memory: poll again */
    if (waiting[2].revents)
      accept_one(server);
    (void)run_daemon(server->daemon); /* an error concerns a single client, and closes its connection */
    cut_late(server);
  }
}

/* Returns a socket that listens at `address`, or -1 on failure. */
static int listen_at(const struct sockaddr *address)
{
  const int on = 1;
  bool is_six = address->sa_family == AF_INET6;
  socklen_t bytes = is_six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return -1;
  (void)setsockopt(
      fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* else the address stays in use for a while */
  if (is_six)
    (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)); /* else "::" also listens on IPv4 */
  if (bind(fd, address, bytes) == 0 && listen(fd, SOMAXCONN) == 0)
    return fd;
  (void)close(fd); /* the socket was never used */
  return -1;
}

static int serve(const char *text, const struct sockaddr *address)
{
  server_t server = {.listening = -1};
  sigset_t ends;

  if (!open_library()) {
    gp_message("metrics: --listen needs " LIBRARY " (Debian and Ubuntu: the package libmicrohttpd12)");
    return GP_EXIT_INPUT;
  }
  for (unsigned i = 0; i < CONNECTIONS; i++)
    server.clients[i].fd = -1;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &ends, NULL);
  server.ends = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
  server.daemon = start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, answer, NULL,
      MHD_OPTION_NOTIFY_CONNECTION, note_connection, &server, MHD_OPTION_END);
  if (server.daemon && server.ends >= 0)
    server.listening = listen_at(address);
  if (server.listening < 0) {
    gp_message(
        "metrics: cannot listen at %s: the address is not of this machine, or in use, or needs root", text);
  } else {
    gp_message(
        "metrics at http://%s%s/metrics; Control-C ends it", strchr(text, ':') ? "" : LOOPBACK ":", text);
    serve_all(&server);
    (void)close(server.listening); /* drops connections that were not accepted yet */
  }
  if (server.daemon)
    stop_daemon(server.daemon);
  if (server.ends >= 0)
    (void)close(server.ends); /* read-only, so no data is lost */
  return server.listening < 0 ? GP_EXIT_INPUT : GP_EXIT_DONE;
}
#else
static int serve(const char *text, const struct sockaddr *address)
{
  (void)text, (void)address;
  gp_message("metrics: this gpupool was built without libmicrohttpd; use -o FILE and the textfile collector");
  return GP_EXIT_INPUT;
}
#endif

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
