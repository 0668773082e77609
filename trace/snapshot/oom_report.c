#include "trace/snapshot/oom_report.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "pool/util/size.h"

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
  add(text, "; biggest owners:");
  for (int i = 0; i < GP_OOM_OWNERS && oom->owners[i].count; i++) {
    char size[GP_SIZE_TEXT_BYTES];
    add(text, "%s %llu x %s", i ? "," : "", (unsigned long long)oom->owners[i].count,
        gp_size_format(oom->owners[i].size, size));
  }
}

/* A limit that would have let the request through, in whole units that can be typed. */
static void add_sufficient_limit(text_t *text, uint64_t bytes)
{
  uint64_t unit = bytes >= 16 * GP_GIB ? GP_GIB : GP_MIB;
  uint64_t units = bytes / unit + (bytes % unit != 0);
  add(text, "GPUPOOL_LIMIT=%llu%s", (unsigned long long)units, unit == GP_GIB ? "GiB" : "MiB");
}

/* Only what follows from the figures; better no advice than a wrong one. */
static void add_advice(text_t *text, const gp_oom_t *oom)
{
  uint64_t needed = oom->live + oom->deferred + oom->passthrough;
  bool overflows = needed + oom->requested < needed;

  if (oom->by_limit && !oom->limit) {
    add(text, "GPUPOOL_LIMIT is malformed, and a limit is a promise: mend or unset it");
    return;
  }
  if (oom->by_limit) {
    if (overflows || (oom->device_total && needed + oom->requested > oom->device_total)) {
      add(text, "It would not fit on the device without the limit either");
    } else {
      add(text, "It is the limit that refuses: ");
      add_sufficient_limit(text, needed + oom->requested);
      add(text, " would let it through");
    }
    return;
  }
  if (oom->device_total && oom->requested > oom->device_total) {
    add(text, "It is more than the device has");
    return;
  }
  /* Every context takes some hundred MiB: only more than that is worth a word. */
  if (oom->unaccounted >= oom->requested && oom->unaccounted > oom->device_total / 8) {
    add_size(text, "Other processes and CUDA itself use ", oom->unaccounted,
        " of the device: there is the memory that is missing");
    return;
  }
  if (oom->deferred >= oom->requested) {
    add(text,
        "GPUPOOL_REUSE=strict makes freed memory available sooner, at the price of waiting in cudaFree");
    return;
  }
  if (oom->device_total && oom->device_free >= oom->requested) {
    add(text, "The device has as much, but not in one piece");
    return;
  }
  add(text, "Nothing idle is left to give back; GPUPOOL_TYPE=naive rounds sizes up least");
}

char *gp_oom_describe(const gp_oom_t *oom, char *buffer, size_t capacity)
{
  text_t text = {.buffer = buffer, .capacity = capacity};
  if (!capacity)
    return buffer;
  buffer[0] = '\0';

  add(&text, "out of memory on device %d: ", oom->device);
  add_size(&text, "asked for ", oom->requested, "");
  add_size(&text, "; the program holds ", oom->live, "");
  if (oom->passthrough)
    add_size(&text, " and ", oom->passthrough, " that is not pooled");
  if (oom->deferred)
    add_size(&text, ", freed but still in use ", oom->deferred, "");
  add_size(&text, ", cached ", oom->cached, "");
  if (oom->largest_free)
    add_size(&text, " (largest idle block was ", oom->largest_free, ")");
  if (oom->limit)
    add_size(&text, "; limit ", oom->limit, "");
  if (oom->device_total) {
    add_size(&text, "; the device has ", oom->device_free, "");
    add_size(&text, " free of ", oom->device_total, "");
  }
  add_owners(&text, oom);
  add(&text, GP_OOM_ADVICE_BREAK);
  add_advice(&text, oom);
  return buffer;
}
