/*
 * cuGetProcAddress: from a base name, a version and flags to one of the exported variants.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

/* The table of addresses. The library is linked with -Bsymbolic, so these are its own even below an
 * interposer. The symbols get other names in C, as cuda.h may or may not declare them. */
#define SIM_API(name, base, since, flags) extern char sim_entry_##name[] __asm__(#name);
#include "api.def"
#undef SIM_API
static void *const exported[SIM_API_COUNT] = {
#define SIM_API(name, base, since, flags) sim_entry_##name,
#include "api.def"
#undef SIM_API
};

/*
 * SIMCUDA_PROC_ADDRESS=distinct: pointers that are not the exported addresses, as a driver may return them.
 */
#if defined __x86_64__
#define JUMP "jmp "
#elif defined __aarch64__
#define JUMP "b "
#endif
#ifdef JUMP
#define SIM_API(name, base, since, flags)                                                                    \
  void sim_thunk_##name(void);                                                                               \
  __asm__(".pushsection .text\n.globl sim_thunk_" #name "\n.hidden sim_thunk_" #name                         \
          "\n.type sim_thunk_" #name ",%function\nsim_thunk_" #name ": " JUMP #name "\n.popsection\n");
#include "api.def"
#undef SIM_API
static void *const thunks[SIM_API_COUNT] = {
#define SIM_API(name, base, since, flags) (void *)sim_thunk_##name,
#include "api.def"
#undef SIM_API
};
#else
#define thunks exported
#endif

static enum sim_api sorted[SIM_API_COUNT]; /* by base name */

static int compare(const void *a, const void *b)
{
  const enum sim_api *x = a, *y = b;
  int order = strcmp(sim_api_table[*x].base, sim_api_table[*y].base);
  return order ? order : (int)*x - (int)*y;
}

static unsigned first_of(const char *base)
{
  static bool done;
  if (!done) {
    for (unsigned i = 0; i < SIM_API_COUNT; i++)
      sorted[i] = (enum sim_api)i;
    qsort(sorted, SIM_API_COUNT, sizeof sorted[0], compare);
    done = true;
  }
  unsigned low = 0, high = SIM_API_COUNT;
  while (low < high) {
    unsigned middle = (low + high) / 2;
    if (strcmp(sim_api_table[sorted[middle]].base, base) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Whether `twin` is the per-thread variant of `plain`: the same name and a suffix */
static bool is_twin(const sim_api_t *twin, const sim_api_t *plain)
{
  size_t n = strlen(plain->name);
  return (twin->flags & SIM_F_PTDS) && strncmp(twin->name, plain->name, n) == 0 &&
         (strcmp(twin->name + n, "_ptsz") == 0 || strcmp(twin->name + n, "_ptds") == 0);
}

/* Names that end in _v2 without a macro that hides it in cuda.h are answered, too: NVIDIA's Python bindings
 * ask for them. */
static const sim_api_t *named_exactly(const char *symbol)
{
  for (unsigned i = 0; i < SIM_API_COUNT; i++)
    if (sim_api_table[i].since >= 13000 && strcmp(sim_api_table[i].name, symbol) == 0)
      return &sim_api_table[i];
  return NULL;
}

/*
 * "If the specified CUDA version is greater than or equal to the CUDA version in which the driver symbol was
 * introduced, this API will return the function pointer to the corresponding versioned function. If the
 * specified CUDA version is greater than the driver version, the API will return CUDA_ERROR_INVALID_VALUE.
 * ... The API will return CUDA_SUCCESS and set the returned pfn to NULL if ... no ABI compatible driver
 * function exists for the specified cudaVersion or if the driver symbol is invalid." (cuda.h)
 */
static CUresult resolve(
    const char *symbol, void **ret, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *ret_status)
{
  if (!symbol || !ret || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM || version > sim_knobs.driver)
    return CUDA_ERROR_INVALID_VALUE;
  *ret = NULL;
  const sim_api_t *best = NULL;
  bool known = false;
  unsigned first = first_of(symbol);
  for (unsigned i = first; i < SIM_API_COUNT && strcmp(sim_api_table[sorted[i]].base, symbol) == 0; i++) {
    const sim_api_t *api = &sim_api_table[sorted[i]];
    if (api->flags & SIM_F_PTDS || api->since > sim_knobs.driver)
      continue;
    known = true;
    if (api->since <= version && (!best || api->since > best->since))
      best = api;
  }
  if (!known) {
    best = named_exactly(symbol);
    known = best && best->since <= sim_knobs.driver;
    best = known && best->since <= version ? best : NULL;
    first = best ? first_of(best->base) : first;
  }
  for (unsigned i = first; best && flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM &&
                           i < SIM_API_COUNT && strcmp(sim_api_table[sorted[i]].base, best->base) == 0;
       i++) {
    const sim_api_t *api = &sim_api_table[sorted[i]];
    if (is_twin(api, best) && api->since <= version) {
      best = api;
      break;
    }
  }
  if (best)
    *ret = (sim_knobs.distinct ? thunks : exported)[best - sim_api_table];
  if (ret_status)
    *ret_status = best    ? CU_GET_PROC_ADDRESS_SUCCESS
                  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                          : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return CUDA_SUCCESS;
}

#define LOG "\"%s\" %d %llu", symbol ? symbol : "", version, (unsigned long long)flags

SIM_FN(cuGetProcAddress, (const char *symbol, void **ret, int version, cuuint64_t flags),
    resolve(symbol, ret, version, flags, NULL), LOG)
SIM_FN(cuGetProcAddress_v2,
    (const char *symbol, void **ret, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status),
    resolve(symbol, ret, version, flags, status), LOG)

/* Private tables of NVIDIA's own libraries: there are none here. */
static CUresult export_table(const void **ret)
{
  if (ret)
    *ret = NULL;
  return CUDA_ERROR_NOT_SUPPORTED;
}

SIM_FN(cuGetExportTable, (const void **ret, const CUuuid *id), export_table(ret), " ")
