#include "trace/snapshot/oom_report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/size.h"
#include "trace/snapshot/oom_advice.h"
#include "trace/stacks/asker.h"

#define NS_PER_MS UINT64_C(1000000)

typedef struct text {
  char *buffer;
  size_t capacity;
  size_t used;
} text_t;

static __attribute__((format(printf, 2, 3))) void add(text_t *text, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text->buffer + text->used, text->capacity - text->used, format, arguments);
  va_end(arguments);
  if (length > 0)
    text->used +=
        (size_t)length < text->capacity - text->used ? (size_t)length : text->capacity - text->used - 1;
}

static void add_size(text_t *text, const char *before, uint64_t bytes, const char *after)
{
  char size[GP_SIZE_TEXT_BYTES];
  add(text, "%s%s%s", before, gp_size_format(bytes, size), after);
}

static void add_owners(text_t *text, const gp_oom_t *oom)
{
  if (!oom->owners[0].count)
    return;
  add(text, "; largest groups:");
  for (int i = 0; i < GP_OOM_OWNERS && oom->owners[i].count; i++) {
    char size[GP_SIZE_TEXT_BYTES];
    add(text, "%s %llu x %s", i ? "," : "", (unsigned long long)oom->owners[i].count,
        gp_size_format(oom->owners[i].size, size));
  }
}

static void add_time(text_t *text, const char *before, uint64_t ns, const char *after)
{
  unsigned long long ms = ns / NS_PER_MS;
  if (ms < 1000)
    add(text, "%s%llu ms%s", before, ms, after);
  else
    add(text, "%s%llu.%llu s%s", before, ms / 1000, ms % 1000 / 100, after);
}

/* Adds a sentence about pending work. Such work keeps freed memory in use and prevents the release of cached
 * memory. */
static void add_busy(text_t *text, const gp_oom_t *oom)
{
  if (!oom->busy_context) {
    if (oom->waited_ns >= NS_PER_MS)
      add_time(text, "; the allocation waited ", oom->waited_ns, " for the device");
    return;
  }
  add(text, "; the device is busy: work submitted to context %llu", (unsigned long long)oom->busy_context);
  if (oom->busy_ns >= NS_PER_MS)
    add_time(text, " at least ", oom->busy_ns, " ago");
  add(text, " is not complete");
  if (oom->deferred)
    add_size(text, ", so ", oom->deferred, " of freed memory is still in use");
  if (oom->cached > oom->in_pieces)
    add_size(text, oom->deferred ? " and " : ", so ", oom->cached - oom->in_pieces,
        " of cached memory cannot be released");
  if (oom->waited_ns >= NS_PER_MS)
    add_time(text, "; the allocation waited ", oom->waited_ns, "");
  else
    add(text, "; the allocation did not wait");
}

char *gp_oom_describe(const gp_oom_t *oom, const char *asker, char *buffer, size_t capacity)
{
  text_t text = {.buffer = buffer, .capacity = capacity};
  if (!capacity)
    return buffer;
  buffer[0] = '\0';

  if (gp_oom_is_of_host(oom))
    add(&text, "out of page-locked host memory: ");
  else
    add(&text, "out of memory on device %d: ", oom->device);
  add_size(&text, "requested ", oom->requested, "");
  if (asker)
    add(&text, " in %s", asker);
  add_size(&text, "; the program uses ", oom->live, "");
  if (oom->passthrough)
    add_size(&text, " and ", oom->passthrough, " forwarded (not pooled)");
  if (oom->deferred)
    add_size(&text, ", freed but still in use ", oom->deferred, "");
  if (!gp_oom_is_of_host(oom))
    add_size(&text, ", cached ", oom->cached, "");
  if (oom->in_pieces)
    add_size(&text, ", ", oom->in_pieces, " of it in pieces between blocks in use");
  if (oom->largest_free && oom->cached)
    add_size(&text, " (largest idle block ", oom->largest_free, ")");
  if (oom->limit)
    add_size(&text, "; limit ", oom->limit, "");
  if (oom->device_total) {
    add_size(&text, "; the device has ", oom->device_free, "");
    add_size(&text, " free of ", oom->device_total, "");
  }
  add_owners(&text, oom);
  add_busy(&text, oom);
  return buffer;
}

/* Not inlined, so that its texts are no longer on the stack, which may be small, when the caller writes the
 * snapshot afterwards. */
__attribute__((noinline)) void gp_oom_log(
    const gp_oom_t *oom, uint64_t times, const char *limits, const gp_stack_logs_t *logs, uint32_t stack)
{
  char text[GP_OOM_TEXT_BYTES], asker[GP_ASKER_BYTES];
  gp_oom_advice_t advice;
  bool has_asker = gp_asker_describe(logs, stack, asker, sizeof(asker));

  gp_oom_advise(oom, limits, &advice);
  gp_oom_describe(oom, has_asker ? asker : NULL, text, sizeof(text));
  if (times > 1)
    gp_log(GP_LOG_ERROR, "memory ran out %" PRIu64 " more times, the last time %s. %s", times, text,
        advice.text);
  else
    gp_log(GP_LOG_ERROR, "%s%s. %s", times ? "memory ran out again, " : "", text, advice.text);
}
