/*
 * The role of a frame in an allocation. A frame is the user's code, a library's code, or an allocator that
 * works for its caller. never_owners.def lists frames that are not the user's code.
 */
#ifndef GP_TOOLS_SYMBOLS_FRAME_PARTS_H
#define GP_TOOLS_SYMBOLS_FRAME_PARTS_H

#include <stdbool.h>

#include "tools/pattern.h"
#include "tools/read/snapshot.h"

typedef enum gp_frame_part {
  GP_FRAME_OWNER, /* may be an owner */
  GP_FRAME_LAST,  /* code of a library: an owner only if the stack has no GP_FRAME_OWNER */
  GP_FRAME_NEVER,
  GP_FRAME_ENTRY, /* entry point of CUDA: neither this frame nor the frames that it calls are owners */
} gp_frame_part_t;

typedef enum gp_frame_group {
#define GROUP(id, words, language) GP_FRAME_GROUP_##id,
#include "format/never_owners.def"
  GP_FRAME_GROUPS
} gp_frame_group_t;

/* The reason why the caller of a frame may be the owner instead of the frame. */
typedef enum gp_frame_form {
  GP_FRAME_PLAIN,
  GP_FRAME_TEMPLATE, /* a function template */
  GP_FRAME_GENERIC,  /* a constructor, or a function whose name says that it allocates */
} gp_frame_form_t;

/* Returns the role of a frame. `skip` has more patterns of functions, files and modules that are never
 * owners; it may be NULL. Thread-safe. */
gp_snapshot_frame_kind_t gp_frame_kind_of(
    const gp_snapshot_t *snapshot, int frame, const gp_patterns_t *skip);

/* Returns true if the frame only allocates for its callers, regardless of --skip. Thread-safe. */
bool gp_frame_is_allocator(const gp_snapshot_t *snapshot, int frame);

/* Returns true if a process or a thread begins in the frame, as in _start. Thread-safe. */
bool gp_frame_is_beginning(const gp_snapshot_t *snapshot, int frame);

/* Returns the name of a group of folded frames, such as "PyTorch". The text is static. */
const char *gp_frame_group_words(gp_frame_group_t group);

/* Returns the language of an interpreter's group, such as "Python", or NULL for other groups. Static. */
const char *gp_frame_group_language(gp_frame_group_t group);

/* Writes the operator that a PyTorch dispatcher calls, for example "aten::conv2d" for
 * at::_ops::conv2d::call(...). Returns false if the function is not a dispatcher. */
bool gp_frame_operator(const char *function, char *buffer, size_t capacity);

/*
 * Writes a frame as reports show it: "function file:line" (the file without folders), "function",
 * "module+0xoffset" if there is no name, or "0xaddress". Truncates to `capacity` (at least 1). Replaces
 * control characters, which could steer a terminal. `frame` is an index into snapshot->frames. Returns
 * `buffer`.
 */
char *gp_frame_describe(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/* Writes the function's name or, if it is unknown, the text of gp_frame_describe. Returns `buffer`. */
char *gp_frame_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/* Returns the part of a demangled name after the return type, with which names of templates begin. */
const char *gp_function_without_result(const char *function);

#endif
