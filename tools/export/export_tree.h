/*
 * Writes a tree of dicts, lists, texts and numbers as a Python pickle or JSON, during one walk. Keeps in
 * memory only what it writes once and refers to later. After an error it ignores all calls, so the caller
 * checks only the end. Not thread-safe.
 */
#ifndef GP_TOOLS_EXPORT_TREE_H
#define GP_TOOLS_EXPORT_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct gp_tree gp_tree_t;

/* In a dict call key() before each value, in a list item(). */
typedef struct gp_tree_ops {
  void (*begin)(gp_tree_t *tree, char bracket);   /* '{': a dict; '[': a list */
  void (*end)(gp_tree_t *tree, char bracket);     /* '}' or ']' */
  void (*key)(gp_tree_t *tree, const char *name); /* static */
  void (*item)(gp_tree_t *tree);                  /* before each element */
  void (*text)(
      gp_tree_t *tree, const char *text); /* UTF-8; lives as long as the tree, which may write it once */
  void (*text_once)(gp_tree_t *tree, const char *text);
  void (*integer)(gp_tree_t *tree, int64_t number);
  void (*pair)(gp_tree_t *tree, int64_t first, int64_t second);
  void (*boolean)(gp_tree_t *tree, bool value);
  /*
   * For a value that occurs again the caller keeps a number, 0 at first. If remember() has numbered the
   * value, refer() writes a reference to it and returns true. Else it returns false: then write the value,
   * and call remember() right afterwards.
   */
  bool (*refer)(gp_tree_t *tree, const uint32_t *number);
  void (*remember)(gp_tree_t *tree, uint32_t *number);
  int (*finish)(gp_tree_t *tree); /* ends the document, frees the tree; returns 0 or an errno */
} gp_tree_ops_t;

struct gp_tree {
  const gp_tree_ops_t *ops;
};

/* Both begin a document on stream, which they borrow. NULL: no memory. */
gp_tree_t *gp_tree_pickle(FILE *stream); /* export_pickle.c: protocol 2 */
/* export_json.c. most: bytes; more are the error EOVERFLOW. */
gp_tree_t *gp_tree_json(FILE *stream, uint64_t most);

#endif
