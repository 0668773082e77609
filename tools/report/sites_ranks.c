#include "tools/report/sites_ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/array.h"
#include "tools/saturated.h"
#include "tools/report/ranks.h"
#include "tools/table.h"
#include "tools/tool.h"

int gp_sites_ranks_add(gp_sites_ranks_t *ranks, const gp_sites_t *sites, const gp_report_input_t *input)
{
  char *file = strdup(input->file);
  gp_ranks_file_t *added = file ? GP_ARRAY_ADD(ranks->files, ranks->file_count) : NULL;
  size_t number = ranks->file_count - 1;

  if (!added) {
    free(file);
    return ENOMEM;
  }
  *added = (gp_ranks_file_t){file, gp_rank_number(input->snapshot)};
  for (size_t i = 0; i < sites->count; i++) {
    const gp_site_amount_t *flat = &sites->sites[i].flat[ranks->measure];
    uint64_t amount = ranks->by_count ? flat->count : flat->bytes;
    if (!amount)
      continue;
    gp_ranks_site_t *site =
        GP_HASH_TEXT(&ranks->by_name, ranks->sites, ranks->count, sites->sites[i].name, true);
    if (!site)
      return ENOMEM;
    if (!site->file_count || amount < site->least) {
      site->least = amount;
      site->least_file = number;
    }
    if (amount > site->most) {
      site->most = amount;
      site->most_file = number;
    }
    site->file_count++;
    site->sum = gp_add_saturated(site->sum, amount);
    ranks->sum = gp_add_saturated(ranks->sum, amount);
  }
  return 0;
}

static int compare_sites(const void *a, const void *b)
{
  const gp_ranks_site_t *x = a, *y = b;
  return x->sum != y->sum ? (x->sum < y->sum ? 1 : -1) : strcmp(x->name, y->name);
}

static int compare_ranks(const void *a, const void *b)
{
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Returns true if each file has a rank number, and no two files have the same. */
static bool has_ranks(const gp_sites_ranks_t *ranks)
{
  int64_t *numbers = malloc(ranks->file_count * sizeof(*numbers));
  bool good = numbers;

  for (size_t i = 0; numbers && i < ranks->file_count; i++)
    numbers[i] = ranks->files[i].rank;
  if (numbers)
    qsort(numbers, ranks->file_count, sizeof(*numbers), compare_ranks);
  for (size_t i = 0; good && i < ranks->file_count; i++)
    good = numbers[i] >= 0 && (i == 0 || numbers[i] > numbers[i - 1]);
  free(numbers);
  return good;
}

static char *amount_text(const gp_sites_ranks_t *ranks, uint64_t amount, char *buffer)
{
  return ranks->by_count ? gp_number_count(amount, buffer) : gp_size_format(amount, buffer);
}

/* Formats the rank or file number of the smallest or largest amount, or "-" if all files have the same
 * amount. Returns `buffer`. */
static char *number_text(
    const gp_sites_ranks_t *ranks, const gp_ranks_site_t *site, size_t file, bool by_rank, char *buffer)
{
  bool is_telling = site->least != site->most || site->file_count == 1;
  (void)snprintf(buffer, GP_NUMBER_BYTES, "-");
  if (is_telling)
    (void)snprintf(
        buffer, GP_NUMBER_BYTES, "%lld", by_rank ? (long long)ranks->files[file].rank : (long long)file + 1);
  return buffer;
}

static void add_site(
    const gp_sites_ranks_t *ranks, const gp_ranks_site_t *site, bool by_rank, gp_table_t *table)
{
  char sum[GP_NUMBER_BYTES], least[2][GP_NUMBER_BYTES], most[2][GP_NUMBER_BYTES];
  gp_table_row(table, amount_text(ranks, site->sum, sum),
      GP_AS_PERCENT((double)site->sum / (double)ranks->sum), GP_AS_COUNT(site->file_count),
      amount_text(ranks, site->least, least[0]),
      number_text(ranks, site, site->least_file, by_rank, least[1]), amount_text(ranks, site->most, most[0]),
      number_text(ranks, site, site->most_file, by_rank, most[1]), site->name, NULL);
}

void gp_sites_ranks_print(gp_sites_ranks_t *ranks, uint64_t most, gp_output_t *output)
{
  char sum[GP_NUMBER_BYTES], text[320];
  bool by_rank = has_ranks(ranks);
  size_t shown = 0;
  gp_table_t table = {.output = output, .indent = "", .format = ranks->wide ? "rrrrrrrw" : "rrrrrrrn"};

  if (!ranks->count) {
    fputs("Nothing of what was selected asked for device memory.\n", output->stream);
    return;
  }
  qsort(ranks->sites, ranks->count, sizeof(*ranks->sites), compare_sites);
  (void)snprintf(text, sizeof(text), "%s: %s in all %s", ranks->heading, amount_text(ranks, ranks->sum, sum),
      GP_AS_PLURAL(ranks->file_count, "snapshot"));
  gp_output_wrap(output->stream, "", "", text);
  if (!by_rank)
    gp_output_wrap(output->stream, "", "",
        "Files are numbered in their order, from 1, because not every one has a rank of its own.");
  fputc('\n', output->stream);
  gp_table_row(&table, "flat", "flat%", by_rank ? "ranks" : "files", "least", by_rank ? "rank" : "file",
      "most", by_rank ? "rank" : "file", ranks->by, NULL);
  for (; shown < ranks->count && (most == 0 || shown < most); shown++)
    add_site(ranks, &ranks->sites[shown], by_rank, &table);
  gp_table_print(&table);
  if (shown < ranks->count)
    fprintf(
        output->stream, "and %s with less; -n 0 shows all\n", GP_AS_PLURAL(ranks->count - shown, "other"));
  gp_report_next(output, "sites", ranks->files[ranks->sites[0].most_file].file, "");
  fputs("  or, of each file: --full\n", output->stream);
}

void gp_sites_ranks_fini(gp_sites_ranks_t *ranks)
{
  for (size_t i = 0; i < ranks->count; i++)
    free(ranks->sites[i].name);
  for (size_t i = 0; i < ranks->file_count; i++)
    free(ranks->files[i].file);
  free(ranks->sites);
  free(ranks->files);
  gp_hash_index_fini(&ranks->by_name);
  *ranks = (gp_sites_ranks_t){.count = 0};
}
