#include "tools/report/component_report.h"

#include <stdio.h>

#include "base/size.h"
#include "tools/model/component_use.h"
#include "tools/report/report.h"
#include "tools/table.h"

static void add_row(const gp_component_use_t *use, gp_table_t *table, const char *name, uint64_t end,
    uint64_t peak, uint64_t whole)
{
  if (end || peak)
    gp_table_row(table, name, GP_AS_SIZE(end), use->knows_peak ? GP_AS_SIZE(peak) : "",
        whole ? GP_AS_PERCENT((double)peak / (double)whole) : NULL, NULL);
}

void gp_component_print(const gp_component_use_t *use, gp_output_t *output)
{
  gp_unsited_row_t end[GP_UNSITED_ROWS], peak[GP_UNSITED_ROWS];

  if (!use->has_others)
    return;
  gp_table_t table = {.output = output, .indent = "  ", .format = "lrrr"};
  fputc('\n', output->stream);
  gp_table_row(&table, "by component", use->knows_peak ? "at the end" : "when written",
      use->knows_peak ? "at the peak" : "", "share", NULL);
  for (size_t i = 0; i < use->sites.count; i++) {
    const gp_site_amount_t *amounts = use->sites.sites[i].flat;
    add_row(use, &table, use->sites.sites[i].name, amounts[GP_SITE_LIVE].bytes, amounts[GP_SITE_PEAK].bytes,
        use->sites.sums[GP_SITE_PEAK].bytes);
  }
  gp_unsited_rows(&use->unsited, GP_USE_END, end);
  gp_unsited_rows(&use->unsited, GP_USE_PEAK, peak);
  for (size_t i = 0; i < GP_UNSITED_ROWS; i++)
    add_row(use, &table, end[i].name, end[i].bytes, peak[i].bytes, 0);
  gp_table_print(&table);
}

static void add_unsited(cJSON *object, const gp_unsited_use_t *unsited)
{
  const gp_site_amount_t *host = unsited->host;
  GP_JSON_SHAPE(unsited);
  cJSON *pool = GP_PUT_OBJECT(object, "pool", pool_use,
      "reserved bytes beyond those requested: cached, freed but still in use, rounding");
  GP_PUT_UINT_OR_NULL(object, "contexts", unsited->has_contexts, unsited->contexts,
      "used by nothing that the program allocated, as `unaccounted`");
  cJSON *pinned = GP_PUT_OBJECT(object, "pinned_host", host_use, "page-locked memory of the host");
  GP_JSON_SHAPE(pool_use);
  GP_PUT_UINT(pool, "end", unsited->pool[GP_USE_END], "at the end");
  GP_PUT_UINT(pool, "peak", unsited->pool[GP_USE_PEAK], "at the peak of the device");
  GP_JSON_SHAPE(host_use);
  GP_PUT_AMOUNT(pinned, "end", host[GP_USE_END].bytes, host[GP_USE_END].count, "at the end");
  GP_PUT_AMOUNT(
      pinned, "peak", host[GP_USE_PEAK].bytes, host[GP_USE_PEAK].count, "at the peak of the device");
}

void gp_component_json(const gp_component_use_t *use, cJSON *object)
{
  GP_JSON_SHAPE(components);
  cJSON *list = GP_PUT_LIST(object, "components", component,
      "requested bytes by component ([doc/components.md](../doc/components.md)), the largest at the peak first");
  add_unsited(GP_PUT_OBJECT(object, "beside", unsited, "memory of the whole device that is in no component"),
      &use->unsited);
  GP_JSON_SHAPE(component);
  for (size_t i = 0; i < use->sites.count; i++) {
    const gp_site_t *site = &use->sites.sites[i];
    cJSON *item = gp_json_add_item(list);
    GP_PUT_TEXT(item, "name", site->name, "name of the component");
    GP_PUT_AMOUNT(item, "end", site->flat[GP_SITE_LIVE].bytes, site->flat[GP_SITE_LIVE].count, "at the end");
    GP_PUT_AMOUNT(item, "peak", site->flat[GP_SITE_PEAK].bytes, site->flat[GP_SITE_PEAK].count,
        "at the peak of the device");
  }
}

void gp_unsited_print(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, const gp_moments_t *moments,
    const gp_moments_t *peak, bool at_peak, gp_output_t *output)
{
  gp_unsited_row_t rows[GP_UNSITED_ROWS];
  gp_unsited_use_t unsited;

  gp_unsited_use_find(lifetimes, filter, moments, peak, &unsited);
  gp_unsited_rows(&unsited, at_peak ? GP_USE_PEAK : GP_USE_END, rows);
  for (size_t i = 0; i < GP_UNSITED_ROWS; i++) {
    if (rows[i].bytes)
      fprintf(output->stream, "%10s %34s  %s\n", GP_AS_SIZE(rows[i].bytes), "in addition:", rows[i].name);
  }
}

void gp_unsited_json(const gp_lifetimes_t *lifetimes, const gp_filter_t *filter, const gp_moments_t *moments,
    const gp_moments_t *peak, cJSON *object)
{
  gp_unsited_use_t unsited;
  gp_unsited_use_find(lifetimes, filter, moments, peak, &unsited);
  GP_JSON_SHAPE(sites_snapshot);
  add_unsited(
      GP_PUT_OBJECT(object, "beside", unsited, "only with `--by component`: memory that is in no component"),
      &unsited);
}
