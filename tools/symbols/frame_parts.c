#include "tools/symbols/frame_parts.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "tools/shorten.h"
#include "tools/tool.h"

/*
 * Names of frames in reports.
 */

/* Removes one suffix such as ".isra.0" or ".cold", which compilers append to the names of a function's
 * variants. Returns false if there is none. */
static bool drop_variant(char *name)
{
  static const char *const words[] = {"isra", "constprop", "part", "cold", "localalias", "lto_priv", "llvm"};
  size_t end = strlen(name), digits = end;

  while (digits > 0 && isdigit((unsigned char)name[digits - 1]))
    digits--;
  if (digits > 0 && digits < end && name[digits - 1] == '.')
    end = digits - 1;
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    size_t length = strlen(words[i]);
    if (end > length + 1 && name[end - length - 1] == '.' &&
        memcmp(name + end - length, words[i], length) == 0) {
      name[end - length - 1] = '\0';
      return true;
    }
  }
  return false;
}

/* Copies the function's name. Removes variant suffixes from C and C++ names; in demangled names they look
 * like " [clone .isra.0]". Returns `buffer`. */
static char *copy_function(const gp_snapshot_frame_t *frame, char *buffer, size_t capacity)
{
  static const char clone[] = " [clone .";

  (void)snprintf(buffer, capacity, "%s", frame->function);
  if (frame->file[0] == '<' || strstr(frame->file, ".py")) /* in Python it may be the name of a method */
    return buffer;
  char *at = strstr(buffer, clone);
  if (at)
    *at = '\0';
  while (drop_variant(buffer))
    ;
  return buffer;
}

char *gp_frame_describe(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity)
{
  const gp_snapshot_frame_t *what = &snapshot->frames[frame];
  const gp_snapshot_module_t *module = what->module >= 0 ? &snapshot->modules[what->module] : NULL;
  char text[2048], function[1024];

  copy_function(what, function, sizeof(function));
  if (what->function[0] && what->file[0] && what->line > 0)
    (void)snprintf(text, sizeof(text), "%s %s:%d", function, gp_base_name(what->file), what->line);
  else if (what->function[0] && what->file[0])
    (void)snprintf(text, sizeof(text), "%s %s", function, gp_base_name(what->file));
  else if (what->function[0])
    (void)snprintf(text, sizeof(text), "%s", function);
  else if (module)
    (void)snprintf(
        text, sizeof(text), "%s+0x%" PRIx64, gp_base_name(module->path), what->address - module->bias);
  else
    (void)snprintf(text, sizeof(text), "0x%" PRIx64, what->address);
  return gp_printable(text, buffer, capacity);
}

char *gp_frame_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity)
{
  const gp_snapshot_frame_t *what = &snapshot->frames[frame];
  if (!what->function[0])
    return gp_frame_describe(snapshot, frame, buffer, capacity);
  return copy_function(what, buffer, capacity);
}

/* The demangled name of a function template begins with the return type. */
const char *gp_function_without_result(const char *function)
{
  int depth = 0;
  const char *name = function;

  for (const char *at = function; *at; at++) {
    if (*at == '(' && depth == 0)
      break;
    if (strncmp(at, "operator", 8) == 0 && (at == name || at[-1] == ':'))
      break;
    depth += *at == '<';
    depth -= *at == '>';
    if (*at == ' ' && depth == 0)
      name = at + 1;
  }
  return name;
}

typedef enum subject { FUNCTION, MODULE, PATH, SOURCE } subject_t;

typedef struct line {
  subject_t subject;
  gp_frame_part_t part;
  gp_frame_group_t group;
  const char *pattern;
} line_t;

static const line_t lines[] = {
#define LINE(subject, part, group, pattern) {(subject), GP_FRAME_##part, GP_FRAME_GROUP_##group, (pattern)},
#include "format/never_owners.def"
};

static const struct {
  const char *words;
  const char *language;
} groups[] = {
#define GROUP(id, words, language) {words, language},
#include "format/never_owners.def"
};

static const char *const generic_words[] = {
#define GENERIC(word) word,
#include "format/never_owners.def"
};

static const char *const common_names[] = {
#define COMMON(name) name,
#include "format/never_owners.def"
};

const char *gp_frame_group_words(gp_frame_group_t group)
{
  return groups[group].words;
}

const char *gp_frame_group_language(gp_frame_group_t group)
{
  return groups[group].language;
}

/* Returns true if `text` matches the pattern. For speed, compares one character first, because most patterns
 * begin with '^'. */
static bool matches(const char *pattern, const char *text)
{
  if (!text[0] || (pattern[0] == '^' && pattern[1] != text[0] && pattern[1] != '*'))
    return false;
  return gp_pattern_matches(pattern, text);
}

/* Splits a name into its last two parts: for ns::Model<int>::load<float>(char const*), "load", which is a
 * member of "Model". Truncates parts that are too long, so that they match nothing. */
static void split_name(const char *name, char ret_parts[2][128], bool *ret_is_template)
{
  size_t used = 0;
  int depth = 0;

  ret_parts[0][0] = ret_parts[1][0] = '\0';
  *ret_is_template = false;
  for (const char *at = name; *at; at++) {
    if (depth == 0 && *at == '(' && strncmp(at, "(anonymous namespace)", 21) == 0) {
      at += 20;
      continue;
    }
    if (depth == 0 && *at == '(')
      break;
    if (depth == 0 && strncmp(at, "::", 2) == 0) {
      memcpy(ret_parts[1], ret_parts[0], sizeof(ret_parts[1]));
      used = 0;
      ret_parts[0][0] = '\0';
      *ret_is_template = false;
      at++;
      continue;
    }
    *ret_is_template |= *at == '<';
    depth += *at == '<';
    if (depth == 0 && used + 1 < sizeof(ret_parts[0])) {
      ret_parts[0][used++] = *at;
      ret_parts[0][used] = '\0';
    }
    depth -= *at == '>';
  }
}

/* Returns true if `name` contains `word` at the start of a word: at the start of the name, after a character
 * that is not a letter, or with a capital letter. */
static bool has_word(const char *name, const char *word)
{
  size_t length = strlen(word);
  for (const char *at = name; *at; at++) {
    bool begins = at == name || !isalpha((unsigned char)at[-1]) ||
                  (isupper((unsigned char)*at) && islower((unsigned char)at[-1]));
    if (begins && strncasecmp(at, word, length) == 0 &&
        (!islower((unsigned char)at[length]) || strcmp(word, "new") != 0))
      return true;
  }
  return false;
}

static gp_frame_form_t form_of(const char *function)
{
  char parts[2][128];
  bool is_template;

  split_name(function, parts, &is_template);
  if (parts[0][0] && strcmp(parts[0], parts[1]) == 0)
    return GP_FRAME_GENERIC; /* a constructor */
  if (strcasestr(parts[0], generic_words[0]))
    return GP_FRAME_GENERIC;
  for (size_t i = 1; i < sizeof(generic_words) / sizeof(generic_words[0]); i++) {
    if (has_word(parts[0], generic_words[i]))
      return GP_FRAME_GENERIC;
  }
  return is_template && strncmp(parts[0], "operator", 8) != 0 ? GP_FRAME_TEMPLATE : GP_FRAME_PLAIN;
}

static bool is_common(const char *function)
{
  for (size_t i = 0; i < sizeof(common_names) / sizeof(common_names[0]); i++) {
    if (strcmp(function, common_names[i]) == 0)
      return true;
  }
  return false;
}

static bool ends_with(const char *text, const char *end)
{
  size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Returns true if the frame is a line of Python, in a file or typed interactively: "<stdin>",
 * "<ipython-input-3-c0ffee>". */
static bool is_python(const gp_snapshot_frame_t *frame)
{
  return ends_with(frame->file, ".py") || frame->file[0] == '<';
}

gp_snapshot_frame_kind_t gp_frame_kind_of(const gp_snapshot_t *snapshot, int index, const gp_patterns_t *skip)
{
  const gp_snapshot_frame_t *frame = &snapshot->frames[index];
  const char *path = frame->module >= 0 ? snapshot->modules[frame->module].path : "";
  const char *function = gp_function_without_result(frame->function);
  const char *const texts[] = {
      [FUNCTION] = function, [MODULE] = gp_base_name(path), [PATH] = path, [SOURCE] = frame->file};
  gp_snapshot_frame_kind_t kind = {.part = GP_FRAME_OWNER, .is_python = is_python(frame)};

  if (skip && ((frame->function[0] && gp_patterns_match(skip, frame->function)) ||
                  (frame->file[0] && gp_patterns_match(skip, frame->file)) ||
                  (path[0] && gp_patterns_match(skip, path)))) {
    kind.part = GP_FRAME_NEVER;
    kind.group = GP_FRAME_GROUP_SKIPPED;
    return kind;
  }
  if (!frame->function[0] && !path[0] && !frame->file[0] && !frame->address) {
    kind.part = GP_FRAME_NEVER; /* the frame has no function, file or module */
    kind.group = GP_FRAME_GROUP_START;
    return kind;
  }
  for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
    /* Skips these lines for Python, because a Python function may have the same name as one in C. */
    if ((kind.is_python && lines[i].subject != SOURCE) || !matches(lines[i].pattern, texts[lines[i].subject]))
      continue;
    kind.part = (uint8_t)lines[i].part;
    kind.group = (uint8_t)lines[i].group;
    return kind;
  }
  kind.is_root = strcmp(function, "main") == 0 || strcmp(function, "<module>") == 0;
  kind.is_common = is_common(function);
  if (!kind.is_python)
    kind.form = (uint8_t)form_of(function);
  else if (strcasestr(function, generic_words[0]))
    kind.form = GP_FRAME_GENERIC; /* in Python, other generic words often name models, which are owners */
  return kind;
}

bool gp_frame_is_allocator(const gp_snapshot_t *snapshot, int frame)
{
  gp_snapshot_frame_kind_t kind =
      snapshot->frame_kinds ? snapshot->frame_kinds[frame] : gp_frame_kind_of(snapshot, frame, NULL);
  return kind.part >= GP_FRAME_NEVER && kind.group >= GP_FRAME_GROUP_CUDA &&
         kind.group <= GP_FRAME_GROUP_PYTORCH;
}

bool gp_frame_is_beginning(const gp_snapshot_t *snapshot, int frame)
{
  gp_snapshot_frame_kind_t kind =
      snapshot->frame_kinds ? snapshot->frame_kinds[frame] : gp_frame_kind_of(snapshot, frame, NULL);
  return kind.part >= GP_FRAME_NEVER && kind.group == GP_FRAME_GROUP_START;
}

bool gp_frame_operator(const char *function, char *buffer, size_t capacity)
{
  static const char begin[] = "at::_ops::";
  const char *name = gp_function_without_result(function);

  if (strncmp(name, "aten::", 6) == 0) { /* the name that PyTorch's profiler uses */
    (void)snprintf(buffer, capacity, "%s", name);
    return true;
  }
  if (strncmp(name, begin, sizeof(begin) - 1) != 0)
    return false;
  name += sizeof(begin) - 1;
  const char *end = strstr(name, "::");
  if (!end || end == name)
    return false;
  (void)snprintf(buffer, capacity, "aten::%.*s", (int)(end - name), name);
  return true;
}
