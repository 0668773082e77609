/*
 * Writes a tree of dicts, lists, texts and numbers as a Python pickle or as JSON, in one pass. Keeps in
 * memory only the values that are referred to again later. After an error all calls do nothing, so the caller
 * checks for errors only at the end. Not thread-safe.
 */
#ifndef GP_TOOLS_EXPORT_TREE_H
#define GP_TOOLS_EXPORT_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct gp_tree gp_tree_t;

/* The operations of a tree. Call key() before each value of a dict, item() before each element of a list. */
typedef struct gp_tree_ops {
  void (*begin)(gp_tree_t *tree, char bracket);   /* '{': a dict; '[': a list */
  void (*end)(gp_tree_t *tree, char bracket);     /* '}' or ']' */
  void (*key)(gp_tree_t *tree, const char *name); /* name is a static string */
  void (*item)(gp_tree_t *tree);                  /* before each element */
  void (*text)(
      /* The text is UTF-8. It must live as long as the tree, which writes it once and may refer to it
       * later. */
      gp_tree_t *tree, const char *text);
  void (*text_once)(gp_tree_t *tree, const char *text);
  void (*integer)(gp_tree_t *tree, int64_t number);
  void (*pair)(gp_tree_t *tree, int64_t first, int64_t second);
  void (*boolean)(gp_tree_t *tree, bool value);
  /*
   * Writes a value once if it occurs several times. For each such value the caller keeps a number, 0 at
   * first. If remember() has numbered the value, refer() writes a reference and returns true. Otherwise
   * refer() returns false, and the caller writes the value and then calls remember().
   */
  bool (*refer)(gp_tree_t *tree, const uint32_t *number);
  void (*remember)(gp_tree_t *tree, uint32_t *number);
  int (*finish)(gp_tree_t *tree); /* ends the document and frees the tree; returns 0 or an errno */
} gp_tree_ops_t;

struct gp_tree {
  const gp_tree_ops_t *ops;
};

/* Begin a document on `stream`, which is borrowed. Return NULL if memory runs out. */
gp_tree_t *gp_tree_pickle(FILE *stream); /* export_pickle.c: protocol 2 */
/* export_json.c. finish() fails with EOVERFLOW if the document has more than `most` bytes. */
gp_tree_t *gp_tree_json(FILE *stream, uint64_t most);

#endif
