#include "base/options.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/path.h"
#include "base/retired.h"
#include "base/signal_name.h"

const gp_option_t gp_option_table[GP_OPTION_COUNT] = {
#define OPTION(id, name, type, default_text, minimum, maximum, syntax, help)                                 \
  [GP_OPTION_##id] = {name, "GPUPOOL_" name, GP_OPTION_##type, default_text, minimum, maximum, syntax, help},
#include "base/options.def"
};

/*
 * MXNet's variable names. For the page size MXNet's documentation and code use different names, so both are
 * accepted. MXNet's Round type has one size class per power of two, and linear classes above 2^24.
 */
static const struct {
  gp_option_id_t id;
  const char *variable;
} mxnet_names[] = {
    {GP_OPTION_type, "MXNET_GPU_MEM_POOL_TYPE"},
    {GP_OPTION_page, "MXNET_GPU_MEM_POOL_PAGE_SIZE"},
    {GP_OPTION_page, "MXNET_GPU_POOL_PAGE_SIZE"},
    {GP_OPTION_large_round, "MXNET_GPU_MEM_LARGE_ALLOC_ROUND_SIZE"},
    {GP_OPTION_round_cutoff, "MXNET_GPU_MEM_POOL_ROUND_LINEAR_CUTOFF"},
    {GP_OPTION_reserve, "MXNET_GPU_MEM_POOL_RESERVE"},
};
#define MXNET_NAME_COUNT (sizeof(mxnet_names) / sizeof(mxnet_names[0]))

/* The setting being parsed, for the message if it is malformed. */
typedef struct attempt {
  gp_option_id_t id;
  const char *variable;
  const char *text;
  gp_option_problem_fn problem;
  void *problem_arg;
} attempt_t;

static bool is_limit(gp_option_id_t id)
{
  return id == GP_OPTION_limit || id == GP_OPTION_host_limit;
}

void gp_options_note_malformed(gp_options_t *options, gp_option_id_t id)
{
  options->limit_malformed |= id == GP_OPTION_limit;
  options->host_limit_malformed |= id == GP_OPTION_host_limit;
}

static void report(const attempt_t *attempt, const char *accepted)
{
  const gp_option_t *option = &gp_option_table[attempt->id];
  char message[768];

  if (!attempt->problem)
    return;
  if (is_limit(attempt->id))
    snprintf(message, sizeof(message),
        "%s=%.200s is malformed; accepted: %s. Until the limit is corrected, every %sallocation fails",
        attempt->variable, attempt->text, accepted,
        attempt->id == GP_OPTION_host_limit ? "page-locked " : "");
  else
    snprintf(message, sizeof(message), "%s=%.200s is malformed; accepted: %s. The default, %s, is used",
        attempt->variable, attempt->text, accepted, option->default_text);
  attempt->problem(attempt->problem_arg, true, message);
}

static bool allows_none(const gp_option_t *option)
{
  return strcmp(option->default_text, "none") == 0 || strstr(option->syntax, "or none");
}

static bool parse_integer(const attempt_t *attempt, uint64_t *ret_number)
{
  const gp_option_t *option = &gp_option_table[attempt->id];
  char accepted[128];
  char *end;

  if (allows_none(option) && strcasecmp(attempt->text, "none") == 0) {
    *ret_number = UINT64_MAX;
    return true;
  }
  unsigned long long number = strtoull(attempt->text, &end, 10);
  bool power = strcmp(option->syntax, "a power of two") != 0 || (number & (number - 1)) == 0;
  if (!isdigit((unsigned char)attempt->text[0]) || *end || number < option->minimum ||
      number > option->maximum || !power) {
    snprintf(accepted, sizeof(accepted), "a number from %llu to %llu%s%s%s",
        (unsigned long long)option->minimum, (unsigned long long)option->maximum,
        option->syntax[0] ? ", " : "", option->syntax, allows_none(option) ? ", or none" : "");
    report(attempt, accepted);
    return false;
  }
  *ret_number = number;
  return true;
}

/* Parses text[0..length) as a size, as a share if share_allowed, or as "none" if none_allowed. */
static bool parse_amount(
    const char *text, size_t length, bool share_allowed, bool none_allowed, gp_amount_t *ret_amount)
{
  gp_amount_t amount = {0, false, false};

  while (length > 0 && text[length - 1] == ' ')
    length--;
  if (none_allowed && length == 4 && strncasecmp(text, "none", 4) == 0) {
    amount.is_none = true;
  } else if (share_allowed && length > 1 && text[length - 1] == '%') {
    for (size_t i = 0; i + 1 < length; i++) {
      if (!isdigit((unsigned char)text[i]) || amount.number > 100)
        return false;
      amount.number = amount.number * 10 + (uint64_t)(text[i] - '0');
    }
    if (amount.number > 100)
      return false;
    amount.is_share = true;
  } else if (!gp_size_parse(text, length, &amount.number)) {
    return false;
  }
  *ret_amount = amount;
  return true;
}

static bool parse_single_amount(const attempt_t *attempt, gp_amount_t *ret_amount)
{
  const gp_option_t *option = &gp_option_table[attempt->id];
  bool share = option->type == GP_OPTION_SHARE;
  gp_amount_t amount;
  char low[GP_SIZE_TEXT_BYTES];
  char high[GP_SIZE_TEXT_BYTES];
  char accepted[200];

  if (parse_amount(attempt->text, strlen(attempt->text), share, allows_none(option), &amount) &&
      (amount.is_none || amount.is_share ||
          (amount.number >= option->minimum && (!option->maximum || amount.number <= option->maximum)))) {
    *ret_amount = amount;
    return true;
  }
  if (option->maximum)
    snprintf(accepted, sizeof(accepted), "a size from %s to %s", gp_size_format(option->minimum, low),
        gp_size_format(option->maximum, high));
  else
    snprintf(accepted, sizeof(accepted), "a size such as 8GiB, 8G or plain bytes%s%s",
        share ? ", or a share such as 50%" : "", allows_none(option) ? ", or none" : "");
  report(attempt, accepted);
  return false;
}

/* Parses one amount for all devices ("8GiB", "50%", "none") or amounts for single devices
 * ("0=8GiB,1=50%"). */
static bool parse_device_amounts(const attempt_t *attempt, gp_amount_t *ret_amounts)
{
  gp_amount_t amounts[GP_OPTION_DEVICES];
  const char *p = attempt->text;

  for (int i = 0; i < GP_OPTION_DEVICES; i++)
    amounts[i] = (gp_amount_t){.is_none = true};
  if (!strchr(p, '=')) {
    gp_amount_t amount;
    if (!parse_amount(p, strlen(p), true, true, &amount))
      goto malformed;
    for (int i = 0; i < GP_OPTION_DEVICES; i++)
      amounts[i] = amount;
  } else {
    for (;;) {
      char *end;
      if (!isdigit((unsigned char)*p))
        goto malformed;
      unsigned long device = strtoul(p, &end, 10);
      if (*end != '=' || device >= GP_OPTION_DEVICES)
        goto malformed;
      p = end + 1;
      size_t length = strcspn(p, ",");
      if (!parse_amount(p, length, true, true, &amounts[device]))
        goto malformed;
      p += length;
      if (*p == '\0')
        break;
      p++;
    }
  }
  memcpy(ret_amounts, amounts, sizeof(amounts));
  return true;

malformed:
  report(attempt, "a size (8GiB), a share of the device (50%), or one for each device (0=8GiB,1=50%)");
  return false;
}

/* Warns about a limit of less than 1 MiB, which is probably a mistake: a user who writes 8 means 8GiB, and no
 * program can run under such a limit. The limit stays in effect, because other users of the device may rely
 * on it. */
static void ask_for_unit(const attempt_t *attempt, const gp_amount_t *amounts, int count)
{
  char message[GP_OPTION_TEXT_BYTES + 256], size[GP_SIZE_TEXT_BYTES];
  const gp_amount_t *few = NULL;

  for (int i = 0; !few && i < count; i++) {
    if (!amounts[i].is_none && !amounts[i].is_share && amounts[i].number < GP_MIB)
      few = &amounts[i];
  }
  if (!few || !attempt->problem)
    return;
  int used = snprintf(message, sizeof(message), "%s=%.200s is a limit of %s: every %s%sallocation fails. ",
      attempt->variable, attempt->text, gp_size_format(few->number, size), few->number ? "larger " : "",
      attempt->id == GP_OPTION_host_limit ? "page-locked " : "");
  if (few->number)
    snprintf(message + used, sizeof(message) - (size_t)used, "Was %llu%s meant?",
        (unsigned long long)few->number, few->number < GP_KIB ? "GiB" : "MiB");
  else
    snprintf(message + used, sizeof(message) - (size_t)used, "For no limit, set %s=none", attempt->variable);
  attempt->problem(attempt->problem_arg, false, message);
}

/* Finds name[0..length) among the choices "a|b|c"; returns its index or -1. */
static int find_choice(const char *choices, const char *name, size_t length)
{
  int index = 0;
  for (const char *p = choices;; index++) {
    size_t choice_length = strcspn(p, "|");
    if (choice_length == length && strncasecmp(p, name, length) == 0)
      return index;
    p += choice_length;
    if (*p == '\0')
      return -1;
    p++;
  }
}

int gp_option_choice(gp_option_id_t id, const char *text)
{
  return find_choice(gp_option_table[id].syntax, text, strlen(text));
}

/* Parses a choice and writes it to value->text, spelled as in the table. */
static bool parse_choice(const attempt_t *attempt, gp_option_value_t *value)
{
  const gp_option_t *option = &gp_option_table[attempt->id];
  const char *text = attempt->text;
  int index = gp_option_choice(attempt->id, text);
  if (index < 0 &&
      gp_retired_report(option->name, attempt->text, attempt->problem, attempt->problem_arg, &text))
    index = gp_option_choice(attempt->id, text);
  if (index < 0) {
    report(attempt, option->syntax);
    return false;
  }
  value->number = (uint64_t)index;
  snprintf(value->text, sizeof(value->text), "%s", text);
  for (char *p = value->text; *p; p++)
    *p = (char)tolower((unsigned char)*p);
  return true;
}

#define SIGNAL_CHOICE "signal:NAME"
#define SIGNAL_PREFIX "signal:"

static bool is_signal_choice(const gp_option_t *option, const char *text, size_t length)
{
  return length > strlen(SIGNAL_PREFIX) && strncasecmp(text, SIGNAL_PREFIX, strlen(SIGNAL_PREFIX)) == 0 &&
         find_choice(option->syntax, SIGNAL_CHOICE, strlen(SIGNAL_CHOICE)) >= 0;
}

/* Parses flags. Sets bit (number - 1) of *ret_signals for each signal that the text names. */
static bool parse_flags(const attempt_t *attempt, uint64_t *ret_number, uint64_t *ret_signals)
{
  const gp_option_t *option = &gp_option_table[attempt->id];
  uint64_t mask = 0;
  uint64_t signals = 0;
  char accepted[200];

  if (strcasecmp(attempt->text, "none") != 0) {
    const char *p = attempt->text;
    for (;;) {
      size_t length = strcspn(p, ",");
      int index;
      if (is_signal_choice(option, p, length)) {
        int number = gp_signal_parse(p + strlen(SIGNAL_PREFIX), length - strlen(SIGNAL_PREFIX));
        if (!number) {
          report(attempt, "after signal: one of " GP_SIGNAL_SYNTAX
                          " (faults are the program's, KILL and STOP cannot be caught)");
          return false;
        }
        signals |= UINT64_C(1) << (number - 1);
        index = find_choice(option->syntax, SIGNAL_CHOICE, strlen(SIGNAL_CHOICE));
      } else {
        index = find_choice(option->syntax, p, length);
      }
      if (index < 0) {
        snprintf(accepted, sizeof(accepted), "any of %s, separated by commas, or none", option->syntax);
        report(attempt, accepted);
        return false;
      }
      mask |= UINT64_C(1) << index;
      p += length;
      if (*p == '\0')
        break;
      p++;
    }
  }
  *ret_number = mask;
  *ret_signals = signals;
  return true;
}

static bool parse_text(const attempt_t *attempt)
{
  const char *unknown = gp_path_check(attempt->text);
  if (attempt->text[0] == '\0' || strlen(attempt->text) >= GP_OPTION_TEXT_BYTES || unknown) {
    report(attempt, gp_option_table[attempt->id].syntax);
    return false;
  }
  return true;
}

static bool parse_blocks(const attempt_t *attempt, gp_block_list_t *ret_list)
{
  char why[GP_BLOCK_LIST_WHY_BYTES];
  char accepted[GP_BLOCK_LIST_WHY_BYTES + 96];

  if (strlen(attempt->text) >= GP_OPTION_TEXT_BYTES)
    snprintf(why, sizeof(why), "it has more than %d characters", GP_OPTION_TEXT_BYTES - 1);
  else if (gp_block_list_parse(attempt->text, ret_list, why))
    return true;
  snprintf(accepted, sizeof(accepted), "sizes of blocks and how many of each, such as %s, or none; %s",
      gp_option_table[attempt->id].syntax, why);
  report(attempt, accepted);
  return false;
}

static bool parse_value(const attempt_t *attempt, gp_options_t *options)
{
  gp_option_value_t *value = &options->values[attempt->id];
  bool good = false;

  switch (gp_option_table[attempt->id].type) {
  case GP_OPTION_BOOL:
  case GP_OPTION_INTEGER: good = parse_integer(attempt, &value->number); break;
  case GP_OPTION_SIZE:
  case GP_OPTION_SHARE:
    good = parse_single_amount(attempt, &value->amount);
    if (good)
      value->number = value->amount.is_none ? UINT64_MAX : value->amount.number;
    if (good && is_limit(attempt->id))
      ask_for_unit(attempt, &value->amount, 1);
    break;
  case GP_OPTION_DEVICE_SIZE:
    good = parse_device_amounts(attempt, options->limits);
    if (good)
      ask_for_unit(attempt, options->limits, GP_OPTION_DEVICES);
    break;
  case GP_OPTION_CHOICE: return parse_choice(attempt, value);
  case GP_OPTION_FLAGS: good = parse_flags(attempt, &value->number, &options->snapshot_signals); break;
  case GP_OPTION_BLOCKS: good = parse_blocks(attempt, &options->prewarm); break;
  case GP_OPTION_TEXT: good = parse_text(attempt); break;
  }
  if (good)
    snprintf(value->text, sizeof(value->text), "%s", attempt->text);
  return good;
}

uint64_t gp_amount_resolve(const gp_amount_t *amount, uint64_t whole)
{
  if (amount->is_none)
    return UINT64_MAX;
  return amount->is_share ? whole / 100 * amount->number + whole % 100 * amount->number / 100
                          : amount->number;
}

bool gp_option_parse(gp_option_id_t id, const char *text, gp_options_t *options, gp_option_problem_fn problem,
    void *problem_arg)
{
  const attempt_t attempt = {id, gp_option_table[id].variable, text, problem, problem_arg};
  return parse_value(&attempt, options);
}

static void set_default(gp_options_t *options, gp_option_id_t id)
{
  (void)gp_option_parse(id, gp_option_table[id].default_text, options, NULL, NULL);
  options->values[id].source = GP_OPTION_FROM_DEFAULT;
}

/* Sets options from MXNet's variables, unless another source has already set them. The values have MXNet's
 * syntax: plain numbers. */
int gp_options_parse_mxnet(gp_options_t *options, gp_option_lookup_fn lookup, void *lookup_arg,
    gp_option_problem_fn problem, void *problem_arg)
{
  bool round = false, has_any = false;
  int problems = 0;

  for (size_t i = 0; i < MXNET_NAME_COUNT; i++) {
    gp_option_id_t id = mxnet_names[i].id;
    const char *text = lookup(lookup_arg, mxnet_names[i].variable);
    char share[32];
    if (!text || options->values[id].source > GP_OPTION_FROM_MXNET)
      continue;
    attempt_t attempt = {id, mxnet_names[i].variable, text, problem, problem_arg};
    if (id == GP_OPTION_reserve) {
      snprintf(share, sizeof(share), "%.20s%%", text);
      attempt.text = share;
    }
    if (!parse_value(&attempt, options)) {
      problems++;
      continue;
    }
    options->values[id].source = GP_OPTION_FROM_MXNET;
    has_any = true;
    round = round || (id == GP_OPTION_type && gp_option_number(options, id) == GP_TYPE_ROUND);
  }
  if (round && options->values[GP_OPTION_round_cutoff].source == GP_OPTION_FROM_DEFAULT) {
    (void)gp_option_parse(GP_OPTION_round_cutoff, "24", options, NULL, NULL);
    options->values[GP_OPTION_round_cutoff].source = GP_OPTION_FROM_MXNET;
  }
  if (has_any && options->values[GP_OPTION_slack].source == GP_OPTION_FROM_DEFAULT) {
    (void)gp_option_parse(GP_OPTION_slack, "none", options, NULL, NULL);
    options->values[GP_OPTION_slack].source = GP_OPTION_FROM_MXNET;
  }
  return problems;
}

int gp_options_parse_own(gp_options_t *ret_options, gp_option_lookup_fn lookup, void *lookup_arg,
    gp_option_problem_fn problem, void *problem_arg)
{
  int problems = 0;

  memset(ret_options, 0, sizeof(*ret_options));
  for (int i = 0; i < GP_OPTION_DEVICES; i++)
    ret_options->ceilings[i].is_none = true;
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    const char *text = lookup(lookup_arg, gp_option_table[id].variable);
    set_default(ret_options, (gp_option_id_t)id);
    if (!text)
      continue;
    if (gp_option_parse((gp_option_id_t)id, text, ret_options, problem, problem_arg)) {
      ret_options->values[id].source = GP_OPTION_FROM_ENVIRONMENT;
    } else {
      problems++;
      gp_options_note_malformed(ret_options, (gp_option_id_t)id);
    }
  }
  const char *runs = lookup(lookup_arg, GP_RUN_VARIABLE);
  if (gp_run_id_is_valid(runs))
    strcpy(ret_options->runs, runs);
  return problems;
}

int gp_options_parse(gp_options_t *ret_options, gp_option_lookup_fn lookup, void *lookup_arg,
    gp_option_problem_fn problem, void *problem_arg)
{
  int problems = gp_options_parse_own(ret_options, lookup, lookup_arg, problem, problem_arg);
  return problems + gp_options_parse_mxnet(ret_options, lookup, lookup_arg, problem, problem_arg);
}

gp_option_id_t gp_option_find(const char *name)
{
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    const char *p = gp_option_table[id].name;
    const char *q = name;
    while (*p && (toupper((unsigned char)*q) == *p || (*p == '_' && *q == '-'))) {
      p++;
      q++;
    }
    if (*p == '\0' && *q == '\0')
      return (gp_option_id_t)id;
  }
  return GP_OPTION_COUNT;
}

#define NAME_BYTES 64

/* Returns the edit distance (insertions, deletions, substitutions) between two names shorter than
 * NAME_BYTES. */
static unsigned edit_distance(const char *a, const char *b)
{
  unsigned row[NAME_BYTES + 1];
  size_t columns = strlen(b);

  for (size_t j = 0; j <= columns; j++)
    row[j] = (unsigned)j;
  for (size_t i = 1; a[i - 1]; i++) {
    unsigned diagonal = row[0];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= columns; j++) {
      unsigned substituted = diagonal + (a[i - 1] != b[j - 1]);
      unsigned best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
      diagonal = row[j];
      row[j] = substituted < best ? substituted : best;
    }
  }
  return row[columns];
}

/* Copies the first `length` characters of `name` in capitals, without underscores and hyphens. The result is
 * truncated to NAME_BYTES. */
static void squeeze(const char *name, size_t length, char *ret_squeezed)
{
  size_t used = 0;

  for (size_t i = 0; i < length && name[i] && used + 1 < NAME_BYTES; i++)
    if (name[i] != '_' && name[i] != '-')
      ret_squeezed[used++] = (char)toupper((unsigned char)name[i]);
  ret_squeezed[used] = '\0';
}

static const char *nearest_variable(const char *name)
{
  const char *nearest = gp_option_table[0].variable;
  char squeezed[NAME_BYTES], variable[NAME_BYTES];
  unsigned best = ~0u;

  squeeze(name, NAME_BYTES, squeezed);
  for (int id = 0; id < GP_OPTION_COUNT; id++) {
    squeeze(gp_option_table[id].variable, NAME_BYTES, variable);
    unsigned distance = edit_distance(squeezed, variable);
    if (distance < best) {
      best = distance;
      nearest = gp_option_table[id].variable;
    }
  }
  return nearest;
}

/* Returns true if a variable's name was probably meant for gpupool. Such a name starts with GPUPOOL_
 * (ignoring case), or equals an option's whole name, ignoring case and underscores. The whole name must
 * match, because other programs have variables of the form GPU_POOL_*. */
static bool is_meant_for_us(const char *name, size_t length)
{
  char squeezed[NAME_BYTES], variable[NAME_BYTES];

  if (strncasecmp(name, "GPUPOOL_", 8) == 0)
    return true;
  squeeze(name, length, squeezed);
  for (int id = 0; id < GP_OPTION_COUNT && strncmp(squeezed, "GPUPOOL", 7) == 0; id++) {
    squeeze(gp_option_table[id].variable, NAME_BYTES, variable);
    if (strcmp(squeezed, variable) == 0)
      return true;
  }
  return false;
}

int gp_options_check_names(char *const *environment, gp_option_problem_fn problem, void *problem_arg)
{
  int unknown = 0;

  for (; environment && *environment; environment++) {
    char name[8 + NAME_BYTES];
    char message[256];
    size_t length = strcspn(*environment, "=");
    if (!is_meant_for_us(*environment, length))
      continue;
    snprintf(
        name, sizeof(name), "%.*s", (int)(length < sizeof(name) ? length : sizeof(name) - 1), *environment);
    bool known = strcmp(name, GP_RUN_VARIABLE) == 0 || strcmp(name, GP_NVTX_NEXT_VARIABLE) == 0;
    for (int id = 0; id < GP_OPTION_COUNT; id++)
      known = known || strcmp(name, gp_option_table[id].variable) == 0;
    if (known)
      continue;
    unknown++;
    const char *used;
    if (gp_retired_report(name, "", problem, problem_arg, &used))
      continue;
    snprintf(message, sizeof(message), "%s is no option of this version; the nearest is %s", name,
        nearest_variable(name));
    if (problem)
      problem(problem_arg, false, message);
  }
  return unknown;
}
