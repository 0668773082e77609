/*
 * Classifies the driver's functions by their names: which functions the tables contain (classes.def), and
 * which effects a newer function may have. Look-ups use this module, so none of its functions allocates,
 * locks or calls another library. Any thread.
 */
#ifndef GP_INTERPOSE_ROUTES_CLASSES_H
#define GP_INTERPOSE_ROUTES_CLASSES_H

#include <stdbool.h>

typedef enum gp_effect {
  GP_EFFECT_NONE,      /* nothing that the pool depends on */
  GP_EFFECT_WORK,      /* submits work, or changes what streams and events refer to */
  GP_EFFECT_CONTEXT,   /* like WORK, and another context may be current afterwards */
  GP_EFFECT_UNCOUNTED, /* like WORK, and allocates or frees memory of a size that the call does not show */
  GP_EFFECT_CAPTURE,   /* like WORK, and begins or ends the capture of the stream in its first argument */
  GP_EFFECT_ANYTHING,  /* like CONTEXT, and may make the memory of its arguments accessible to others */
  GP_EFFECT_ENDS,      /* may free memory of the pool, end a context, or return functions that bypass this
                        * library */
} gp_effect_t;

/* Returns true if classes.def has this exported name and its parameters are known. Returns false for NULL. */
bool gp_class_is_known(const char *symbol);

/* Returns true if the tables contain the variant that `name` stands for in CUDA `version`, but do not know
 * its parameters. */
bool gp_class_is_unsure(const char *name, int version);

/* Returns true if classes.def contains any variant of this function; `name` may lack a suffix. */
bool gp_class_has_family(const char *name);

/*
 * Returns the possible effect of a function that is not in the tables, but that a driver exports or
 * cuGetProcAddress returns. A newer variant of a known function has the effect of its family (CUDA's names
 * keep their meaning: cuMemAlloc_v3 allocates). For other functions the name decides; if it is inconclusive,
 * the result is ANYTHING.
 */
gp_effect_t gp_class_effect(const char *name);

/* How an unknown function frees memory, according to its name. */
typedef enum gp_frees {
  GP_FREES_NOTHING,
  GP_FREES_POINTER,   /* like cuMemFree: frees the memory at its first argument at once, whatever the other
                         arguments are */
  GP_FREES_OTHERWISE, /* in another way: stream-ordered, a mapping, several allocations, ... */
} gp_frees_t;

gp_frees_t gp_class_frees(const char *name);

/* Returns true if calls with this effect that no hook sees end pooling: the library would miss the end of a
 * capture or a free of pooled memory. */
static inline bool gp_effect_ends_pooling_unseen(gp_effect_t effect)
{
  return effect == GP_EFFECT_CAPTURE || effect == GP_EFFECT_ENDS;
}

#endif
