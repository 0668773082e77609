#include <string.h>

#include "format/actions.h"
#include "format/details.h"
#include "format/marks.h"
#include "format/record.h"
#include "format/recording.h"
#include "format/states.h"

static const char *const action_names[] = {
#define ACTION(enumerator, name, ...) name,
#include "format/actions.def"
};

static const char *const detail_names[] = {
#define REASON(enumerator, name)         name,
#define TRIM_REASON(enumerator, name)    name,
#define MODE(enumerator, name)           name,
#define MODE_CAUSE(enumerator, name)     name,
#define FORWARDED_KIND(enumerator, name) name,
#define DAMAGE_KIND(enumerator, name)    name,
#include "format/details.def"
};

static const char *const block_state_names[] = {
#define BLOCK_STATE(enumerator, name) [GP_BLOCK_##enumerator] = name,
#include "format/states.def"
};

static const char *const recording_names[] = {
#define RECORDING(enumerator, name) name,
#include "format/recording.def"
};

static const char *const section_names[] = {
#define SECTION(enumerator, name) name,
#include "format/sections.def"
};

const char *gp_action_name(gp_action_t action)
{
  return action_names[action];
}

const char *gp_detail_name(gp_detail_t detail)
{
  return detail_names[detail];
}

const char *gp_block_state_name(gp_block_state_t state)
{
  return block_state_names[state];
}

const char *gp_recording_name(gp_recording_t recording)
{
  return recording_names[recording];
}

const char *gp_section_name(gp_section_t section)
{
  return section_names[section];
}

const char *gp_mark_kind_name(gp_mark_kind_t kind)
{
  static const char *const names[] = {[GP_MARK_MOMENT] = "mark",
      [GP_MARK_BEGIN] = "begin",
      [GP_MARK_END] = "end",
      [GP_MARK_PUSH] = "push",
      [GP_MARK_POP] = "pop"};
  return names[kind];
}

bool gp_mark_kind_find(const char *name, gp_mark_kind_t *ret_kind)
{
  for (int kind = 0; kind < GP_MARK_KIND_COUNT; kind++) {
    if (strcmp(name, gp_mark_kind_name((gp_mark_kind_t)kind)) == 0) {
      *ret_kind = (gp_mark_kind_t)kind;
      return true;
    }
  }
  return false;
}
