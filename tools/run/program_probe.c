#include "tools/run/program_probe.h"

#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "pool/util/path.h"
#include "tools/run/launch.h"

#define PROGRAM_HEADERS_MOST 512
#define HEAD_BYTES           512

typedef struct elf_facts {
  bool is_elf;
  bool is_64;
  bool is_program; /* executable or PIE, not verified */
  bool has_interpreter;
  unsigned machine;
  unsigned char data; /* byte order */
  char interpreter[256];
} elf_facts_t;

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
  return offset <= INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* On this machine's architecture ELF files are 64-bit; of others the identification is enough. */
static void read_elf(int fd, elf_facts_t *ret_facts)
{
  elf_facts_t facts = {0};
  Elf64_Ehdr header = {0};

  if (!read_at(fd, header.e_ident, EI_NIDENT, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    goto out;
  facts.is_elf = true;
  facts.is_64 = header.e_ident[EI_CLASS] == ELFCLASS64;
  facts.data = header.e_ident[EI_DATA];
  if (!facts.is_64 || !read_at(fd, &header, sizeof(header), 0))
    goto out;
  facts.machine = header.e_machine;
  facts.is_program = header.e_phentsize == sizeof(Elf64_Phdr) && header.e_phnum <= PROGRAM_HEADERS_MOST;
  for (unsigned i = 0; facts.is_program && i < header.e_phnum; i++) {
    Elf64_Phdr segment;
    if (!read_at(fd, &segment, sizeof(segment), header.e_phoff + i * sizeof(segment)))
      break;
    if (segment.p_type != PT_INTERP)
      continue;
    facts.has_interpreter = true;
    size_t bytes =
        segment.p_filesz < sizeof(facts.interpreter) ? segment.p_filesz : sizeof(facts.interpreter) - 1;
    if (!read_at(fd, facts.interpreter, bytes, segment.p_offset))
      facts.interpreter[0] = '\0';
  }
out:
  *ret_facts = facts;
}

static void read_elf_file(const char *path, elf_facts_t *ret_facts)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  *ret_facts = (elf_facts_t){0};
  if (fd < 0)
    return;
  read_elf(fd, ret_facts);
  (void)close(fd); /* only read */
}

static const char *base_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Finds the program that a "#!" line names; for "#!/usr/bin/env NAME", the program that env would find. */
static bool script_interpreter(int fd, char *buffer, size_t capacity)
{
  char head[HEAD_BYTES];
  ssize_t length = pread(fd, head, sizeof(head) - 1, 0);
  if (length < 3 || head[0] != '#' || head[1] != '!')
    return false;
  head[length] = '\0';
  head[strcspn(head, "\n")] = '\0';
  char *save;
  char *program = strtok_r(head + 2, " \t", &save);
  if (!program)
    return false;
  if (strcmp(base_name(program), "env") == 0) {
    char *word = strtok_r(NULL, " \t", &save);
    while (word && (word[0] == '-' || strchr(word, '=')))
      word = strtok_r(NULL, " \t", &save);
    if (word && gp_launch_find(word, buffer, capacity) == 0)
      return true;
  }
  return (size_t)snprintf(buffer, capacity, "%s", program) < capacity;
}

static void probe_elf(
    const char *what, const elf_facts_t *facts, const char *library, char *buffer, size_t capacity)
{
  elf_facts_t ours, own;
  read_elf_file(library, &ours);
  read_elf_file("/proc/self/exe", &own);
  if (!facts->is_64)
    snprintf(buffer, capacity, "%s is a 32-bit program; the library is 64-bit", what);
  else if (ours.is_elf && (facts->machine != ours.machine || facts->data != ours.data))
    snprintf(buffer, capacity, "%s is built for another kind of processor than the library", what);
  else if (!facts->has_interpreter)
    snprintf(buffer, capacity, "%s is statically linked, so that no library can be preloaded", what);
  else if (own.has_interpreter && strcmp(base_name(facts->interpreter), base_name(own.interpreter)) != 0)
    snprintf(buffer, capacity, "%s brings its own loader (%s), which does not take this library", what,
        facts->interpreter);
}

void gp_program_probe(const char *path, const char *library, char *buffer, size_t capacity)
{
  char interpreter[GP_PATH_BYTES];
  elf_facts_t facts;
  struct stat status;

  buffer[0] = '\0';
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return;
  read_elf(fd, &facts);
  if (facts.is_elf) {
    if (fstat(fd, &status) == 0 && status.st_mode & (S_ISUID | S_ISGID))
      snprintf(buffer, capacity, "it is a set%cid program, and the loader preloads nothing into those",
          status.st_mode & S_ISUID ? 'u' : 'g');
    else if (fgetxattr(fd, "security.capability", NULL, 0) > 0)
      snprintf(
          buffer, capacity, "its file has capabilities, and the loader preloads nothing into such programs");
    else
      probe_elf("it", &facts, library, buffer, capacity);
  } else if (script_interpreter(fd, interpreter, sizeof(interpreter))) {
    elf_facts_t of_interpreter;
    char what[GP_PATH_BYTES + 32];
    read_elf_file(interpreter, &of_interpreter);
    snprintf(what, sizeof(what), "its interpreter %s", interpreter);
    if (of_interpreter.is_elf)
      probe_elf(what, &of_interpreter, library, buffer, capacity);
    if (!buffer[0])
      snprintf(buffer, capacity, "it is a script for %s, and perhaps nothing that it started uses CUDA",
          interpreter);
  }
  (void)close(fd); /* only read */
}
