#include "tools/read/native/snapshot_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tools/read/native/snapshot_parts.h"

/* The members that are kept in the cJSON tree, and the first character of each value. All other members are
 * only checked. */
static const struct {
  const char *name;
  char first; /* '0' stands for a number */
  const char *kind;
  bool required;
} members[] = {
    {"format", '"', "a string", true},
    {"version", '0', "a number", true},
    {"reason", '"', "a string", true},
    {"process", '{', "an object", true},
    {"settings", '{', "an object", true},
    {"devices", '[', "an array", true},
    {"streams", '[', "an array", true},
    {"threads", '[', "an array", true},
    {"marks", '[', "an array", false},
    {"oom", '{', "an object", false},
    {"host_oom", '{', "an object", false},
    {"recorded_since_ns", '0', "a number", true},
    {"dropped_events", '0', "a number", true},
};
#define MEMBER_COUNT (sizeof(members) / sizeof(members[0]))

#define MAGIC_MOST 15 /* length of the longest magic number below */

/* Returns a clause about the format of an input that is not a JSON object, or NULL if it is unknown. */
static const char *known_magic(const char *text, size_t length)
{
  static const struct {
    const char *magic;
    size_t length;
    const char *what;
  } kinds[] = {
      {"\x1f\x8b", 2, "it is compressed with gzip: decompress it first"},
      {"\x28\xb5\x2f\xfd", 4, "it is compressed with zstd: decompress it first"},
      {"\xfd"
       "7zXZ",
          5, "it is compressed with xz: decompress it first"},
      {"PK\x03\x04", 4, "it is a zip archive"},
      {"\x7f"
       "ELF",
          4, "it is an executable or library"},
      {"\x80", 1, "it is a Python pickle; in one of PyTorch the frames have their names already"},
      {"<", 1, "it looks like HTML or XML"},
      {"\xef\xbb\xbf", 3, "it begins with a byte order mark"},
      {"timestamp, ", 11,
          "it is a table of nvidia-smi, which has no allocations: run the program with gpupool run"},
      {"SQLite format 3", 15, "it is a database, as Nsight Systems exports: nsys stats reads it"},
  };
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    if (length >= kinds[i].length && memcmp(text, kinds[i].magic, kinds[i].length) == 0)
      return kinds[i].what;
  }
  return NULL;
}

static bool scan_failed(gp_snapshot_parse_t *parse)
{
  return parse->scan.error && gp_snapshot_fail(parse, parse->scan.error_at, "%s", parse->scan.error);
}

/* What the first members reveal about a document. */
typedef struct identity {
  char format[64];
  bool has_format;
  int64_t version; /* -1: not found yet */
  size_t version_at;
  const char *other; /* clause that describes the document if it has no format */
} identity_t;

/* Reads members until both the format and the version are known, or until the document ends. */
static void read_identity(gp_json_scan_t *scan, identity_t *ret_identity)
{
  identity_t identity = {.version = -1, .other = "it is JSON of another kind"};
  gp_json_slice_t name, value;
  bool good = true;

  while (good && !(identity.has_format && identity.version >= 0) && gp_json_scan_member(scan, &name)) {
    char first = gp_json_scan_peek(scan);
    if (gp_json_slice_is(name, "format") && first == '"' && !identity.has_format) {
      if (!gp_json_scan_string(scan, &value))
        break;
      identity.has_format = true;
      snprintf(identity.format, sizeof(identity.format), "%.*s",
          (int)(value.length < sizeof(identity.format) ? value.length : sizeof(identity.format)), value.text);
    } else if (gp_json_slice_is(name, "version") && identity.version < 0) {
      identity.version_at = scan->at;
      good = gp_json_scan_integer(scan, &identity.version);
    } else {
      if (gp_json_slice_is(name, "device_traces"))
        identity.other = "it is a snapshot of PyTorch";
      good = gp_json_scan_skip(scan);
    }
  }
  *ret_identity = identity;
}

/* Fails unless the document is a snapshot of a known version. Runs before any other member is used. Format
 * and version usually come first; otherwise the input keeps everything before them in memory. */
static bool check_format(gp_snapshot_parse_t *parse, gp_input_t *input)
{
  gp_json_scan_t scan;
  identity_t identity;

  gp_input_begin(input, MAGIC_MOST);
  gp_json_scan_init_input(&scan, input);
  scan.keep = 0;
  char first = gp_json_scan_peek(&scan);
  if (input->length == 0)
    return gp_snapshot_fail(parse, 0, "the input is empty");
  if (first == '\0' && scan.at == input->length)
    return gp_snapshot_fail(parse, 0, "the input has nothing but blanks");
  if (first != '{') {
    const char *what = known_magic(input->text, input->length);
    return gp_snapshot_fail(parse, 0, "not a gpupool snapshot: %s",
        what           ? what
        : first == '[' ? "it is a JSON array"
                       : "it is not JSON");
  }
  (void)gp_json_scan_begin(&scan, '{'); /* cannot fail, because peek returned '{' */
  read_identity(&scan, &identity);
  if (identity.has_format && strcmp(identity.format, GP_SNAPSHOT_FORMAT) != 0)
    return gp_snapshot_fail(parse, 0, "not a gpupool snapshot: its format is \"%s\"", identity.format);
  if (scan.error)
    return gp_snapshot_fail(parse, scan.error_at, "%s", scan.error);
  if (!identity.has_format)
    return gp_snapshot_fail(parse, 0, "not a gpupool snapshot: %s", identity.other);
  if (identity.version < 1)
    return gp_snapshot_fail(parse, identity.version_at, "there is no valid version");
  if (identity.version > GP_SNAPSHOT_VERSION)
    return gp_snapshot_fail(parse, identity.version_at,
        "version %lld of the format is newer than this tool, which reads %d: use the gpupool that wrote it",
        (long long)identity.version, GP_SNAPSHOT_VERSION);
  return true;
}

/* Adds a small value, which the scan has validated, to the cJSON tree. */
static bool read_small(gp_snapshot_parse_t *parse, size_t i)
{
  gp_json_scan_t *scan = &parse->scan;
  char first = gp_json_scan_peek(scan);
  size_t at = scan->at;
  gp_json_slice_t text;
  const char *end;

  if (!gp_json_scan_value(scan, &text))
    return false;
  bool is_number = (first >= '0' && first <= '9') || first == '-';
  if (members[i].first == '0' ? !is_number : first != members[i].first)
    return gp_snapshot_fail(parse, at, "%s is not %s", members[i].name, members[i].kind);
  if (cJSON_GetObjectItemCaseSensitive(parse->snapshot->root, members[i].name))
    return gp_snapshot_fail(parse, at, "%s appears twice", members[i].name);
  cJSON *root = parse->snapshot->root;
  cJSON *item = cJSON_ParseWithLengthOpts(text.text, text.length, &end, false);
  if (!item)
    return gp_snapshot_fail(parse, at, "%s cannot be read", members[i].name);
  cJSON_AddItemToObject(root, members[i].name, item);
  if (strcmp(members[i].name, "devices") == 0) {
    const cJSON *device;
    cJSON_ArrayForEach(device, item)
    {
      if (!gp_snapshot_read_device(parse, at, device))
        return false;
    }
  }
  if (strcmp(members[i].name, "recorded_since_ns") == 0 &&
      gp_snapshot_uint(root, "recorded_since_ns", &parse->snapshot->recorded_since_ns) != 1)
    return gp_snapshot_fail(parse, at, "recorded_since_ns is not a time");
  if (strcmp(members[i].name, "dropped_events") == 0 &&
      gp_snapshot_uint(root, "dropped_events", &parse->snapshot->dropped_events) != 1)
    return gp_snapshot_fail(parse, at, "dropped_events is not a number of events");
  return true;
}

/* The members that are large arrays, with the functions that read them. */
static const struct {
  const char *name;
  bool (*read)(gp_snapshot_parse_t *parse);
} arrays[] = {
    {"segments", gp_snapshot_read_segments},
    {"passthrough", gp_snapshot_read_forwarded},
    {"events", gp_snapshot_read_events},
    {"stacks", gp_snapshot_read_stacks},
    {"frames", gp_snapshot_read_frames},
    {"modules", gp_snapshot_read_modules},
};
#define ARRAY_COUNT (sizeof(arrays) / sizeof(arrays[0]))

static bool read_document(gp_snapshot_parse_t *parse)
{
  gp_json_scan_t *scan = &parse->scan;
  gp_json_slice_t name;
  bool seen[ARRAY_COUNT] = {false};

  if (!gp_json_scan_begin(scan, '{'))
    return false;
  while (gp_json_scan_member(scan, &name)) {
    bool good;
    size_t i = 0, k = 0;
    while (i < MEMBER_COUNT && !gp_json_slice_is(name, members[i].name))
      i++;
    while (k < ARRAY_COUNT && !gp_json_slice_is(name, arrays[k].name))
      k++;
    if (i < MEMBER_COUNT)
      good = read_small(parse, i);
    else if (k == ARRAY_COUNT)
      good = gp_json_scan_skip(scan);
    else if (seen[k])
      good = gp_snapshot_fail(parse, scan->at, "%s appear twice", arrays[k].name);
    else
      good = arrays[k].read(parse);
    if (!good)
      return false;
    if (k < ARRAY_COUNT)
      seen[k] = true;
  }
  if (!gp_json_scan_end(scan))
    return false;
  for (size_t i = 0; i < MEMBER_COUNT; i++) {
    if (members[i].required && !cJSON_GetObjectItemCaseSensitive(parse->snapshot->root, members[i].name))
      gp_snapshot_note(parse->snapshot, "%s is missing", members[i].name);
  }
  bool has_events = false;
  for (size_t k = 0; k < ARRAY_COUNT; k++) {
    if (!seen[k])
      gp_snapshot_note(parse->snapshot, "%s are missing", arrays[k].name);
    else if (arrays[k].read == gp_snapshot_read_events)
      has_events = true;
  }
  return gp_snapshot_check_stacks(parse) && gp_snapshot_check_memory(parse) &&
         (!has_events || gp_snapshot_check_events(parse));
}

gp_snapshot_t *gp_snapshot_parse_input(gp_input_t *input, unsigned columns, gp_snapshot_error_t *ret_error)
{
  gp_snapshot_parse_t parse = {.columns = columns, .error = ret_error};

  if (!check_format(&parse, input))
    return NULL;
  gp_json_scan_init_input(&parse.scan, input);
  parse.snapshot = calloc(1, sizeof(*parse.snapshot));
  if (parse.snapshot)
    parse.snapshot->root = cJSON_CreateObject();
  if (!parse.snapshot || !parse.snapshot->root) {
    (void)gp_snapshot_fail(&parse, 0, "not enough memory to read this");
  } else if (read_document(&parse)) {
    gp_assert_full(gp_snapshot_is_sound(parse.snapshot));
    return parse.snapshot;
  }
  (void)scan_failed(&parse); /* does not replace an earlier error in the content */
  gp_snapshot_destroy(parse.snapshot);
  return NULL;
}

gp_snapshot_t *gp_snapshot_parse(
    const char *text, size_t length, unsigned columns, gp_snapshot_error_t *ret_error)
{
  gp_input_t input;
  gp_assert(text[length] == '\0');
  gp_input_init_memory(&input, text, length);
  return gp_snapshot_parse_input(&input, columns, ret_error);
}
