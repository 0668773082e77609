/*
 * Requests of the control socket: their effect on an engine over the fake driver, and what is answered to
 * bytes of every kind.
 */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/path.h"
#include "test/pool/check_main.h"
#include "test/pool/engine_fixture.h"
#include "test/trace/leaks.h"
#include "trace/control/control_request.h"
#include "trace/control/control.h"

static gp_options_t options;
static gp_control_target_t target;
static char folder[] = "/tmp/gpupool-control-XXXXXX";

static uint64_t clock_now(void *self)
{
  return ((fake_driver_t *)self)->now_ns;
}

static void begin_all(void)
{
  char output[64];
  strcpy(folder + strlen(folder) - 6, "XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(output, sizeof(output), "GPUPOOL_OUTPUT=%s/%%n.%%r.json", folder);
  const char *const settings[] = {output, "GPUPOOL_OUTPUT_MAX=2", NULL};
  gp_driver_context_t first = fake_context(0, 0);
  fake_driver_init(&driver, GP_GIB, true);
  fake_options(&options, settings);
  target.recorder = gp_recorder_create(&options, clock_now, &driver);
  gp_observer_t observer = gp_recorder_observer(target.recorder);
  engine = fake_engine(&driver, &observer, settings);
  target.writer = gp_snapshot_writer_create(target.recorder);
  gp_snapshot_writer_attach(target.writer, engine);
  target.engine = engine;
  context = gp_engine_context(engine, &first);
}

static void end_all(void)
{
  char command[128];
  stop();
  gp_snapshot_writer_destroy(target.writer);
  gp_recorder_destroy(target.recorder);
  snprintf(command, sizeof(command), "rm -r %s", folder);
  ck_assert_int_eq(system(command), 0);
}

/* The answer, which is always one JSON object. */
static cJSON *ask_bytes(const char *text, size_t length)
{
  static char buffer[GP_CONTROL_REQUEST_BYTES];
  static char text_of_answer[1 << 18];
  gp_json_t json;
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  gp_json_init(&json, ends[1], buffer, sizeof(buffer));
  gp_control_request(&target, text, length, &json);
  ck_assert_int_eq(gp_json_finish(&json), 0);
  close(ends[1]);
  size_t used = 0;
  for (ssize_t got; (got = read(ends[0], text_of_answer + used, sizeof(text_of_answer) - 1 - used)) > 0;)
    used += (size_t)got;
  close(ends[0]);
  text_of_answer[used] = '\0';
  cJSON *answer = cJSON_ParseWithOpts(text_of_answer, NULL, true);
  ck_assert_msg(cJSON_IsObject(answer), "no JSON object: %s", text_of_answer);
  const cJSON *ok = cJSON_GetObjectItem(answer, "ok");
  ck_assert(cJSON_IsBool(ok));
  if (!cJSON_IsTrue(ok))
    ck_assert(cJSON_IsString(cJSON_GetObjectItem(answer, "error")));
  return answer;
}

static cJSON *ask(const char *text)
{
  return ask_bytes(text, strlen(text));
}

static double number(const cJSON *answer, const char *name)
{
  const cJSON *item = cJSON_GetObjectItem(answer, name);
  ck_assert_msg(cJSON_IsNumber(item), "%s is no number", name);
  return item->valuedouble;
}

static void expect_refusal(const char *text, const char *part)
{
  cJSON *answer = ask(text);
  ck_assert(cJSON_IsFalse(cJSON_GetObjectItem(answer, "ok")));
  const char *error = cJSON_GetObjectItem(answer, "error")->valuestring;
  ck_assert_msg(strstr(error, part) != NULL, "%s: %s", text, error);
  cJSON_Delete(answer);
}

START_TEST(test_stats)
{
  allocate(3 * GP_MIB);
  free_code(allocate(GP_MIB));
  synchronize();
  driver.now_ns += 5000;
  cJSON *answer = ask("stats\n");
  ck_assert_int_eq((int)number(answer, "pid"), getpid());
  ck_assert_str_eq(cJSON_GetObjectItem(answer, "trace")->valuestring, "all");
  ck_assert(number(answer, "time_ns") >= 5000);
  const cJSON *devices = cJSON_GetObjectItem(answer, "devices");
  ck_assert_int_eq(cJSON_GetArraySize(devices), 1);
  const cJSON *of_device = cJSON_GetObjectItem(cJSON_GetArrayItem(devices, 0), "stats");
#define GAUGE(name, ...)                                                                                     \
  ck_assert(number(cJSON_GetObjectItem(of_device, #name), "current") == (double)stats().name.current);       \
  ck_assert(number(cJSON_GetObjectItem(of_device, #name), "peak") == (double)stats().name.peak);
#define COUNTER(name, ...) ck_assert(number(of_device, #name) == (double)stats().name);
#include "format/stats.def"
  ck_assert(number(of_device, "fragmentation") == 0); /* one idle block */
  cJSON_Delete(answer);
}
END_TEST

START_TEST(test_empty_cache)
{
  allocate(GP_MIB);
  free_code(allocate(4 * GP_MIB));
  synchronize();
  cJSON *answer = ask("empty-cache");
  ck_assert(number(answer, "given_back") == 4 * GP_MIB);
  ck_assert(cJSON_IsFalse(cJSON_GetObjectItem(answer, "suspended")));
  ck_assert_uint_eq(driver.used, GP_MIB);
  cJSON_Delete(answer);
  gp_engine_suspend(engine);
  answer = ask("empty-cache");
  ck_assert(cJSON_IsTrue(cJSON_GetObjectItem(answer, "suspended")));
  gp_engine_resume(engine);
  cJSON_Delete(answer);
}
END_TEST

START_TEST(test_what_a_busy_device_keeps)
{
  uint64_t address = allocate(GP_MIB);
  free_code(allocate(4 * GP_MIB));
  synchronize();
  fake_submit(&driver, 0, address);
  cJSON *answer = ask("limit 2MiB"); /* what is live counts as a page */
  ck_assert(number(answer, "given_back") == 0 && number(answer, "kept") == 4 * GP_MIB);
  cJSON_Delete(answer);
  answer = ask("empty-cache");
  ck_assert(number(answer, "given_back") == 0 && number(answer, "kept") == 4 * GP_MIB);
  cJSON_Delete(answer);
  fake_complete(&driver, 0);
  answer = ask("empty-cache");
  ck_assert(number(answer, "given_back") == 4 * GP_MIB && number(answer, "kept") == 0);
  cJSON_Delete(answer);
}
END_TEST

START_TEST(test_limit)
{
  uint64_t address;
  allocate(2 * GP_MIB);
  cJSON *answer = ask("limit 0=3MiB,1=50%");
  const cJSON *device = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "devices"), 0);
  ck_assert(number(device, "limit") == 3 * GP_MIB && number(device, "held") == 2 * GP_MIB);
  cJSON_Delete(answer);
  ck_assert_int_eq(gp_engine_alloc(engine, context, 2 * GP_MIB, &address), FAKE_OUT_OF_MEMORY);
  expect_refusal("limit 3 lemons", "accepted: a size (8GiB)");
  ck_assert_uint_eq(gp_engine_limit(engine, 0), 3 * GP_MIB);
  cJSON_Delete(ask("limit  none"));
  ck_assert_uint_eq(gp_engine_limit(engine, 0), 0);
}
END_TEST

START_TEST(test_trace_and_peaks)
{
  free_code(allocate(4 * GP_MIB));
  cJSON_Delete(ask("reset-peaks"));
  ck_assert_uint_eq(stats().requested_bytes.peak, 0);
  cJSON *answer = ask("trace state");
  ck_assert_str_eq(cJSON_GetObjectItem(answer, "trace")->valuestring, "state");
  ck_assert_int_eq(gp_recorder_mode(target.recorder), GP_TRACE_STATE);
  cJSON_Delete(answer);
  expect_refusal("trace some", "off, state or all");
  ck_assert_int_eq(gp_recorder_mode(target.recorder), GP_TRACE_STATE);
}
END_TEST

START_TEST(test_snapshot)
{
  char expected[128];
  allocate(GP_MIB);
  cJSON *answer = ask("snapshot");
  snprintf(expected, sizeof(expected), "%s/1.request.json", folder);
  ck_assert_str_eq(cJSON_GetObjectItem(answer, "path")->valuestring, expected);
  ck_assert_int_eq(access(expected, R_OK), 0);
  cJSON_Delete(answer);
  cJSON_Delete(ask("snapshot\n"));
  ck_assert_int_eq(access(expected, R_OK), 0); /* stays */
  expect_refusal("snapshot", "GPUPOOL_OUTPUT_MAX");
  snprintf(expected, sizeof(expected), "snapshot %s/by name.json\n", folder);
  for (int i = 0; i < 2; i++) { /* the name is taken the second time */
    answer = ask(expected);
    ck_assert_ptr_nonnull(
        strstr(cJSON_GetObjectItem(answer, "path")->valuestring, i ? "/by name.json.1" : "/by name.json"));
    cJSON_Delete(answer);
  }
  expect_refusal("snapshot here.json", "not absolute");
  snprintf(expected, sizeof(expected), "snapshot %s/", folder);
  expect_refusal(expected, "is a folder");
  char long_path[GP_PATH_BYTES + 32] = "snapshot /";
  memset(long_path + strlen(long_path), 'x', GP_PATH_BYTES);
  expect_refusal(long_path, "File name too long");
}
END_TEST

START_TEST(test_what_is_wrong_is_said)
{
  expect_refusal("", "known: snapshot [PATH], stats");
  expect_refusal("\n", "known:");
  expect_refusal("STATS", "unknown request \"STATS\"");
  expect_refusal("stats now", "usage: stats");
  expect_refusal("empty-cache 1", "usage: empty-cache");
  expect_refusal("limit", "usage: limit SIZE");
  expect_refusal("trace ", "usage: trace off|state|all");
  expect_refusal("stats\nstats\n", "one line");
  cJSON_Delete(ask_bytes("stats\0\n", 7));
  static char large[2 * GP_CONTROL_REQUEST_BYTES];
  memset(large, 'a', sizeof(large) - 1);
  expect_refusal(large, "too long");
}
END_TEST

/* Bytes of every kind, mostly near to what is legal. Whatever comes, there is one JSON object, and the engine
 * is whole. */
START_TEST(test_hostile_requests)
{
  static const char *const seeds[] = {"stats\n", "limit 8GiB\n", "limit 0=1MiB,1=50%\n", "trace all\n",
      "empty-cache\n", "reset-peaks\n", "snapsho x\n", "limit 18446744073709551615\n"};
  const int seed_count = (int)(sizeof(seeds) / sizeof(seeds[0]));
  uint32_t state = 12345;
#define RANDOM(bound) ((state = state * 1664525u + 1013904223u), (state >> 8) % (uint32_t)(bound))
  allocate(GP_MIB);
  for (int round = 0; round < 20000; round++) {
    char text[64];
    size_t length = strlen(strcpy(text, seeds[RANDOM(seed_count)]));
    for (uint32_t edits = RANDOM(4); edits > 0; edits--) {
      size_t at = RANDOM(length);
      switch (RANDOM(3)) {
      case 0: text[at] = (char)RANDOM(256); break;
      case 1: length = at + 1; break;
      default:
        if (length < sizeof(text) - 1) {
          memmove(text + at + 1, text + at, length - at);
          text[at] = " 0=,%%-\n\x80\xff"[RANDOM(9)];
          length++;
        }
      }
    }
    cJSON_Delete(ask_bytes(text, length));
  }
  cJSON_Delete(ask("limit none"));
}
END_TEST

/*
 * Where the socket is
 */

START_TEST(test_folders)
{
  char path[GP_CONTROL_PATH_BYTES];
  char long_folder[200] = "/";
  ck_assert_str_eq(gp_control_folder("", "/run/user/7", 7, path), "/run/user/7/gpupool");
  ck_assert_str_eq(gp_control_folder("/proc/4/root", NULL, 7, path), "/proc/4/root/tmp/gpupool.7");
  ck_assert_str_eq(gp_control_folder("", "relative", 7, path), "/tmp/gpupool.7");
  memset(long_folder + 1, 'x', sizeof(long_folder) - 2);
  ck_assert_str_eq(gp_control_folder("", long_folder, 7, path), "/tmp/gpupool.7");
  ck_assert_str_eq(gp_control_folder(long_folder, NULL, 7, path), "");
  ck_assert_str_eq(gp_control_path("/tmp/gpupool.7", ".", 12, 345, 6, path), "/tmp/gpupool.7/.12-345-6");
  ck_assert_str_eq(gp_control_path(long_folder, "", 12, 345, 6, path), "");
}
END_TEST

START_TEST(test_processes_by_start)
{
  uint64_t start_of_own = gp_process_start(getpid());
  ck_assert_uint_gt(start_of_own, 0);
  ck_assert_uint_eq(gp_process_start(getpid()), start_of_own);
  ck_assert_uint_eq(gp_process_start(-1), 0);
}
END_TEST

static int make_socket(const char *path)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  strcpy(address.sun_path, path);
  ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
  ck_assert_int_eq(listen(fd, 1), 0);
  return fd;
}

START_TEST(test_stale_sockets_go)
{
  char own[GP_CONTROL_PATH_BYTES], elsewhere[GP_CONTROL_PATH_BYTES], gone[GP_CONTROL_PATH_BYTES],
      half[GP_CONTROL_PATH_BYTES], other[GP_CONTROL_PATH_BYTES];
  uint64_t start_of_own = gp_process_start(getpid());
  gp_control_path(folder, "", getpid(), start_of_own, 6, own);
  gp_control_path(
      folder, "", getpid(), start_of_own + 1, 6, elsewhere); /* no such process here, but it answers */
  gp_control_path(folder, "", getpid(), start_of_own + 2, 6, gone);
  gp_control_path(folder, ".", getpid(), start_of_own + 3, 6, half);
  snprintf(other, sizeof(other), "%s/notes", folder);
  close(make_socket(own));
  close(make_socket(gone));
  close(make_socket(half));
  close(make_socket(other));
  int fd = make_socket(elsewhere);
  ck_assert_uint_eq(gp_control_remove_stale(folder), 2);
  ck_assert_int_eq(access(own, F_OK), 0); /* its process may be about to serve */
  ck_assert_int_eq(access(elsewhere, F_OK), 0);
  ck_assert_int_eq(access(other, F_OK), 0);
  ck_assert_int_ne(access(gone, F_OK), 0);
  ck_assert_int_ne(access(half, F_OK), 0);
  close(fd);
  ck_assert_uint_eq(gp_control_remove_stale("/no such folder"), 0);
}
END_TEST

/* ---- clients ---- */

static gp_control_server_t server;
static uint64_t server_ms;

static uint64_t server_clock(void)
{
  return server_ms;
}

/* Answers with the request itself. */
static void echo(void *self, int fd, const char *request, ssize_t length)
{
  ++*(unsigned *)self;
  if (length == 0) /* it has gone */
    return;
  ck_assert_int_ge(write(fd, length < 0 ? "late" : request, length < 0 ? 4 : (size_t)length), 1);
}

static void start_server(const struct sockaddr_un *address, unsigned *answers)
{
  int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
  ck_assert_int_eq(bind(listening, (const struct sockaddr *)address, sizeof(*address)), 0);
  ck_assert_int_eq(listen(listening, GP_CONTROL_CLIENTS_MAX + 2), 0);
  server_ms = 1000;
  gp_control_server_init(&server, listening, echo, answers, server_clock);
}

static int connect_client(const struct sockaddr_un *address)
{
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  ck_assert_int_eq(connect(fd, (const struct sockaddr *)address, sizeof(*address)), 0);
  return fd;
}

static void expect_answer(int fd, const char *text)
{
  char buffer[64] = "";
  ck_assert_int_eq(recv(fd, buffer, sizeof(buffer) - 1, MSG_DONTWAIT), (ssize_t)strlen(text));
  ck_assert_str_eq(buffer, text);
  ck_assert_int_eq(recv(fd, buffer, sizeof(buffer), MSG_DONTWAIT), 0); /* closed */
  close(fd);
}

START_TEST(test_silent_clients_hold_up_no_other)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char path[] = "/tmp/gpupool-server-XXXXXX";
  unsigned answers = 0;
  int silent[9];
  char byte;

  ck_assert_ptr_nonnull(mkdtemp(path));
  snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", path);
  start_server(&address, &answers);
  for (int i = 0; i < 9; i++)
    silent[i] = connect_client(&address);
  gp_control_server_turn(&server);
  int tenth = connect_client(&address);
  ck_assert_int_eq(write(silent[4], "half", 4), 4);
  ck_assert_int_eq(write(tenth, "half", 4), 4);
  gp_control_server_turn(&server); /* what came from one, and the tenth is there */
  ck_assert_int_eq(write(tenth, " and half\n", 10), 10);
  gp_control_server_turn(&server);
  expect_answer(tenth, "half and half\n");
  ck_assert_uint_eq(answers, 1);
  ck_assert_int_eq(recv(silent[0], &byte, 1, MSG_DONTWAIT), -1); /* not yet: no time has passed */
  close(silent[8]);
  gp_control_server_turn(&server);
  ck_assert_uint_eq(server.count, 8); /* one that has gone is no client any more */
  server_ms += GP_CONTROL_REQUEST_MS - 1;
  ck_assert_int_eq(write(silent[4], "\n", 1), 1); /* in time */
  gp_control_server_turn(&server);
  expect_answer(silent[4], "half\n");
  ck_assert_uint_eq(server.count, 7);
  server_ms++;
  gp_control_server_turn(&server); /* does not wait: their time is over */
  for (int i = 0; i < 8; i++) {
    if (i != 4)
      expect_answer(silent[i], "late");
  }
  ck_assert_uint_eq(server.count, 0);
  close(server.listening);
  unlink(address.sun_path);
  rmdir(path);
}
END_TEST

/* Those that are too many wait for a place; none is lost. */
START_TEST(test_more_clients_than_places)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char path[] = "/tmp/gpupool-server-XXXXXX";
  unsigned answers = 0;
  int clients[GP_CONTROL_CLIENTS_MAX + 2];

  ck_assert_ptr_nonnull(mkdtemp(path));
  snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", path);
  start_server(&address, &answers);
  for (unsigned i = 0; i < GP_CONTROL_CLIENTS_MAX + 2; i++)
    clients[i] = connect_client(&address);
  gp_control_server_turn(&server);
  ck_assert_uint_eq(server.count, GP_CONTROL_CLIENTS_MAX);
  for (unsigned i = 0; i < GP_CONTROL_CLIENTS_MAX + 2; i++)
    ck_assert_int_eq(write(clients[i], "x\n", 2), 2);
  while (answers < GP_CONTROL_CLIENTS_MAX + 2)
    gp_control_server_turn(&server);
  for (unsigned i = 0; i < GP_CONTROL_CLIENTS_MAX + 2; i++)
    expect_answer(clients[i], "x\n");
  close(server.listening);
  unlink(address.sun_path);
  rmdir(path);
}
END_TEST

int main(void)
{
  Suite *suite = suite_create("control");
  TCase *requests = tcase_create("requests");
  gp_add_descriptor_fixture(requests);
  tcase_add_checked_fixture(requests, begin_all, end_all);
  tcase_set_timeout(requests, 120);
  tcase_add_test(requests, test_stats);
  tcase_add_test(requests, test_empty_cache);
  tcase_add_test(requests, test_what_a_busy_device_keeps);
  tcase_add_test(requests, test_limit);
  tcase_add_test(requests, test_trace_and_peaks);
  tcase_add_test(requests, test_snapshot);
  tcase_add_test(requests, test_what_is_wrong_is_said);
  tcase_add_test(requests, test_hostile_requests);
  tcase_add_test(requests, test_stale_sockets_go);
  suite_add_tcase(suite, requests);
  TCase *places = tcase_create("places");
  tcase_add_test(places, test_folders);
  tcase_add_test(places, test_processes_by_start);
  suite_add_tcase(suite, places);
  TCase *clients = tcase_create("clients");
  tcase_set_timeout(clients, 120);
  tcase_add_test(clients, test_silent_clients_hold_up_no_other);
  tcase_add_test(clients, test_more_clients_than_places);
  suite_add_tcase(suite, clients);
  return gp_check_main(suite);
}
