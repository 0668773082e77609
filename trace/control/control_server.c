#include "trace/control/control_server.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "trace/control/control_socket.h"

#define PAUSE_MS 1000

void gp_control_server_init(gp_control_server_t *server, int listening, gp_control_answer_fn answer,
    void *self, uint64_t (*now_ms)(void))
{
  server->listening = listening;
  server->answer = answer;
  server->self = self;
  server->now_ms = now_ms;
  server->refused_until_ms = 0;
  server->count = 0;
}

static void answer_and_close(gp_control_server_t *server, unsigned index, ssize_t length)
{
  struct gp_control_peer *peer = &server->peers[index];
  gp_assert(index < server->count);
  server->answer(server->self, peer->fd, peer->request, length);
  (void)close(peer->fd); /* gives up unsent data */
  *peer = server->peers[--server->count];
}

/* True once there is a whole request: up to a line end, the end of the client's data,
 * or the end of the buffer. */
static bool read_more(struct gp_control_peer *peer, bool *ret_gone)
{
  size_t room = sizeof(peer->request) - peer->used;
  gp_assert(room > 0); /* a full buffer is answered at once */
  ssize_t got = recv(peer->fd, peer->request + peer->used, room, MSG_DONTWAIT);
  *ret_gone = got < 0 && errno != EINTR && errno != EAGAIN;
  if (got <= 0)
    return got == 0;
  peer->used += (size_t)got;
  return (size_t)got == room || memchr(peer->request + peer->used - got, '\n', (size_t)got) != NULL;
}

static void accept_all(gp_control_server_t *server)
{
  while (server->count < GP_CONTROL_CLIENTS_MAX) {
    int fd = accept4(server->listening, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
      continue;
    if (fd < 0) {
      if (errno != EAGAIN) /* the system has no file or memory to give just now */
        server->refused_until_ms = server->now_ms() + PAUSE_MS;
      return;
    }
    struct gp_control_peer *peer = &server->peers[server->count++];
    peer->fd = fd;
    peer->used = 0;
    peer->until_ms = server->now_ms() + GP_CONTROL_REQUEST_MS;
    if (!gp_control_peer_may(fd)) /* a refused client takes no slot */
      answer_and_close(server, server->count - 1, -1);
  }
}

/* Milliseconds until the first client's time is over, for poll(); -1: there is no client. */
static int wait_ms(const gp_control_server_t *server, uint64_t now_ms)
{
  uint64_t first_ms = server->refused_until_ms > now_ms ? server->refused_until_ms : UINT64_MAX;
  for (unsigned i = 0; i < server->count; i++) {
    if (server->peers[i].until_ms < first_ms)
      first_ms = server->peers[i].until_ms;
  }
  return first_ms == UINT64_MAX ? -1 : first_ms <= now_ms ? 0 : (int)(first_ms - now_ms);
}

void gp_control_server_turn(gp_control_server_t *server)
{
  struct pollfd waiting[GP_CONTROL_CLIENTS_MAX + 1];
  const uint64_t now_ms = server->now_ms();
  const unsigned count = server->count;
  bool accepts = count < GP_CONTROL_CLIENTS_MAX && server->refused_until_ms <= now_ms;

  waiting[count] = (struct pollfd){.fd = accepts ? server->listening : -1, .events = POLLIN};
  for (unsigned i = 0; i < count; i++)
    waiting[i] = (struct pollfd){.fd = server->peers[i].fd, .events = POLLIN};
  if (poll(waiting, count + 1, wait_ms(server, now_ms)) < 0)
    return; /* interrupted, or no memory: the next turn tries again */
  /* Walks backwards: when a client goes, one that has had its turn takes its slot. Reads a client's data
   * before it checks its time, which another client's long request may have used up. */
  for (unsigned i = count; i-- > 0;) {
    struct gp_control_peer *peer = &server->peers[i];
    bool gone = false;
    if (waiting[i].revents && read_more(peer, &gone))
      answer_and_close(server, i, (ssize_t)peer->used);
    else if (gone || server->now_ms() >= peer->until_ms)
      answer_and_close(server, i, -1);
  }
  if (waiting[count].revents)
    accept_all(server);
}
