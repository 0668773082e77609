/* Reads loaded programs and libraries, from within dl_iterate_phdr. No function here calls the loader (dlsym,
 * dladdr, dlopen): a library's constructor may hold the loader's lock while it waits for this thread. */
#ifndef GP_BASE_OBJECTS_H
#define GP_BASE_OBJECTS_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* A loaded program or library. The pointers are valid while the object is loaded. */
typedef struct gp_object {
  const char *begin; /* start of the object's memory */
  const char *end;
  ElfW(Addr) base;
  const ElfW(Dyn) * dynamic;
  const ElfW(Sym) * symbols;
  const char *strings;
  const uint32_t *gnu_hash; /* NULL: the object has no such table */
  const uint32_t *sysv_hash;
  const ElfW(Verneed) * needs; /* required versions of symbols; NULL: none */
  const char *soname;          /* "": none */
  bool has_versions;           /* the object's own definitions have versions */
  bool stays;                  /* never unloaded, because it was linked with DF_1_NODELETE */
} gp_object_t;

/* Reads an object into *ret_object. Returns false if the object has no dynamic symbols. */
bool gp_object_read(const struct dl_phdr_info *info, gp_object_t *ret_object);

/* Returns true if `address` is in the object's memory. */
static inline bool gp_object_has(const gp_object_t *object, const void *address)
{
  return (const char *)address >= object->begin && (const char *)address < object->end;
}

/* Returns the object's own definition of the function or variable `name`, in any version, or NULL if there is
 * none. The address is the object's base plus st_value. */
const ElfW(Sym) * gp_object_symbol(const gp_object_t *object, const char *name);

/* Finds the object's own definition of the function `name`, in any version. Returns false if there is none.
 * *ret_address is NULL for an indirect function, whose address only the loader knows. */
bool gp_object_defines(const gp_object_t *object, const char *name, void **ret_address);

/* Returns true if the object is linked to the library `soname`. */
bool gp_object_needs(const gp_object_t *object, const char *soname);

/* Returns the version of the symbols that the object needs from the library `soname`, or NULL if there is
 * none. */
const char *gp_object_needed_version(const gp_object_t *object, const char *soname);

#endif
