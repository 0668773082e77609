/*
 * Classifies the driver's functions by their names: which functions the tables have (classes.def), and what
 * a call of a newer one may do. Look-ups use these functions, so none of them allocates, locks or calls
 * another library. Any thread.
 */
#ifndef GP_INTERPOSE_ROUTES_CLASSES_H
#define GP_INTERPOSE_ROUTES_CLASSES_H

#include <stdbool.h>

typedef enum gp_effect {
  GP_EFFECT_NONE,      /* nothing that the pool depends on */
  GP_EFFECT_WORK,      /* submits work, or changes what streams and events stand for */
  GP_EFFECT_CONTEXT,   /* the same, and another context may be current afterwards */
  GP_EFFECT_UNCOUNTED, /* as WORK, and takes or gives back memory whose size the call does not show */
  GP_EFFECT_CAPTURE,   /* as WORK, and begins or ends the capture of the stream in its first argument */
  GP_EFFECT_ANYTHING,  /* as CONTEXT, and may lend the memory of its arguments to others */
  GP_EFFECT_ENDS, /* may free memory of the pool, end a context, or hand out functions that pass this library
                   */
} gp_effect_t;

/* True if classes.def has that exported name, and its parameters are known. NULL: false. */
bool gp_class_is_known(const char *symbol);

/* True if the tables have the variant that CUDA of that version means by the name, but not its parameters. */
bool gp_class_is_unsure(const char *name, int version);

/* True if classes.def has some variant of that name, which may be without a suffix. */
bool gp_class_has_family(const char *name);

/*
 * The possible effect of a call of a function with that name which is not in the tables: a driver
 * exports it, or cuGetProcAddress hands it out. A newer variant does what its family does (CUDA's
 * names keep their meaning: cuMemAlloc_v3 allocates). For other functions the name decides; if it does
 * not, the answer is ANYTHING.
 */
gp_effect_t gp_class_effect(const char *name);

/* How such a function frees memory, by its name. */
typedef enum gp_frees {
  GP_FREES_NOTHING,
  GP_FREES_POINTER,   /* as cuMemFree: at once, the memory at its first argument, whatever the others */
  GP_FREES_OTHERWISE, /* in the order of a stream, or a mapping, several allocations, ... */
} gp_frees_t;

gp_frees_t gp_class_frees(const char *name);

/* True if unseen calls with that effect end pooling, because the library would miss the end of a capture or
 * a free of pooled memory. */
static inline bool gp_effect_ends_pooling_unseen(gp_effect_t effect)
{
  return effect == GP_EFFECT_CAPTURE || effect == GP_EFFECT_ENDS;
}

#endif
