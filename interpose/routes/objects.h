/*
 * Programs and libraries as the loader has them, read from within dl_iterate_phdr. No function here asks the
 * loader, whose lock dlsym, dladdr and dlopen take: a library's constructor may hold that and wait for the
 * thread that is here.
 */
#ifndef GP_INTERPOSE_ROUTES_OBJECTS_H
#define GP_INTERPOSE_ROUTES_OBJECTS_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* What points into the object is good while it is loaded. */
typedef struct gp_object {
  const char *begin; /* its memory */
  const char *end;
  ElfW(Addr) base;
  const ElfW(Dyn) * dynamic;
  const ElfW(Sym) * symbols;
  const char *strings;
  const uint32_t *gnu_hash; /* NULL: it has none, as sysv_hash */
  const uint32_t *sysv_hash;
  const ElfW(Verneed) * needs; /* versions; NULL: none */
  const char *soname;          /* "": it has none */
  bool has_versions;           /* of what it defines */
  bool stays;                  /* it was linked not to be unloaded */
} gp_object_t;

/* False: it has no dynamic symbols. */
bool gp_object_read(const struct dl_phdr_info *info, gp_object_t *ret_object);

/* Whether the address is in its memory. */
static inline bool gp_object_has(const gp_object_t *object, const void *address)
{
  return (const char *)address >= object->begin && (const char *)address < object->end;
}

/* Its own definition of the function, in any version. False: none. *ret_address is NULL if only the loader
 * can tell where it is (an indirect function). */
bool gp_object_defines(const gp_object_t *object, const char *name, void **ret_address);

/* It is linked to the library with that soname. */
bool gp_object_needs(const gp_object_t *object, const char *soname);

/* The version of the symbols that it wants of that library. NULL: of none. */
const char *gp_object_needed_version(const gp_object_t *object, const char *soname);

#endif
