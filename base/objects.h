/* Loaded programs and libraries, read from within dl_iterate_phdr. No function here calls the loader
 * (dlsym, dladdr, dlopen), because a library's constructor may hold the loader's lock while it waits for
 * this thread. */
#ifndef GP_BASE_OBJECTS_H
#define GP_BASE_OBJECTS_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* Pointers into the object are valid while the object is loaded. */
typedef struct gp_object {
  const char *begin; /* start of its memory */
  const char *end;
  ElfW(Addr) base;
  const ElfW(Dyn) * dynamic;
  const ElfW(Sym) * symbols;
  const char *strings;
  const uint32_t *gnu_hash; /* NULL: none; also for sysv_hash */
  const uint32_t *sysv_hash;
  const ElfW(Verneed) * needs; /* required symbol versions; NULL: none */
  const char *soname;          /* "": none */
  bool has_versions;           /* its own definitions have versions */
  bool stays;                  /* linked so that it is never unloaded (DF_1_NODELETE) */
} gp_object_t;

/* Reads an object. Returns false if it has no dynamic symbols. */
bool gp_object_read(const struct dl_phdr_info *info, gp_object_t *ret_object);

/* Returns true if the address is in the object's memory. */
static inline bool gp_object_has(const gp_object_t *object, const void *address)
{
  return (const char *)address >= object->begin && (const char *)address < object->end;
}

/* Returns the object's own definition of the function or variable `name`, in any version, or NULL. Its
 * address is base plus st_value. */
const ElfW(Sym) * gp_object_symbol(const gp_object_t *object, const char *name);

/* Finds the object's own definition of the function, in any version. Returns false if there is none.
 * *ret_address is NULL if only the loader knows the address (an indirect function). */
bool gp_object_defines(const gp_object_t *object, const char *name, void **ret_address);

/* Returns true if the object is linked to the library with that soname. */
bool gp_object_needs(const gp_object_t *object, const char *soname);

/* Returns the version of the symbols that the object needs from that library, or NULL if there is none. */
const char *gp_object_needed_version(const gp_object_t *object, const char *soname);

#endif
