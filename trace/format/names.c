#include "trace/format/actions.h"
#include "trace/format/details.h"

static const char *const action_names[] = {
#define ACTION(enumerator, name) name,
#include "trace/format/actions.def"
};

static const char *const detail_names[] = {
#define REASON(enumerator, name)         name,
#define TRIM_REASON(enumerator, name)    name,
#define MODE(enumerator, name)           name,
#define MODE_CAUSE(enumerator, name)     name,
#define FORWARDED_KIND(enumerator, name) name,
#include "trace/format/details.def"
};

const char *gp_action_name(gp_action_t action)
{
  return action_names[action];
}

const char *gp_detail_name(gp_detail_t detail)
{
  return detail_names[detail];
}
