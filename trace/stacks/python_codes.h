/*
 * The table of the code objects of Python frames. Each code object is stored once. The log is append-only and
 * contains no pointers, so another process can read it.
 *
 * A code object is identified by its contents: name, file, first line and line table. Its address is only a
 * hint, because the interpreter frees code objects and reuses their memory.
 */
#ifndef GP_TRACE_PYTHON_CODES_H
#define GP_TRACE_PYTHON_CODES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/lock.h"
#include "format/python_code.h"
#include "trace/region/region.h"
#include "trace/stacks/python.h"

/* A slot of the hash table. digest is 0 while the slot is empty. */
typedef struct gp_code_slot {
  _Atomic uint64_t digest;
  uint32_t index; /* index in the log; GP_FRAME_CODE_NONE: the log had no room */
} gp_code_slot_t;

/* A summary of a code object, for comparisons. It does not change after a slot or a hint contains its
 * index. */
typedef struct gp_code_facts {
  const gp_code_record_t *record; /* the record in the log */
  int32_t first_line;
  uint32_t table_length;
  const char *table;   /* the line table in the record */
  uint64_t file;       /* digest of the file's name */
  uint64_t name_hash;  /* the interpreter's hash of the name, or GP_PYTHON_NO_HASH */
  uint64_t table_hash; /* the interpreter's hash of the line table, or GP_PYTHON_NO_HASH */
} gp_code_facts_t;

/* The table of code objects; zeroed memory is an uninitialized table. */
typedef struct gp_codes {
  gp_lock_t lock; /* for all writers; a leaf: only the region's lock is taken inside */
  gp_region_t *region;
  gp_code_log_t *log; /* a section of the region */
  size_t log_bytes;   /* capacity in bytes */
  gp_code_slot_t *slots;
  uint32_t slot_count;     /* number of used slots */
  _Atomic uint64_t *hints; /* by address: the address and the index of the last code object at that address */
  gp_code_facts_t *facts;  /* by index of the code object */
} gp_codes_t;

/* Makes an empty table in `region`, which must live longer. Returns false if the host has no memory. */
bool gp_codes_init(gp_codes_t *codes, gp_region_t *region);
void gp_codes_fini(gp_codes_t *codes); /* zeroed memory is legal */

/* The last file name hashed; adjacent frames of a stack often have the same file. */
typedef struct gp_code_file {
  uintptr_t text;
  uint64_t digest;
} gp_code_file_t;

/*
 * Returns the index of the code object at `code`. Returns GP_FRAME_CODE_NONE if there is no room for it. The
 * code object must not be freed meanwhile. *file must be zeroed for the first frame of a stack. Finds known
 * code objects without a lock. Thread-safe; the caller holds no ranked lock.
 */
uint32_t gp_codes_intern(gp_codes_t *codes, const gp_python_t *python, uintptr_t code, gp_code_file_t *file);

/* A hint contains the index in its upper bits. Its lower bits contain the address without the three lowest
 * bits. */
#define GP_CODE_HINTS     (1u << 13)
#define GP_CODE_INDEX_BIT 45

static inline _Atomic uint64_t *gp_codes_hint(const gp_codes_t *codes, uintptr_t code)
{
  return &codes->hints[(uint64_t)code * UINT64_C(0x9e3779b97f4a7c15) >> 51];
}

static inline uint64_t gp_codes_make_hint(uintptr_t code, uint32_t index)
{
  return (uint64_t)index << GP_CODE_INDEX_BIT |
         ((uint64_t)code >> 3 & ((UINT64_C(1) << GP_CODE_INDEX_BIT) - 1));
}

static inline bool gp_codes_hint_is_of(uint64_t hint, uintptr_t code)
{
  return (hint ^ gp_codes_make_hint(code, 0)) << (64 - GP_CODE_INDEX_BIT) == 0;
}

/* Returns the digest of a file's name and stores it in *file. */
uint64_t gp_codes_read_file(const gp_python_t *python, uintptr_t text, gp_code_file_t *file);

static inline uint64_t gp_codes_file(const gp_python_t *python, uintptr_t code, gp_code_file_t *file)
{
  uintptr_t text = gp_python_word(code + python->code_file);
  return file->text == text ? file->digest : gp_codes_read_file(python, text, file);
}

/* Returns true if the object's hash is `hash`. An object has no hash until the interpreter has computed
 * it. */
static inline bool gp_codes_has_hash(const gp_python_t *python, uintptr_t object, uint64_t hash)
{
  return gp_python_hash(python, object) == hash && hash != GP_PYTHON_NO_HASH;
}

static inline bool gp_codes_has_name(
    const gp_python_t *python, uintptr_t name, const gp_code_record_t *record)
{
  gp_python_text_t text = gp_python_text(python, name);
  return text.is_ascii && text.length == record->name_length &&
         memcmp(text.characters, record->text, text.length) == 0;
}

static inline bool gp_codes_has_table(
    const gp_python_t *python, uintptr_t table, const gp_code_facts_t *facts)
{
  return gp_python_size(python, table) == facts->table_length &&
         memcmp(gp_python_bytes(python, table), facts->table, facts->table_length) == 0;
}

/* Does what gp_codes_intern does, but is faster if the code object equals the last one at the same
 * address. */
static inline uint32_t gp_codes_find(
    gp_codes_t *codes, const gp_python_t *python, uintptr_t code, gp_code_file_t *file)
{
  uint64_t hint = atomic_load_explicit(gp_codes_hint(codes, code), memory_order_acquire);
  const gp_code_facts_t *facts = &codes->facts[hint >> GP_CODE_INDEX_BIT];
  uintptr_t name = gp_python_word(code + python->code_name),
            table = gp_python_word(code + python->code_table);

  if (gp_codes_hint_is_of(hint, code) &&
      facts->first_line == *(const int32_t *)(code + python->code_first_line) &&
      facts->file == gp_codes_file(python, code, file) &&
      (gp_codes_has_hash(python, name, facts->name_hash) || gp_codes_has_name(python, name, facts->record)) &&
      (gp_codes_has_hash(python, table, facts->table_hash) || gp_codes_has_table(python, table, facts)))
    return (uint32_t)(hint >> GP_CODE_INDEX_BIT);
  return gp_codes_intern(codes, python, code, file);
}

/* 64-bit digests that identify stacks and code objects. */

#define GP_DIGEST_SEED UINT64_C(0xa0761d6478bd642f)

/* Multiplies a and b to 128 bits and folds the product to 64 bits, so that each bit of the result depends on
 * all bits of both. */
static inline uint64_t gp_digest_fold(uint64_t a, uint64_t b)
{
  __extension__ typedef unsigned __int128 wide_t;
  wide_t product = (wide_t)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* A frame for a run of the interpreter's loop that no longer has a frame of its own, for example while its
 * locals are being freed. */
#define GP_PYTHON_EMPTY_RUN gp_frame_pack_python(GP_FRAME_CODE_NONE, GP_FRAME_INSTRUCTION_NONE, true)

/*
 * Writes the calling thread's Python frames, innermost first, as words (format/stack_log.h). Some of them may
 * be GP_PYTHON_EMPTY_RUN. Returns their number, at most `capacity`, or 0 if the thread runs no Python. The
 * frames do not change meanwhile, because the thread is in a function that Python called. Thread-safe; the
 * caller holds no ranked lock.
 */
size_t gp_python_frames(gp_codes_t *codes, const gp_python_t *python, uint64_t *words, size_t capacity);

/*
 * Returns a digest of the calling thread's Python frames, without reading the contents of code objects. If
 * two digests are equal, gp_python_frames returns the same words. The digest covers the addresses of the code
 * objects and of their instructions, and a proof that these code objects were not replaced. In 3.12 and 3.13,
 * the proof is the version of the code object, which the interpreter assigns to no other code object. Since
 * 3.14, it is the interpreter's count of freed code objects. Returns 0 if there is no proof or no frame.
 */
uint64_t gp_python_walk_digest(const gp_python_t *python, size_t capacity);

/*
 * Merges the native frames and the Python frames of a call into one stack in ret_words[0..capacity),
 * innermost first. Returns the number of frames written. Each native frame of the interpreter's loop is
 * replaced by the Python frames of that run of the loop; the interpreter's other frames are left out.
 * `frames` and `words` are as in format/stack_log.h; `words` are from gp_python_frames. is_cut means that
 * outer native frames are missing.
 */
size_t gp_python_merge(const gp_python_t *python, const uint64_t *frames, size_t frame_count, bool is_cut,
    const uint64_t *words, size_t count, uint64_t *ret_words, size_t capacity);

#endif
