/*
 * The role of a frame in an allocation: the user's code, a library's, or code that only passes memory on.
 * never_owners.def is the list.
 */
#ifndef GP_TOOLS_SYMBOLS_FRAME_PARTS_H
#define GP_TOOLS_SYMBOLS_FRAME_PARTS_H

#include <stdbool.h>

#include "tools/pattern.h"
#include "tools/read/snapshot.h"

typedef enum gp_frame_part {
  GP_FRAME_OWNER, /* may be an owner */
  GP_FRAME_LAST,  /* a library's: an owner only if there is no other */
  GP_FRAME_NEVER,
  GP_FRAME_ENTRY, /* never an owner; what it calls is not the program either */
} gp_frame_part_t;

typedef enum gp_frame_group {
#define GROUP(id, words, language) GP_FRAME_GROUP_##id,
#include "format/never_owners.def"
  GP_FRAME_GROUPS
} gp_frame_group_t;

/* Why a frame's caller may be the owner instead. */
typedef enum gp_frame_form {
  GP_FRAME_PLAIN,
  GP_FRAME_TEMPLATE, /* a function template */
  GP_FRAME_GENERIC,  /* a constructor, or a name that says that it allocates */
} gp_frame_form_t;

/* The role of a frame. skip: patterns of functions, files and modules that are never
 * owners; NULL: none. Thread-safe. */
gp_snapshot_frame_kind_t gp_frame_kind_of(
    const gp_snapshot_t *snapshot, int frame, const gp_patterns_t *skip);

/* True for a frame that only passes on memory that others asked for, whatever --skip says. Thread-safe. */
bool gp_frame_is_allocator(const gp_snapshot_t *snapshot, int frame);

/* True for a frame in which a process or a thread begins, whatever its name. Thread-safe. */
bool gp_frame_is_beginning(const gp_snapshot_t *snapshot, int frame);

/* "PyTorch": the name of a group of folded frames. Static. */
const char *gp_frame_group_words(gp_frame_group_t group);

/* "Python" for the group of an interpreter; NULL for others. Static. */
const char *gp_frame_group_language(gp_frame_group_t group);

/* The operator that a dispatcher of PyTorch calls: "aten::conv2d" for at::_ops::conv2d::call(...). False:
 * the function is not a dispatcher. */
bool gp_frame_operator(const char *function, char *buffer, size_t capacity);

/*
 * How reports show a frame.
 */

/*
 * Writes "function file:line" (the file without folders), "function", "module+0xoffset" if there is no
 * name, or "0xaddress". Cuts to capacity (at least 1) and replaces bytes that could steer a terminal. frame
 * is an index into snapshot->frames. Returns buffer.
 */
char *gp_frame_describe(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/* Writes the function only; without one like gp_frame_describe. Returns buffer. */
char *gp_frame_function(const gp_snapshot_t *snapshot, int frame, char *buffer, size_t capacity);

/* A demangled name without the return type, with which names of templates begin. */
const char *gp_function_without_result(const char *function);

#endif
