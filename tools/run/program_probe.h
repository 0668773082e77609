/*
 * Examines a program's file to explain why the program runs without the preload library.
 */
#ifndef GP_TOOLS_PROGRAM_PROBE_H
#define GP_TOOLS_PROGRAM_PROBE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum gp_probed {
  GP_PROBED_NOTHING,    /* the file shows no reason */
  GP_PROBED_FOREIGN,    /* for another ELF class or processor, so the process cannot load the library */
  GP_PROBED_PRIVILEGED, /* setuid or setgid, or has file capabilities */
  GP_PROBED_STATIC,
  GP_PROBED_OWN_LOADER, /* uses the loader of another C library, for example musl */
  GP_PROBED_SCRIPT,     /* a script whose interpreter shows no reason */
} gp_probed_t;

/*
 * Examines the executable at `path` and, for a script, its interpreter. Writes a clause such as "it is
 * statically linked, ..." to `buffer`, or "" if the file shows no reason. `library` is the preload library,
 * with which an executable must be compatible.
 */
gp_probed_t gp_program_probe(const char *path, const char *library, char *buffer, size_t capacity);

/* Finds the program in the "#!" line of the script at `path`; for "#!/usr/bin/env NAME", finds the program
 * that env would run. Returns false if the file is not a script. */
bool gp_program_interpreter(const char *path, char *buffer, size_t capacity);

/*
 * Examines ELF files: whether this machine's loader accepts a file, and which functions it defines.
 */

typedef struct gp_elf_facts {
  bool is_elf;
  bool is_64;
  bool has_interpreter;
  unsigned machine;
  unsigned char data; /* byte order */
  char interpreter[256];
} gp_elf_facts_t;

/* Reads the ELF properties of the file at `path`. If the file cannot be read, all members are zero. */
void gp_elf_read_file(const char *path, gp_elf_facts_t *ret_facts);

/* Returns true if one process can load both files: they have the same class, byte order and processor. */
bool gp_elf_is_alike(const gp_elf_facts_t *a, const gp_elf_facts_t *b);

/* Returns the first of `names` (NULL-terminated) that the shared library at `path` defines as a function.
 * Returns NULL if it defines none, or if the file cannot be read. */
const char *gp_elf_defines(const char *path, const char *const *names);

#endif
