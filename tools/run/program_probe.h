/*
 * Finds out from a program's file why it runs without the preload library.
 */
#ifndef GP_TOOLS_PROGRAM_PROBE_H
#define GP_TOOLS_PROGRAM_PROBE_H

#include <stdbool.h>
#include <stddef.h>

typedef enum gp_probed {
  GP_PROBED_NOTHING,    /* the file gives no reason */
  GP_PROBED_FOREIGN,    /* of another class or processor: no library of this kind can be in the process */
  GP_PROBED_PRIVILEGED, /* setuid, setgid, or with capabilities */
  GP_PROBED_STATIC,
  GP_PROBED_OWN_LOADER, /* another C library, for example musl */
  GP_PROBED_SCRIPT,     /* a script whose interpreter gives no reason */
} gp_probed_t;

/*
 * Looks at the executable at path (of a script, also at the interpreter). Writes to buffer a clause such as
 * "it is statically linked, ...", or "" if the file gives no reason. library: the preload library, which
 * shows what an executable must be like.
 */
gp_probed_t gp_program_probe(const char *path, const char *library, char *buffer, size_t capacity);

/* The program that the "#!" line of the script at path names; for "#!/usr/bin/env NAME" the one that env
 * would find. False: it is no script. */
bool gp_program_interpreter(const char *path, char *buffer, size_t capacity);

/*
 * What an ELF file says of itself: whether this machine's loader takes it, and which functions it defines.
 */

typedef struct gp_elf_facts {
  bool is_elf;
  bool is_64;
  bool has_interpreter;
  unsigned machine;
  unsigned char data; /* byte order */
  char interpreter[256];
} gp_elf_facts_t;

/* The same of a path, whose file may be missing. */
void gp_elf_read_file(const char *path, gp_elf_facts_t *ret_facts);

/* True if files of both kinds can be in one process: the same class, byte order and processor. */
bool gp_elf_is_alike(const gp_elf_facts_t *a, const gp_elf_facts_t *b);

/* The first of names (NULL-terminated) that the shared library at path defines as a function; NULL: none,
 * or the file cannot be read. */
const char *gp_elf_defines(const char *path, const char *const *names);

#endif
