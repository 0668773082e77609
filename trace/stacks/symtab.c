#include "trace/stacks/symtab.h"

#include <ctype.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/pages.h"

#define AT_ONCE    1024 /* symbols read at a time */
#define SECTIONS   4096 /* files with more sections are not read */
#define SYMBOLS    (UINT64_C(1) << 24)
#define NAME_BYTES 256

/* Buffers for reading a file; not on the stack, which may be small. */
typedef struct reader {
  char path[PATH_MAX];
  Elf64_Ehdr header;
  Elf64_Shdr sections[2]; /* the symbol table, and the table of symbol names */
  Elf64_Sym symbols[AT_ONCE];
  char name[NAME_BYTES];
  int file;
} reader_t;

static bool read_at(const reader_t *reader, void *to, size_t bytes, uint64_t offset)
{
  return offset <= INT64_MAX && pread(reader->file, to, bytes, (off_t)offset) == (ssize_t)bytes;
}

static bool read_section(reader_t *reader, uint64_t index, Elf64_Shdr *ret_section)
{
  return index < reader->header.e_shnum && read_at(reader, ret_section, sizeof(*ret_section),
                                               reader->header.e_shoff + index * sizeof(*ret_section));
}

/* Returns true if the section contains a note with the module's build ID. */
static bool has_build_id(reader_t *reader, const Elf64_Shdr *section, const gp_module_record_t *module)
{
  const char *bytes = (const char *)reader->symbols;
  size_t size =
      section->sh_size < sizeof(reader->symbols) ? (size_t)section->sh_size : sizeof(reader->symbols);
  Elf64_Nhdr note;

  if (!read_at(reader, reader->symbols, size, section->sh_offset))
    return false;
  for (size_t at = 0; at + sizeof(note) <= size;) {
    memcpy(&note, bytes + at, sizeof(note));
    size_t name = at + sizeof(note), text = name + ((size_t)note.n_namesz + 3) / 4 * 4;
    if (note.n_namesz > size || note.n_descsz > size || text + note.n_descsz > size)
      return false;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(bytes + name, "GNU", 4) == 0)
      return note.n_descsz == module->build_id_length &&
             memcmp(bytes + text, module->build_id, note.n_descsz) == 0;
    at = text + ((size_t)note.n_descsz + 3) / 4 * 4;
  }
  return false;
}

/* Finds the symbol table. Returns false if there is none, or if the file is not the one that was loaded. If
 * the module has no build ID, any file is accepted. */
static bool find_table(reader_t *reader, const gp_module_record_t *module)
{
  const Elf64_Ehdr *header = &reader->header;
  bool is_same = !module->build_id_length, has_table = false;
  Elf64_Shdr section;

  if (!read_at(reader, &reader->header, sizeof(reader->header), 0) ||
      memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
      header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shnum > SECTIONS)
    return false;
  for (uint64_t i = 0; read_section(reader, i, &section); i++) {
    if (section.sh_type == SHT_NOTE && !is_same)
      is_same = has_build_id(reader, &section, module);
    if (section.sh_type == SHT_SYMTAB && section.sh_entsize == sizeof(Elf64_Sym)) {
      reader->sections[0] = section;
      has_table = read_section(reader, section.sh_link, &reader->sections[1]);
    }
  }
  return is_same && has_table;
}

/* Returns the offset in the string table of the function's name, or 0 if there is no function at the
 * address. */
static uint64_t find_symbol(reader_t *reader, uint64_t address)
{
  uint64_t count = reader->sections[0].sh_size / sizeof(Elf64_Sym), found = 0, size = UINT64_MAX;

  for (uint64_t first = 0; first < count && first < SYMBOLS; first += AT_ONCE) {
    size_t some = count - first < AT_ONCE ? (size_t)(count - first) : AT_ONCE;
    if (!read_at(reader, reader->symbols, some * sizeof(Elf64_Sym),
            reader->sections[0].sh_offset + first * sizeof(Elf64_Sym)))
      break;
    for (size_t i = 0; i < some; i++) {
      const Elf64_Sym *symbol = &reader->symbols[i];
      if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_value <= address &&
          address - symbol->st_value < symbol->st_size && symbol->st_size < size) {
        found = symbol->st_name;
        size = symbol->st_size;
      }
    }
  }
  return found;
}

/* Does what gp_symtab_name does. The caller has disabled cancellation, because this function calls
 * cancellation points. */
static bool name_held(const gp_module_record_t *module, uint64_t address, char *buffer, size_t capacity)
{
  reader_t *reader = module->path_length < PATH_MAX ? gp_pages_map(sizeof(*reader), false) : NULL;
  bool is_found = false;

  if (!reader)
    return false;
  memcpy(reader->path, module->path, module->path_length); /* the rest of `path` is zero */
  reader->file = open(reader->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (reader->file >= 0 && find_table(reader, module)) {
    uint64_t place = find_symbol(reader, address);
    ssize_t bytes = place && place < reader->sections[1].sh_size
                        ? pread(reader->file, reader->name, NAME_BYTES - 1,
                              (off_t)(reader->sections[1].sh_offset + place))
                        : 0;
    is_found = bytes > 0 && reader->name[0];
  }
  is_found = is_found && gp_symtab_spell(reader->name, buffer, capacity);
  if (reader->file >= 0)
    (void)close(reader->file);
  gp_pages_unmap(reader, sizeof(*reader));
  return is_found;
}

bool gp_symtab_name(const gp_module_record_t *module, uint64_t address, char *buffer, size_t capacity)
{
  int state = gp_cancel_hold(), error = errno;
  bool is_found = name_held(module, address, buffer, capacity);
  errno = error;
  gp_cancel_restore(state);
  return is_found;
}

/* Appends text[0..length) to the text in `buffer`. If it does not fit, appends nothing and sets *used to
 * `capacity`. */
static void append(char *buffer, size_t capacity, size_t *used, const char *text, size_t length)
{
  size_t room = capacity - *used;
  if (length >= room) {
    *used = capacity;
    return;
  }
  memcpy(buffer + *used, text, length);
  *used += length;
  buffer[*used] = '\0';
}

/* Demangles a name such as "N5Arena6extendE" or "4fill". Returns false if it contains anything but plain
 * names. */
static bool spell(const char *text, char *buffer, size_t capacity, size_t *used)
{
  static const char anonymous[] = "_GLOBAL__N_1", words[] = "(anonymous)";
  bool is_nested = *text == 'N', is_first = true;

  text += is_nested;
  while (is_nested && (*text == 'K' || *text == 'V' || *text == 'r'))
    text++;
  do {
    size_t length = 0;
    text += *text == 'L';
    while (isdigit((unsigned char)*text) && length < NAME_BYTES)
      length = 10 * length + (size_t)(*text++ - '0');
    if (!length || strnlen(text, length) < length)
      return false;
    append(buffer, capacity, used, "::", is_first ? 0 : 2);
    if (length == sizeof(anonymous) - 1 && memcmp(text, anonymous, length) == 0)
      append(buffer, capacity, used, words, sizeof(words) - 1);
    else
      append(buffer, capacity, used, text, length);
    text += length;
    is_first = false;
  } while (is_nested && *text != 'E');
  return *text != 'I' && *text != 'B'; /* 'I' begins template arguments, 'B' an ABI tag */
}

bool gp_symtab_spell(const char *name, char *buffer, size_t capacity)
{
  size_t used = 0;
  for (const char *at = name; *at; at++) {
    if (iscntrl((unsigned char)*at))
      return false;
  }
  if (strncmp(name, "_Z", 2) != 0 || !spell(name + 2, buffer, capacity, &used)) {
    used = 0;
    append(buffer, capacity, &used, name, strlen(name));
  }
  return used < capacity;
}
