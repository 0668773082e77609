#include "tools/model/finding_judges.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tools/model/component.h"
#include "tools/saturated.h"
#include "tools/output.h"

#define PIECE                                                                                                \
  (2 * GP_MIB) /* PyTorch's kSmallBuffer; its larger pieces, from 20 MiB on, are all multiples of PIECE */
/* Share of all allocations that are pieces. A cache makes a larger share; some of its tensors are small. */
#define PIECE_SHARE 0.95
#define CACHE_SHARE 0.5
#define CACHE_BYTES (64 * GP_MIB)

static const struct {
  const char *name; /* the component's name begins with this */
  const char *remedy;
} frameworks[] = {
#define FRAMEWORK(name, modules, library, settings, remedy) {name, remedy},
#include "tools/model/framework.def"
};
#define FRAMEWORK_COUNT (sizeof(frameworks) / sizeof(frameworks[0]))

typedef struct held {
  uint64_t bytes; /* bytes of the component in use at the device's peak */
  size_t count;   /* number of all allocations of the component */
  size_t pieces;  /* number of allocations whose size is a multiple of PIECE */
} held_t;

static const char *remedy_of(const char *component)
{
  for (size_t i = 0; i < FRAMEWORK_COUNT; i++) {
    if (strncmp(component, frameworks[i].name, strlen(frameworks[i].name)) == 0)
      return frameworks[i].remedy;
  }
  return NULL;
}

/* Returns the component that requested the memory. If the program's code made the allocation and a framework
 * with its own allocator is on the stack, returns the framework. Otherwise returns the stack's component. */
static gp_component_t asker_of(const gp_snapshot_t *snapshot, int stack)
{
  bool there[GP_COMPONENTS];
  gp_component_t own = gp_component_of_stack(snapshot, stack);

  gp_component_callers(snapshot, stack, there);
  for (int i = 0; i < GP_COMPONENTS && own == GP_COMPONENT_PROGRAM; i++) {
    if (there[i] && remedy_of(gp_component_name((gp_component_t)i)))
      return (gp_component_t)i;
  }
  return own;
}

/* Sums the pooled allocations of each component in `held`. askers[i] is the component of stack i; the last
 * element is for memory without a stack. Returns the sum of all components at the peak. */
static uint64_t sum_peak(const gp_lifetimes_t *lifetimes, const gp_component_use_t *use,
    const gp_component_t *askers, held_t *held)
{
  size_t none = lifetimes->snapshot->stacks.count;
  uint64_t sum = 0;

  for (size_t i = 0; i < lifetimes->life_count; i++) {
    const gp_life_t *life = &lifetimes->lives[i];
    if (life->kind != GP_LIFE_POOLED || life->device != use->device)
      continue;
    held_t *of = &held[askers[life->stack >= 0 ? (size_t)life->stack : none]];
    of->count++;
    of->pieces += life->requested > 0 && life->requested % PIECE == 0;
    if (!gp_moments_hold(&use->sites.peak, life))
      continue;
    of->bytes = gp_add_saturated(of->bytes, life->requested);
    sum = gp_add_saturated(sum, life->requested);
  }
  return sum;
}

static void judge(gp_findings_t *findings, const gp_component_use_t *use, const gp_component_t *askers)
{
  held_t held[GP_COMPONENTS] = {{0, 0, 0}};
  uint64_t sum = sum_peak(&findings->summary->lifetimes, use, askers, held);

  for (int i = 0; i < GP_COMPONENTS; i++) {
    const char *name = gp_component_name((gp_component_t)i), *remedy = remedy_of(name);
    if (!remedy || held[i].bytes < CACHE_BYTES || (double)held[i].bytes < CACHE_SHARE * (double)sum ||
        (double)held[i].pieces < PIECE_SHARE * (double)held[i].count)
      continue;
    gp_finding_t *finding = gp_findings_say(findings, GP_FINDING(framework), use->device, GP_AS_SIZE(sum),
        use->device, gp_findings_peak(findings), name, GP_AS_SIZE(held[i].bytes));
    gp_findings_advise(findings, finding, GP_ADVICE(framework), remedy);
  }
}

void gp_findings_judge_frameworks(gp_findings_t *findings)
{
  const gp_summary_t *summary = findings->summary;
  const gp_snapshot_t *snapshot = summary->lifetimes.snapshot;
  size_t stacks = snapshot->stacks.count;

  if (snapshot->is_pytorch)
    return;
  gp_component_t *askers = malloc((stacks + 1) * sizeof(*askers));
  for (size_t i = 0; askers && i <= stacks; i++)
    askers[i] = asker_of(snapshot, i < stacks ? (int)i : -1);
  for (size_t i = 0; askers && i < summary->device_count; i++)
    judge(findings, &summary->devices[i].components, askers);
  findings->out_of_memory |= !askers;
  free(askers);
}
