#include "trace/snapshot/document.h"

#include <stdlib.h>
#include <string.h>

#include "base/run_id.h"
#include "trace/snapshot/document_stacks.h"
#include "trace/snapshot/oom_advice.h"
#include "trace/snapshot/oom_report.h"

static uint64_t relative_ns(const gp_document_t *document, uint64_t time_ns)
{
  uint64_t base_ns = document->base_ns;
  return time_ns > base_ns ? time_ns - base_ns : 0;
}

static void write_number_or_null(gp_json_t *json, const char *name, bool known, uint64_t bytes)
{
  gp_json_key(json, name);
  if (known)
    gp_json_uint(json, bytes);
  else
    gp_json_null(json);
}

/*
 * The process
 */

static void write_environment(gp_json_t *json, const gp_description_t *description)
{
  gp_description_pair_t pair;
  char name[64];

  gp_json_key(json, "environment");
  gp_json_begin(json, '{');
  for (size_t at = 0; gp_description_next(description, &at, &pair);) {
    const char *equals = strcmp(pair.key, "environment") == 0 ? strchr(pair.value, '=') : NULL;
    size_t length = equals ? (size_t)(equals - pair.value) : sizeof(name);
    if (length >= sizeof(name) || strspn(pair.value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != length)
      continue; /* the record is damaged */
    memcpy(name, pair.value, length);
    name[length] = '\0';
    gp_json_key_string(json, name, equals + 1);
  }
  gp_json_end(json, '}');
}

static void write_process(gp_json_t *json, const gp_document_t *document)
{
  const char *program = gp_description_find(&document->description, "program");
  const char *host = gp_description_find(&document->description, "host");
  const char *rank = gp_description_find(&document->description, "rank");
  const char *runs = gp_description_find(&document->description, "run");
  gp_description_pair_t pair;

  gp_json_newline(json);
  gp_json_key(json, "process");
  gp_json_begin(json, '{');
  gp_json_key(json, "run");     /* first key, because `gpupool run` reads no further */
  if (gp_run_id_is_valid(runs)) /* false for a damaged record */
    gp_json_string(json, runs);
  else
    gp_json_null(json);
  gp_json_key_uint(json, "start_time_us", document->start_time_us);
  gp_json_key_string(json, "program", program ? program : "");
  gp_json_key(json, "command_line");
  gp_json_begin(json, '[');
  for (size_t at = 0; gp_description_next(&document->description, &at, &pair);) {
    if (strcmp(pair.key, "argument") == 0)
      gp_json_string(json, pair.value);
  }
  gp_json_end(json, ']');
  gp_json_key_int(json, "pid", document->pid);
  gp_json_key_string(json, "library_version", document->library_version);
  gp_json_key_string(json, "host", host ? host : "");
  write_environment(json, &document->description);
  write_number_or_null(json, "rank", rank != NULL, rank ? strtoul(rank, NULL, 10) : 0);
  write_number_or_null(
      json, "driver_version", document->driver_version > 0, (uint64_t)document->driver_version);
  write_number_or_null(
      json, "runtime_version", document->runtime_version > 0, (uint64_t)document->runtime_version);
  gp_json_end(json, '}');
}

/* Splits a pair whose key is `kind` and whose value is NAME=TEXT. Returns false if the pair has another key
 * or is damaged. */
static bool split_pair(
    const gp_description_pair_t *pair, const char *kind, char name[64], const char **ret_text)
{
  const char *equals = strchr(pair->value, '=');
  if (strcmp(pair->key, kind) != 0 || !equals || equals - pair->value >= 64)
    return false;
  memcpy(name, pair->value, (size_t)(equals - pair->value));
  name[equals - pair->value] = '\0';
  *ret_text = equals + 1;
  return name[strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_")] == '\0';
}

static void write_settings(gp_json_t *json, const gp_document_t *document)
{
  gp_description_pair_t pair;
  const char *text;
  char name[64];

  gp_json_newline(json);
  gp_json_key(json, "settings");
  gp_json_begin(json, '{');
  for (size_t at = 0; gp_description_next(&document->description, &at, &pair);) {
    if (split_pair(&pair, "setting", name, &text)) /* the recording mode may have changed at run time */
      gp_json_key_string(
          json, name, strcmp(name, "trace") == 0 ? gp_recording_name(document->recording) : text);
  }
  gp_json_key(json, "sources");
  gp_json_begin(json, '{');
  for (size_t at = 0; gp_description_next(&document->description, &at, &pair);) {
    if (split_pair(&pair, "source", name, &text))
      gp_json_key_string(json, name, text);
  }
  gp_json_end(json, '}');
  gp_json_end(json, '}');
}

/*
 * Devices and memory
 */

static void write_gauge(gp_json_t *json, const char *name, const gp_gauge_t *gauge)
{
  gp_json_key(json, name);
  gp_json_begin(json, '{');
  gp_json_key_uint(json, "current", gauge->current);
  gp_json_key_uint(json, "peak", gauge->peak);
  gp_json_key_uint(json, "allocated", gauge->allocated);
  gp_json_key_uint(json, "freed", gauge->freed);
  gp_json_end(json, '}');
}

/* Writes the use of the device's memory, from the driver's last figures. */
static void write_use(gp_json_t *json, const gp_document_t *document, const gp_device_copy_t *copy)
{
  gp_json_key(json, "use");
  if (!copy->has_use) {
    gp_json_null(json);
    return;
  }
  gp_json_begin(json, '{');
  gp_json_key_uint(json, "time_ns", relative_ns(document, copy->use.time_ns));
  gp_json_key_uint(json, "total", copy->use.total);
  gp_json_key_uint(json, "free", copy->use.free);
  gp_json_key_uint(json, "accounted", copy->use.accounted);
  gp_json_key_uint(json, "in_pools", copy->use.in_pools);
  gp_json_key_uint(json, "unaccounted", copy->use.unaccounted);
  gp_json_end(json, '}');
}

static void write_device(
    gp_json_t *json, const gp_document_t *document, int device, const gp_device_copy_t *copy)
{
  const gp_stats_t *stats = &copy->stats;
  gp_json_newline(json);
  gp_json_begin(json, '{');
  gp_json_key_int(json, "device", device);
  write_number_or_null(json, "limit", copy->limit > 0, copy->limit);
  write_use(json, document, copy);
  gp_json_key(json, "stats");
  gp_json_begin(json, '{');
#define GAUGE(name, ...)   write_gauge(json, #name, &stats->name);
#define COUNTER(name, ...) gp_json_key_uint(json, #name, stats->name);
#include "format/stats.def"
  gp_json_key(json, "cache_hit_rate");
  gp_json_ratio(json, stats->cache_hits, stats->cache_hits + stats->cache_misses);
  gp_json_key(json, "efficiency");
  gp_json_ratio(json, stats->requested_bytes.current, stats->reserved_bytes.current);
  gp_json_key(json, "fragmentation");
  gp_json_ratio(json, copy->idle_bytes - copy->largest_idle, copy->idle_bytes);
  gp_json_end(json, '}');
  gp_json_end(json, '}');
}

/* Returns the index of the block's stream, or -1 if it has none. */
static int64_t stream_of(const gp_block_view_t *block)
{
  return block->has_stream ? (int64_t)block->stream : -1;
}

static void write_block(gp_json_t *json, const gp_document_t *document, const gp_block_view_t *block)
{
  gp_json_begin(json, '{');
  gp_json_key_uint(json, "address", block->address);
  gp_json_key_uint(json, "size", block->size);
  gp_json_key_uint(json, "requested_size", block->requested);
  gp_json_key_uint(json, "block", block->block_id);
  gp_json_key_string(json, "state", gp_block_state_name(block->state));
  gp_json_key_uint(json, "refs", block->refs);
  gp_json_key_int(json, "stack", (int64_t)block->origin - 1);
  gp_json_key_int(json, "stream", stream_of(block));
  gp_json_key_uint(json, "time_ns", relative_ns(document, block->time_ns));
  gp_json_key(json, "tainted");
  gp_json_bool(json, block->tainted);
  gp_json_end(json, '}');
}

/* Writes the segment whose first block is at index *at in address order. Advances *at past the segment's last
 * block. */
static void write_segment(gp_json_t *json, const gp_document_t *document, int device, size_t *at)
{
  const gp_device_copy_t *copy = &document->copies[device];
  const gp_block_view_t *first = gp_device_copy_block(copy, *at);
  const gp_block_view_t *block = first;
  uint64_t allocated = 0;
  uint64_t active = 0;
  uint64_t requested = 0;
  size_t end = *at;

  do {
    allocated += block->state == GP_BLOCK_ALLOCATED ? block->size : 0;
    active += block->state != GP_BLOCK_IDLE ? block->size : 0;
    requested += block->state != GP_BLOCK_IDLE ? block->requested : 0;
    block = ++end < copy->blocks.count ? gp_device_copy_block(copy, end) : NULL;
  } while (block && block->segment_address == first->segment_address);
  gp_json_newline(json);
  gp_json_begin(json, '{');
  gp_json_key_int(json, "device", device);
  gp_json_key_uint(json, "address", first->segment_address);
  gp_json_key_uint(json, "total_size", first->segment_size);
  gp_json_key_uint(json, "allocated_size", allocated);
  gp_json_key_uint(json, "active_size", active);
  gp_json_key_uint(json, "requested_size", requested);
  gp_json_key_int(json, "stream", stream_of(first));
  gp_json_key_uint(json, "context", first->context);
  gp_json_key(json, "blocks");
  gp_json_begin(json, '[');
  for (; *at < end; ++*at)
    write_block(json, document, gp_device_copy_block(copy, *at));
  gp_json_end(json, ']');
  gp_json_end(json, '}');
}

static void write_forwarded(
    gp_json_t *json, const gp_document_t *document, int device, const gp_forwarded_t *memory)
{
  gp_json_newline(json);
  gp_json_begin(json, '{');
  gp_json_key_int(json, "device", device);
  gp_json_key_uint(json, "address", memory->address);
  gp_json_key_uint(json, "size", memory->size);
  gp_json_key_string(json, "kind", gp_detail_name(memory->kind));
  gp_json_key_int(json, "stream", memory->has_stream ? (int64_t)memory->stream : -1);
  gp_json_key_uint(json, "block", memory->block_id);
  gp_json_key_int(json, "stack", (int64_t)memory->origin - 1);
  gp_json_key_uint(json, "time_ns", relative_ns(document, memory->time_ns));
  gp_json_end(json, '}');
}

static void write_devices(gp_json_t *json, const gp_document_t *document)
{
  const gp_device_copy_t *copies = document->copies;

  gp_json_newline(json);
  gp_json_key(json, "devices");
  gp_json_begin(json, '[');
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    if (document->devices >> device & 1)
      write_device(json, document, device, &copies[device]);
  }
  gp_json_end(json, ']');

  gp_json_newline(json);
  gp_json_key(json, "segments");
  gp_json_begin(json, '[');
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    for (size_t at = 0; at < (document->devices >> device & 1 ? copies[device].blocks.count : 0);)
      write_segment(json, document, device, &at);
  }
  gp_json_end(json, ']');

  gp_json_newline(json);
  gp_json_key(json, "passthrough");
  gp_json_begin(json, '[');
  for (int device = 0; device < GP_MAX_DEVICES; device++) {
    for (size_t i = 0; i < (document->devices >> device & 1 ? copies[device].forwarded.count : 0); i++)
      write_forwarded(json, document, device, gp_device_copy_forwarded(&copies[device], i));
  }
  gp_json_end(json, ']');
}

/*
 * Tables that events refer to
 */

static void write_tables(gp_json_t *json, const gp_document_t *document)
{
  gp_json_newline(json);
  gp_json_key(json, "streams");
  gp_json_begin(json, '[');
  for (uint32_t i = 0; i < document->stream_count; i++) {
    gp_json_begin(json, '{');
    gp_json_key(json, "handle");
    gp_json_hex(json, document->streams[i]);
    gp_json_end(json, '}');
  }
  gp_json_end(json, ']');

  gp_json_newline(json);
  gp_json_key(json, "threads");
  gp_json_begin(json, '[');
  for (uint32_t i = 0; i < document->thread_count; i++) {
    gp_json_begin(json, '{');
    gp_json_key_int(json, "tid", document->threads[i].tid);
    gp_json_key_string(json, "name", document->threads[i].name);
    gp_json_end(json, '}');
  }
  gp_json_end(json, ']');
}

static void write_notes(gp_json_t *json, const gp_document_t *document)
{
  gp_json_newline(json);
  gp_json_key(json, "notes");
  gp_json_begin(json, '[');
  for (size_t i = 0; i < document->note_count; i++)
    gp_json_string(json, document->notes[i]);
  gp_json_end(json, ']');
}

/*
 * Events: each column needs one pass over all events
 */

static void begin_column(gp_json_t *json, const char *name)
{
  gp_json_newline(json);
  gp_json_key(json, name);
  gp_json_begin(json, '[');
}

static void write_events(gp_json_t *json, const gp_document_t *document)
{
  const gp_event_merge_t *events = document->events;

  gp_json_newline(json);
  gp_json_key(json, "events");
  gp_json_begin(json, '{');
  begin_column(json, "actions");
  for (int i = 0; i < GP_ACTION_COUNT; i++)
    gp_json_string(json, gp_action_name((gp_action_t)i));
  gp_json_end(json, ']');
  begin_column(json, "details");
  for (int i = 0; i < GP_DETAIL_COUNT; i++)
    gp_json_string(json, gp_detail_name((gp_detail_t)i));
  gp_json_end(json, ']');

#define WRITE_COLUMN(name, least, value)                                                                     \
  begin_column(json, name);                                                                                  \
  for (size_t i = 0; i < events->count && !json->error; i++) {                                               \
    const gp_decoded_event_t event = gp_event_merge_get(events, i);                                          \
    if ((least) < 0)                                                                                         \
      gp_json_int(json, (int64_t)(value));                                                                   \
    else                                                                                                     \
      gp_json_uint(json, (uint64_t)(value));                                                                 \
  }                                                                                                          \
  gp_json_end(json, ']');
#define COLUMN(enumerator, name, least, member) WRITE_COLUMN(name, least, event.member)
#define TIME_COLUMN(enumerator, name, least, member)                                                         \
  WRITE_COLUMN(name, least, relative_ns(document, event.member))
#include "format/columns.def"
  gp_json_end(json, '}');
}

static void write_marks(gp_json_t *json, const gp_document_t *document)
{
  gp_json_newline(json);
  gp_json_key(json, "marks");
  gp_json_begin(json, '[');
  for (size_t i = 0; i < document->mark_count; i++) {
    const gp_mark_record_t *mark = &document->marks[i];
    gp_json_newline(json);
    gp_json_begin(json, '{');
    gp_json_key_string(json, "kind", gp_mark_kind_name((gp_mark_kind_t)mark->kind));
    gp_json_key_uint(json, "time_ns", relative_ns(document, mark->time_ns));
    gp_json_key_uint(json, "thread", mark->thread);
    write_number_or_null(json, "device", mark->device >= 0, (uint64_t)mark->device);
    write_number_or_null(json, "scope", mark->scope > 0, mark->scope);
    gp_json_key_string(json, "name", mark->name);
    gp_json_end(json, '}');
  }
  gp_json_end(json, ']');
}

/* Returns the text of the setting whose limit applies to the request (device or host), or "none" if the text
 * is unknown. */
static const char *limit_setting(const gp_document_t *document)
{
  gp_description_pair_t pair;
  const char *text, *found = "none";
  const char *limit = gp_oom_is_of_host(document->oom) ? "host_limit" : "limit";
  char name[64];
  for (size_t at = 0; gp_description_next(&document->description, &at, &pair);) {
    if (split_pair(&pair, "setting", name, &text) && strcmp(name, limit) == 0)
      found = text;
  }
  return found;
}

/* Writes the message. Not inlined, and neither is write_advice, so that only one of their two texts is on the
 * stack at a time; the stack may be small. */
static __attribute__((noinline)) void write_message(gp_json_t *json, const gp_oom_t *oom)
{
  char message[GP_OOM_TEXT_BYTES];
  gp_json_key_string(json, "message", gp_oom_describe(oom, NULL, message, sizeof(message)));
}

static __attribute__((noinline)) void write_advice(gp_json_t *json, const gp_document_t *document)
{
  gp_oom_advice_t advice;
  gp_oom_advise(document->oom, limit_setting(document), &advice);
  gp_json_key_string(json, "advice", advice.text);
  gp_json_key(json, "remedy");
  gp_json_begin(json, '{');
  gp_json_key(json, "settings");
  gp_json_begin(json, '{');
  if (advice.setting)
    gp_json_key_string(json, advice.setting, advice.value);
  gp_json_end(json, '}');
  gp_json_key_string(json, "action", NULL); /* present because files of older versions have an action */
  gp_json_end(json, '}');
}

/* Writes the report's figures about the device and its limit. */
static void write_shortage(gp_json_t *json, const gp_oom_t *oom)
{
  bool asked_driver = oom->device_total > 0;

  gp_json_key_uint(json, "deferred", oom->deferred);
  gp_json_key_uint(json, "cached", oom->cached);
  gp_json_key_uint(json, "in_pieces", oom->in_pieces);
  gp_json_key_uint(json, "passthrough", oom->passthrough);
  write_number_or_null(json, "limit", oom->limit > 0, oom->limit);
  gp_json_key(json, "by_limit");
  gp_json_bool(json, oom->by_limit);
  gp_json_key_uint(json, "largest_free", oom->largest_free);
  write_number_or_null(json, "device_free", asked_driver, oom->device_free);
  write_number_or_null(json, "device_total", asked_driver, oom->device_total);
  write_number_or_null(json, "unaccounted", asked_driver, oom->unaccounted);
  gp_json_key_uint(json, "waited_ns", oom->waited_ns);
  write_number_or_null(json, "busy_context", oom->busy_context > 0, oom->busy_context);
  write_number_or_null(json, "busy_ns", oom->busy_context > 0, oom->busy_ns);
}

static void write_oom(gp_json_t *json, const gp_document_t *document)
{
  const gp_oom_t *oom = document->oom;

  gp_json_newline(json);
  gp_json_key(json, gp_oom_is_of_host(oom) ? "host_oom" : "oom");
  gp_json_begin(json, '{');
  gp_json_key_uint(json, "time_ns", relative_ns(document, oom->time_ns));
  gp_json_key_int(json, "device", oom->device);
  gp_json_key_uint(json, "requested", oom->requested);
  gp_json_key_uint(json, "live", oom->live);
  if (gp_oom_is_of_host(oom))
    write_number_or_null(json, "limit", oom->limit > 0, oom->limit);
  else
    write_shortage(json, oom);
  gp_json_key(json, "owners");
  gp_json_begin(json, '[');
  for (int i = 0; i < GP_OOM_OWNERS && oom->owners[i].count; i++) {
    gp_json_begin(json, '{');
    gp_json_key_uint(json, "size", oom->owners[i].size);
    gp_json_key_uint(json, "count", oom->owners[i].count);
    gp_json_end(json, '}');
  }
  gp_json_end(json, ']');
  write_message(json, oom);
  write_advice(json, document);
  gp_json_end(json, '}');
}

void gp_document_write(gp_json_t *json, const gp_document_t *document)
{
  const gp_event_merge_t *events = document->events;

  gp_json_begin(json, '{');
  gp_json_newline(json);
  gp_json_key_string(json, "format", GP_DOCUMENT_FORMAT);
  gp_json_newline(json);
  gp_json_key_uint(json, "version", GP_DOCUMENT_VERSION);
  gp_json_newline(json);
  gp_json_key_string(json, "reason", document->reason);
  if (document->unreported_ooms)
    gp_json_key_uint(
        json, "unreported_ooms", document->unreported_ooms); /* `gpupool run` searches for it here */
  write_process(json, document);
  write_settings(json, document);
  write_devices(json, document);
  write_tables(json, document);
  write_events(json, document);
  gp_document_write_stacks(json, &document->stacks, document->pid, document->owner);
  write_marks(json, document);
  if (document->oom)
    write_oom(json, document);
  if (document->note_count)
    write_notes(json, document);
  gp_json_newline(json);
  gp_json_key_uint(json, "recorded_since_ns", events->has_lost ? relative_ns(document, events->since_ns) : 0);
  gp_json_newline(json);
  gp_json_key_uint(json, "dropped_events", events->dropped);
  gp_json_end(json, '}');
  json->needs_comma = false;
  gp_json_newline(json);
}

void gp_document_write_device(gp_json_t *json, uint64_t base_ns, int device, const gp_device_copy_t *copy)
{
  const gp_document_t document = {.base_ns = base_ns};
  write_device(json, &document, device, copy);
}
