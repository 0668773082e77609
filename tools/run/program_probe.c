#include "tools/run/program_probe.h"

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/path.h"
#include "tools/run/launch.h"
#include "tools/shorten.h"

#define PROGRAM_HEADERS_MOST 512

static bool read_at(int fd, void *to, size_t bytes, uint64_t offset)
{
  return offset <= INT64_MAX && pread(fd, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* Reads the ELF properties of the open file `fd`. If the file is not ELF, all members are zero. All ELF files
 * for this machine are 64-bit; for other files the identification bytes are enough. */
static void gp_elf_read(int fd, gp_elf_facts_t *ret_facts)
{
  gp_elf_facts_t facts = {0};
  Elf64_Ehdr header = {0};

  if (!read_at(fd, header.e_ident, EI_NIDENT, 0) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    goto out;
  facts.is_elf = true;
  facts.is_64 = header.e_ident[EI_CLASS] == ELFCLASS64;
  facts.data = header.e_ident[EI_DATA];
  if (!facts.is_64 || !read_at(fd, &header, sizeof(header), 0))
    goto out;
  facts.machine = header.e_machine;
  bool is_whole = header.e_phentsize == sizeof(Elf64_Phdr) && header.e_phnum <= PROGRAM_HEADERS_MOST;
  for (unsigned i = 0; is_whole && i < header.e_phnum; i++) {
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

void gp_elf_read_file(const char *path, gp_elf_facts_t *ret_facts)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  *ret_facts = (gp_elf_facts_t){0};
  if (fd < 0)
    return;
  gp_elf_read(fd, ret_facts);
  (void)close(fd); /* read-only, so no data is lost */
}

bool gp_elf_is_alike(const gp_elf_facts_t *a, const gp_elf_facts_t *b)
{
  return a->is_elf && b->is_elf && a->is_64 == b->is_64 && a->data == b->data && a->machine == b->machine;
}

/* A file that is mapped into memory. Its content is not trusted, so each offset is checked. */
typedef struct image {
  const char *bytes;
  size_t size;
} image_t;

/* Returns the address of `count` > 0 items of `bytes` each at `offset`, or NULL if outside of the file. */
static const void *part(const image_t *image, uint64_t offset, uint64_t count, size_t bytes)
{
  bool is_inside =
      count > 0 && offset % 8 == 0 && offset <= image->size && count <= (image->size - offset) / bytes;
  return is_inside ? image->bytes + offset : NULL;
}

static bool is_name(const image_t *image, const Elf64_Shdr *strings, uint64_t offset, const char *name)
{
  size_t length = strlen(name) + 1;
  return strings->sh_offset <= image->size && strings->sh_size <= image->size - strings->sh_offset &&
         offset <= strings->sh_size && length <= strings->sh_size - offset &&
         memcmp(image->bytes + strings->sh_offset + offset, name, length) == 0;
}

static const char *find_symbol(const image_t *image, const char *const *names)
{
  const Elf64_Ehdr *header = part(image, 0, 1, sizeof(*header));
  const Elf64_Shdr *sections;

  if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64)
    return NULL;
  sections = part(image, header->e_shoff, header->e_shnum, sizeof(*sections));
  for (unsigned i = 0; sections && i < header->e_shnum; i++) {
    if (sections[i].sh_type != SHT_DYNSYM || sections[i].sh_link >= header->e_shnum)
      continue;
    uint64_t count = sections[i].sh_size / sizeof(Elf64_Sym);
    const Elf64_Sym *symbols = part(image, sections[i].sh_offset, count, sizeof(*symbols));
    for (uint64_t k = 0; symbols && k < count; k++) {
      if (symbols[k].st_shndx == SHN_UNDEF)
        continue;
      for (const char *const *name = names; *name; name++)
        if (is_name(image, &sections[sections[i].sh_link], symbols[k].st_name, *name))
          return *name;
    }
  }
  return NULL;
}

const char *gp_elf_defines(const char *path, const char *const *names)
{
  const char *found = NULL;
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

  if (fd < 0)
    return NULL;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    image_t image = {.size = (size_t)status.st_size};
    void *bytes = mmap(NULL, image.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes != MAP_FAILED) {
      image.bytes = bytes;
      found = find_symbol(&image, names);
      (void)munmap(bytes, image.size); /* cannot fail */
    }
  }
  (void)close(fd); /* read-only, so no data is lost */
  return found;
}

#define HEAD_BYTES 512

/* Finds the program in a "#!" line; for "#!/usr/bin/env NAME", finds the program that env would run. Returns
 * false if there is no such program. */
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
  if (strcmp(gp_base_name(program), "env") == 0) {
    char *word = strtok_r(NULL, " \t", &save);
    while (word && (word[0] == '-' || strchr(word, '=')))
      word = strtok_r(NULL, " \t", &save);
    if (word && gp_launch_find(word, buffer, capacity) == 0)
      return true;
  }
  return (size_t)snprintf(buffer, capacity, "%s", program) < capacity;
}

bool gp_program_interpreter(const char *path, char *buffer, size_t capacity)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  bool is_script = fd >= 0 && script_interpreter(fd, buffer, capacity);
  if (fd >= 0)
    (void)close(fd); /* read-only, so no data is lost */
  return is_script;
}

static gp_probed_t probe_elf(
    const char *what, const gp_elf_facts_t *facts, const char *library, char *buffer, size_t capacity)
{
  gp_elf_facts_t ours, own;
  gp_elf_read_file(library, &ours);
  gp_elf_read_file("/proc/self/exe", &own);
  if (!facts->is_64) {
    snprintf(buffer, capacity, "%s is a 32-bit program; the library is 64-bit", what);
    return GP_PROBED_FOREIGN;
  }
  if (ours.is_elf && !gp_elf_is_alike(facts, &ours)) {
    snprintf(buffer, capacity, "%s is built for another kind of processor than the library", what);
    return GP_PROBED_FOREIGN;
  }
  if (!facts->has_interpreter) {
    snprintf(buffer, capacity, "%s is statically linked, so that no library can be preloaded", what);
    return GP_PROBED_STATIC;
  }
  if (own.has_interpreter && strcmp(gp_base_name(facts->interpreter), gp_base_name(own.interpreter)) != 0) {
    snprintf(buffer, capacity, "%s brings its own loader (%s), which does not take this library", what,
        facts->interpreter);
    return GP_PROBED_OWN_LOADER;
  }
  return GP_PROBED_NOTHING;
}

static gp_probed_t probe_script(const char *interpreter, const char *library, char *buffer, size_t capacity)
{
  char what[GP_PATH_BYTES + 32];
  gp_probed_t probed = GP_PROBED_NOTHING;
  gp_elf_facts_t facts;

  gp_elf_read_file(interpreter, &facts);
  snprintf(what, sizeof(what), "its interpreter %s", interpreter);
  if (facts.is_elf)
    probed = probe_elf(what, &facts, library, buffer, capacity);
  if (probed != GP_PROBED_NOTHING)
    return probed;
  snprintf(buffer, capacity,
      "it is a script for %s, and perhaps nothing that it started uses CUDA, or it clears LD_PRELOAD (then put gpupool run before the program in the script)",
      interpreter);
  return GP_PROBED_SCRIPT;
}

gp_probed_t gp_program_probe(const char *path, const char *library, char *buffer, size_t capacity)
{
  char interpreter[GP_PATH_BYTES];
  gp_probed_t probed = GP_PROBED_NOTHING;
  gp_elf_facts_t facts;
  struct stat status;

  buffer[0] = '\0';
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return GP_PROBED_NOTHING;
  gp_elf_read(fd, &facts);
  if (facts.is_elf && fstat(fd, &status) == 0 && status.st_mode & (S_ISUID | S_ISGID)) {
    snprintf(buffer, capacity, "it is a set%cid program, and the loader preloads nothing into those",
        status.st_mode & S_ISUID ? 'u' : 'g');
    probed = GP_PROBED_PRIVILEGED;
  } else if (facts.is_elf && fgetxattr(fd, "security.capability", NULL, 0) > 0) {
    snprintf(
        buffer, capacity, "its file has capabilities, and the loader preloads nothing into such programs");
    probed = GP_PROBED_PRIVILEGED;
  } else if (facts.is_elf) {
    probed = probe_elf("it", &facts, library, buffer, capacity);
  } else if (script_interpreter(fd, interpreter, sizeof(interpreter))) {
    probed = probe_script(interpreter, library, buffer, capacity);
  }
  (void)close(fd); /* read-only, so no data is lost */
  return probed;
}
