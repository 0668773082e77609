/*
 * Requests of the control socket: one line of any bytes. The answer is always one JSON object, {"ok":true,
 * ...} or
 * {"ok":false,"error":"..."}, and the engine is sound afterwards. Snapshots are refused, so nothing is
 * written.
 */
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "test/fuzz/address_driver.h"
#include "trace/control/control_request.h"

static uint64_t driver_now(void *self)
{
  static uint64_t now_ns;
  return now_ns += 1000;
}

static const char *lookup(void *arg, const char *variable)
{
  return NULL;
}

/* Once: an engine with one block that is held and one that is idle. */
static gp_control_target_t *make_target(void)
{
  static gp_control_target_t target;
  static gp_driver_ops_t ops;
  const gp_driver_t driver = {&ops, NULL};
  const gp_driver_context_t of = {(void *)1, 1, 0, true};
  uint64_t held, idle;
  int code;

  if (target.engine)
    return &target;
  fuzz_silence();
  ops = address_driver_ops(driver_now);
  gp_options_parse(&target.options, lookup, NULL, NULL, NULL);
  target.recorder = gp_recorder_create(&target.options, driver_now, NULL);
  FUZZ_CHECK(target.recorder != NULL);
  const gp_observer_t observer = gp_recorder_observer(target.recorder);
  target.engine = gp_engine_create(&driver, &observer, &target.options);
  FUZZ_CHECK(target.engine != NULL);
  gp_context_t *context = gp_engine_context(target.engine, &of);
  target.writer = gp_snapshot_writer_create(target.recorder);
  FUZZ_CHECK(target.writer != NULL);
  gp_snapshot_writer_attach(target.writer, target.engine);
  gp_recorder_fork_child(target.recorder); /* as in a child: it writes nothing any more */
  FUZZ_CHECK(gp_engine_alloc(target.engine, context, 1 << 20, &held) == 0);
  FUZZ_CHECK(gp_engine_alloc(target.engine, context, 1 << 21, &idle) == 0);
  FUZZ_CHECK(gp_engine_free(target.engine, idle, &code) == GP_FREE_DONE);
  gp_engine_sync_end(target.engine, context, gp_engine_sync_begin(target.engine));
  return &target;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static char buffer[4096];
  static char text[1 << 16];
  static int answers = -1;
  gp_control_target_t *target = make_target();
  gp_json_t json;

  if (size > GP_CONTROL_REQUEST_BYTES) /* the socket reads no more */
    return 0;
  if (answers < 0)
    answers = memfd_create("answers", MFD_CLOEXEC);
  FUZZ_CHECK(answers >= 0 && ftruncate(answers, 0) == 0 && lseek(answers, 0, SEEK_SET) == 0);
  char *request = fuzz_copy(data, size);
  gp_json_init(&json, answers, buffer, sizeof(buffer));
  gp_control_request(target, request, size, &json);
  FUZZ_CHECK(gp_json_finish(&json) == 0);
  free(request);

  ssize_t length = pread(answers, text, sizeof(text) - 1, 0);
  FUZZ_CHECK(length > 0 && (size_t)length < sizeof(text) - 1);
  text[length] = '\0';
  cJSON *answer = cJSON_ParseWithOpts(text, NULL, true);
  const cJSON *ok = cJSON_GetObjectItem(answer, "ok");
  FUZZ_CHECK(cJSON_IsBool(ok));
  FUZZ_CHECK(cJSON_IsTrue(ok) || cJSON_GetStringValue(cJSON_GetObjectItem(answer, "error")) != NULL);
  cJSON_Delete(answer);
  FUZZ_CHECK(gp_engine_check(target->engine));
  return 0;
}
