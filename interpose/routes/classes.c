#include "interpose/routes/classes.h"

#include <stddef.h>
#include <string.h>

#include "interpose/cuda_abi.h"
#include "base/assert.h"

typedef enum kind {
#define KIND(class, modes, effect) KIND_##class,
#include "interpose/routes/classes.def"
} kind_t;

static const unsigned char effect_of_kind[] = {
#define KIND(class, modes, effect) [KIND_##class] = GP_EFFECT_##effect,
#include "interpose/routes/classes.def"
};

typedef struct entry {
  const char *symbol;
  unsigned short since;
  unsigned char kind;
} entry_t;

static const entry_t entries[] = {
#define CLASS(symbol, since, kind) {#symbol, since, KIND_##kind},
#include "interpose/routes/classes.def"
};

#define ENTRY_COUNT (sizeof(entries) / sizeof(entries[0]))

/* Returns the length of a name without "_v2", "_ptsz" and "_ptds", which mark variants of one function. */
static size_t base_length(const char *name)
{
  size_t length = strlen(name);

  if (length > 5 && (strcmp(name + length - 5, "_ptsz") == 0 || strcmp(name + length - 5, "_ptds") == 0))
    length -= 5;
  if (length > 3 && name[length - 3] == '_' && name[length - 2] == 'v' && name[length - 1] >= '0' &&
      name[length - 1] <= '9')
    length -= 3;
  return length;
}

static bool is_sorted(void)
{
  for (size_t i = 1; i < ENTRY_COUNT; i++)
    if (strcmp(entries[i - 1].symbol, entries[i].symbol) >= 0)
      return false;
  return true;
}

/* Returns the index of the first entry that begins with `text` or sorts after it. The table is sorted by
 * bytes. */
static size_t first_with(const char *text, size_t length)
{
  size_t low = 0;
  size_t high = ENTRY_COUNT;

  gp_assert_full(is_sorted());
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (strncmp(entries[middle].symbol, text, length) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static const entry_t *find(const char *symbol)
{
  size_t i = first_with(symbol, strlen(symbol) + 1);
  return i < ENTRY_COUNT && strcmp(entries[i].symbol, symbol) == 0 ? &entries[i] : NULL;
}

/* Returns the newest variant of the function in CUDA `version`. All variants of a function have the same
 * class. The first variants are from CUDA 2, so a known function has one in every version. */
static const entry_t *find_variant(const char *name, int version)
{
  const size_t length = base_length(name);
  const entry_t *newest = NULL;

  for (size_t i = first_with(name, length); i < ENTRY_COUNT && strncmp(entries[i].symbol, name, length) == 0;
       i++)
    if (base_length(entries[i].symbol) == length && entries[i].since <= version &&
        (!newest || entries[i].since > newest->since))
      newest = &entries[i];
  return newest;
}

static const entry_t *find_family(const char *name)
{
  return find_variant(name, GP_NEWEST_CUDA_VERSION);
}

bool gp_class_is_known(const char *symbol)
{
  const entry_t *entry = symbol ? find(symbol) : NULL;
  return entry && entry->kind != KIND_UNSURE;
}

bool gp_class_is_unsure(const char *name, int version)
{
  const entry_t *variant = find_variant(name, version);
  return variant && variant->kind == KIND_UNSURE;
}

bool gp_class_has_family(const char *name)
{
  return name && find_family(name);
}

static bool begins_with(const char *name, const char *text)
{
  return strncmp(name, text, strlen(text)) == 0;
}

/* Returns the effect of a function without any variant in the tables, judged by its name. The functions of
 * OpenGL, EGL and VDPAU (cudaGL.h, cudaEGL.h, cudaVDPAU.h) register and map memory of other owners; mapping
 * and presenting are work in streams. */
static gp_effect_t effect_of_name(const char *name)
{
  if (strstr(name, "GetProcAddress") || strstr(name, "Free"))
    return GP_EFFECT_ENDS;
  if (strstr(name, "Capture")) /* only a capture of a stream can be queried */
    return begins_with(name, "cuStream") ? GP_EFFECT_CAPTURE : GP_EFFECT_ENDS;
  if (strstr(name, "Ctx")) {
    bool ends =
        strstr(name, "Destroy") || strstr(name, "Detach") || strstr(name, "Release") || strstr(name, "Reset");
    bool begins = begins_with(name, "cuGL") || begins_with(name, "cuVDPAU");
    return ends ? GP_EFFECT_ENDS : begins ? GP_EFFECT_CONTEXT : GP_EFFECT_ANYTHING;
  }
  if (begins_with(name, "cuGraphicsGL") || begins_with(name, "cuGraphicsEGL") ||
      begins_with(name, "cuGraphicsVDPAU") || begins_with(name, "cuGraphicsResource") ||
      strcmp(name, "cuGLInit") == 0 || strcmp(name, "cuGLGetDevices") == 0 ||
      strcmp(name, "cuGLGetDevices_v2") == 0 || strcmp(name, "cuVDPAUGetDevice") == 0)
    return GP_EFFECT_NONE;
  if (begins_with(name, "cuGL") || begins_with(name, "cuEGL") || begins_with(name, "cuEventCreateFromEGL"))
    return GP_EFFECT_WORK;
  if (begins_with(name, "cuDeviceGet") || begins_with(name, "cuDriverGet") || begins_with(name, "cuGetError"))
    return GP_EFFECT_NONE; /* queries about the device and the driver */
  return GP_EFFECT_ANYTHING;
}

gp_effect_t gp_class_effect(const char *name)
{
  const entry_t *family = find_family(name);
  return family ? (gp_effect_t)effect_of_kind[family->kind] : effect_of_name(name);
}

gp_frees_t gp_class_frees(const char *name)
{
  if (base_length(name) == strlen("cuMemFree") && begins_with(name, "cuMemFree"))
    return GP_FREES_POINTER;
  return strstr(name, "Free") || strstr(name, "Unmap") ? GP_FREES_OTHERWISE : GP_FREES_NOTHING;
}
