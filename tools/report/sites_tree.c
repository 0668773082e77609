#include "tools/report/sites_tree.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "tools/tool.h"

#define SHOWN_SHARE 0.01 /* callers with a smaller share of all memory are not shown */
#define MOST_INDENT 24

typedef struct printing {
  const gp_report_input_t *input;
  gp_output_t *output;
  const gp_site_amount_t *sum;
  bool by_count;
} printing_t;

static double share_of(const printing_t *printing, const gp_site_amount_t *amount)
{
  uint64_t part = printing->by_count ? amount->count : amount->bytes;
  uint64_t whole = printing->by_count ? printing->sum->count : printing->sum->bytes;
  return whole ? (double)part / (double)whole : 0;
}

static void print_caller(const printing_t *printing, const gp_caller_t *caller, size_t indent)
{
  char name[4096];
  size_t columns = printing->output->columns, used = 20 + indent;

  fprintf(printing->output->stream, "%10s %6s  %*s%s\n",
      printing->by_count ? GP_AS_COUNT(caller->amount.count) : GP_AS_SIZE(caller->amount.bytes),
      GP_AS_PERCENT(share_of(printing, &caller->amount)), (int)indent, "",
      printing->input->request->wide
          ? gp_printable(caller->name, name, sizeof(name))
          : gp_text_shorten(caller->name, columns > used + 20 ? columns - used : 20, name, sizeof(name)));
  indent = indent + 2 > MOST_INDENT ? MOST_INDENT : indent + 2;
  for (const gp_caller_t *next = caller->callers; next; next = next->next) {
    if (share_of(printing, &next->amount) >= SHOWN_SHARE)
      print_caller(printing, next, indent);
  }
}

void gp_sites_tree_print(const gp_report_input_t *input, const gp_caller_t *owners,
    const gp_site_amount_t *sum, bool by_count, uint64_t most, gp_output_t *output)
{
  const printing_t printing = {input, output, sum, by_count};
  uint64_t shown = 0, left = 0;

  for (const gp_caller_t *owner = owners; owner; owner = owner->next) {
    if (most && shown == most)
      left++;
    else
      print_caller(&printing, owner, 0);
    shown += !most || shown < most;
  }
  if (left)
    fprintf(output->stream, "and %s with less; -n 0 shows all\n", GP_AS_PLURAL(left, "other"));
}

static void add_callers(cJSON *object, const char *name, const gp_caller_t *caller)
{
  cJSON *list = cJSON_AddArrayToObject(object, name);
  for (; caller; caller = caller->next) {
    cJSON *item = gp_json_add_item(list);
    GP_JSON_SHAPE(caller);
    GP_PUT_TEXT(item, "name", caller->name, "the function, with file and line");
    GP_PUT_UINT(
        item, "bytes", caller->amount.bytes, "what `--sort` measures of the allocations made through it");
    GP_PUT_UINT(item, "count", caller->amount.count, "the same as a count");
    GP_PUT_BY(add_callers, item, "callers", caller[], "the functions that called it", caller->callers);
  }
}

void gp_sites_tree_json(const gp_caller_t *owners, cJSON *object)
{
  GP_JSON_SHAPE(sites_snapshot);
  GP_PUT_BY(
      add_callers, object, "tree", caller[], "only with `--tree`: the owners and who called them", owners);
}
