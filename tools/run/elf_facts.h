/*
 * What an ELF file says of itself: whether this machine's loader takes it, and which functions it defines.
 */
#ifndef GP_TOOLS_ELF_FACTS_H
#define GP_TOOLS_ELF_FACTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct gp_elf_facts {
  bool is_elf;
  bool is_64;
  bool has_interpreter;
  unsigned machine;
  unsigned char data; /* byte order */
  char interpreter[256];
} gp_elf_facts_t;

/* Reads the file open at fd. All members are zero if it is no ELF file. */
void gp_elf_read(int fd, gp_elf_facts_t *ret_facts);

/* The same of a path, whose file may be missing. */
void gp_elf_read_file(const char *path, gp_elf_facts_t *ret_facts);

/* True if files of both kinds can be in one process: the same class, byte order and processor. */
bool gp_elf_is_alike(const gp_elf_facts_t *a, const gp_elf_facts_t *b);

/* The first of names (NULL-terminated) that the shared library at path defines as a function; NULL: none,
 * or the file cannot be read. */
const char *gp_elf_defines(const char *path, const char *const *names);

#endif
