#include "pool/observer.h"

static const char *const action_names[] = {
#define ACTION(enumerator, name) name,
#include "trace/format/actions.def"
};

static const char *const detail_names[] = {
#define DETAIL(enumerator, name) name,
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
