#include "trace/snapshot/oom_advice.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/size.h"

#define LIMIT_VARIABLE    "GPUPOOL_LIMIT"
#define HOST_VARIABLE     "GPUPOOL_HOST_LIMIT"
#define PATIENCE_VARIABLE "GPUPOOL_PATIENCE"

/* How the pool rounds sizes: up to GRANULE at least, and above LARGE, where drivers use whole pages, up to
 * PAGE. Rounding up more than the pool does is harmless here. */
#define GRANULE UINT64_C(512)
#define LARGE   (UINT64_C(1) << 20)
#define PAGE    (UINT64_C(2) << 20)

/* A part of a text; it does not end with a NUL. */
typedef struct part {
  const char *start;
  size_t length;
} part_t;

static __attribute__((format(printf, 2, 3))) void say(gp_oom_advice_t *advice, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(advice->text, sizeof(advice->text), format, arguments);
  va_end(arguments);
}

/* Returns true if the request would have succeeded if the device had no pending work: either from an idle
 * block, or after the release of all segments without memory in use. */
static bool fits_when_quiet(const gp_oom_t *oom)
{
  uint64_t held = oom->live + oom->passthrough + oom->quiet_in_pieces;
  uint64_t idle = oom->deferred + oom->cached;
  if (oom->quiet_largest >= oom->requested)
    return true;
  if (oom->by_limit)
    return held <= oom->limit && oom->requested <= oom->limit - held;
  return oom->quiet_in_pieces <= idle && oom->requested <= oom->device_free + idle - oom->quiet_in_pieces;
}

/* Returns true if the idle memory would suffice for the request, but each piece is too small. */
static bool is_in_pieces(const gp_oom_t *oom)
{
  uint64_t missing = oom->requested > oom->device_free ? oom->requested - oom->device_free : oom->requested;
  return oom->in_pieces >= missing;
}

static void advise_pieces(const gp_oom_t *oom, gp_oom_advice_t *advice)
{
  char size[GP_SIZE_TEXT_BYTES];
  say(advice, "%s is idle, but in pieces between blocks in use, each too small: gpupool frag shows them",
      gp_size_format(oom->in_pieces, size));
}

/* Returns the part of the setting `limits` that applies to the device: the whole text, or the value of the
 * last matching item in a list such as "0=8GiB,1=50%". The length is 0 if the device has no limit. */
static part_t limit_of(const char *limits, int device)
{
  part_t found = {limits, 0};

  if (!strchr(limits, '=')) {
    found.length = strlen(limits);
  } else {
    for (const char *item = limits;; item++) {
      size_t length = strcspn(item, ",");
      const char *equals = memchr(item, '=', length);
      if (equals && strtol(item, NULL, 10) == device)
        found = (part_t){equals + 1, length - (size_t)(equals + 1 - item)};
      item += length;
      if (!*item)
        break;
    }
  }
  if (found.length == strlen("none") && strncasecmp(found.start, "none", found.length) == 0)
    found.length = 0;
  return found;
}

/* Writes an amount of at least `bytes`, in whole units that a user can type. If the old limit is a share of
 * the device, writes a share, because devices differ in size. Returns false if no such amount can be
 * written. */
static bool write_amount(const gp_oom_t *oom, part_t old, uint64_t bytes, char *buffer, size_t capacity)
{
  bool is_share = old.length && old.start[old.length - 1] == '%';
  uint64_t unit = is_share ? oom->device_total / 100 : bytes >= 16 * GP_GIB ? GP_GIB : GP_MIB;

  if (!unit)
    return false;
  uint64_t units = bytes / unit + (bytes % unit != 0);
  if (is_share && units > 100)
    return false;
  snprintf(buffer, capacity, "%" PRIu64 "%s", units, is_share ? "%" : unit == GP_GIB ? "GiB" : "MiB");
  return true;
}

/* Writes the limits with a limit of at least `bytes` for the device. The limits of other devices are
 * unchanged. Returns false if the device has no limit, or if no larger limit can be written. */
static bool write_limits(
    const gp_oom_t *oom, const char *limits, uint64_t bytes, char *buffer, size_t capacity)
{
  part_t old = limit_of(limits, oom->device);
  char amount[GP_SIZE_TEXT_BYTES];

  if (!old.length || !write_amount(oom, old, bytes, amount, sizeof(amount)))
    return false;
  int length = snprintf(
      buffer, capacity, "%.*s%s%s", (int)(old.start - limits), limits, amount, old.start + old.length);
  return (size_t)length < capacity; /* also false if length is negative */
}

/* Returns true if the limit in effect differs from the setting, because it was changed while the program
 * ran. */
static bool was_changed(const gp_oom_t *oom, const char *limits)
{
  part_t old = limit_of(limits, oom->device);
  uint64_t bytes;
  return !old.length || (gp_size_parse(old.start, old.length, &bytes) && bytes != oom->limit);
}

/* Returns the number of blocks in use that have exactly the requested size. Returns 0 if they are not among
 * the largest groups. */
static uint64_t count_alike(const gp_oom_t *oom)
{
  for (int i = 0; i < GP_OOM_OWNERS; i++) {
    if (oom->owners[i].size == oom->requested)
      return oom->owners[i].count;
  }
  return 0;
}

/* Writes by how much the limit must grow. If the program already has many blocks of this size, a limit that
 * suffices for this request may be too low for the next one. In this case the text suggests no value; the
 * remedy in the snapshot has a value. */
static void advise_larger(const gp_oom_t *oom, const char *variable, uint64_t needed, gp_oom_advice_t *advice)
{
  char more[GP_SIZE_TEXT_BYTES];
  uint64_t alike = count_alike(oom);

  advice->setting = variable;
  gp_size_format(needed > oom->limit ? needed - oom->limit : 0, more);
  if (alike >= GP_OOM_MANY_BLOCKS)
    say(advice, "%s is too low by %s, and %" PRIu64 " blocks of that size are already in use", variable, more,
        alike);
  else
    say(advice, "The limit was reached: this request alone needs %s more; set %s=%s", more, variable,
        advice->value);
}

/* Writes the advice if the limit refused the request. `kept` is the number of bytes that the pool would use
 * in addition to the request. */
static void advise_limit(const gp_oom_t *oom, const char *limits, uint64_t kept, gp_oom_advice_t *advice)
{
  uint64_t step = oom->requested > LARGE ? PAGE : GRANULE;
  uint64_t rounded = oom->requested / step * step + (oom->requested % step ? step : 0);
  uint64_t needed = kept + (oom->counted > rounded ? oom->counted : rounded);

  if (rounded < oom->requested || needed < kept || (oom->device_total && oom->requested > oom->device_free)) {
    if (is_in_pieces(oom))
      advise_pieces(oom, advice);
    else
      say(advice, "It would not fit on the device even without the limit");
    return;
  }
  if (was_changed(oom, limits)) {
    char size[GP_SIZE_TEXT_BYTES];
    say(advice, "The limit was changed while the program ran; this request needs at least %s",
        gp_size_format(needed, size));
  } else if (write_limits(oom, limits, needed, advice->value, sizeof(advice->value))) {
    advise_larger(oom, LIMIT_VARIABLE, needed, advice);
  } else {
    say(advice, "The limit was reached");
  }
}

/* Writes the advice if the host limit refused the request. `setting` is the text of that limit, which applies
 * to the whole process. */
static void advise_host_limit(const gp_oom_t *oom, const char *setting, gp_oom_advice_t *advice)
{
  uint64_t needed = oom->live + oom->counted;

  advice->setting = HOST_VARIABLE;
  if (strcasecmp(setting, "none") == 0) {
    snprintf(advice->value, sizeof(advice->value), "none");
    say(advice, HOST_VARIABLE " is malformed, so every page-locked allocation fails: correct or unset it");
  } else if (needed < oom->live ||
             !write_amount(oom, (part_t){.length = 0}, needed, advice->value, sizeof(advice->value))) {
    advice->setting = NULL;
    say(advice, HOST_VARIABLE " was reached");
  } else {
    advise_larger(oom, HOST_VARIABLE, needed, advice);
  }
}

/* Writes the advice if no setting helps: how much memory was missing after the pool had released all idle
 * memory. */
static void advise_missing(const gp_oom_t *oom, gp_oom_advice_t *advice)
{
  uint64_t missing = gp_oom_missing_on_device(oom);
  const char *how =
      oom->cached ? "even after releasing all cached memory" : "with no cached memory left to release";
  char size[GP_SIZE_TEXT_BYTES], others[GP_SIZE_TEXT_BYTES];

  if (!missing)
    say(advice, oom->cached ? "The cached memory is not enough" : "No cached memory is left to release");
  else if (gp_oom_is_of_others(oom, missing))
    say(advice, "%s short, %s: other processes and CUDA itself use %s of the device (gpupool ps)",
        gp_size_format(missing, size), how, gp_size_format(oom->unaccounted, others));
  else
    say(advice, "%s short, %s", gp_size_format(missing, size), how);
}

/* Chooses the advice by the report's figures. If specific advice could be wrong, gives none. */
void gp_oom_advise(const gp_oom_t *oom, const char *limits, gp_oom_advice_t *ret_advice)
{
  uint64_t kept = oom->busy_context ? oom->cached : oom->in_pieces; /* other idle memory was released */
  gp_oom_advice_t *advice = ret_advice;

  *advice = (gp_oom_advice_t){.text = ""};
  if (gp_oom_is_of_host(oom)) {
    advise_host_limit(oom, limits, advice);
  } else if (oom->by_limit && !oom->limit && !limit_of(limits, oom->device).length) {
    advice->setting = LIMIT_VARIABLE;
    snprintf(advice->value, sizeof(advice->value), "none");
    say(advice, LIMIT_VARIABLE " is malformed, so every allocation fails: correct or unset it");
  } else if (oom->busy_context && fits_when_quiet(oom)) {
    advice->setting = PATIENCE_VARIABLE;
    snprintf(advice->value, sizeof(advice->value), "60");
    /* Does not advise to synchronize the device: that would never return if the work never completes. */
    say(advice,
        "If that work completes by itself, set " PATIENCE_VARIABLE
        "=60. If it never does, free memory with cudaFreeAsync in the stream that used it last, and synchronize only that stream");
  } else if (oom->by_limit ? !oom->device_total && fits_when_quiet(oom)
                           : oom->deferred >= oom->requested && fits_when_quiet(oom)) {
    say(advice,
        "It would fit if freed and cached memory were released, but the library may not call the driver now (stream capture?)");
  } else if (oom->by_limit) {
    advise_limit(oom, limits, oom->live + oom->deferred + oom->passthrough + kept, advice);
  } else if (gp_oom_is_too_large(oom->requested, oom->device_total)) {
    say(advice, "The request exceeds the memory of the device: no setting helps");
  } else if (is_in_pieces(oom)) {
    advise_pieces(oom, advice);
  } else if (oom->device_total && oom->device_free >= oom->requested) {
    say(advice, "The device has enough free memory, but not in one piece");
  } else {
    advise_missing(oom, advice);
  }
}
