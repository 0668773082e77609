/*
 * Writes a tree of dicts, lists, texts and numbers, as a Python pickle or as JSON, while it is walked:
 * nothing is kept but what is written once and referred to afterwards. After an error everything is ignored,
 * so that only the end has to be checked. Not for threads.
 */
#ifndef GP_TOOLS_EXPORT_TREE_H
#define GP_TOOLS_EXPORT_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct gp_tree gp_tree_t;

/* Values come after a key in a dict, after item() in a list. */
typedef struct gp_tree_ops {
  void (*dict_open)(gp_tree_t *tree);
  void (*dict_close)(gp_tree_t *tree);
  void (*key)(gp_tree_t *tree, const char *name); /* static */
  void (*list_open)(gp_tree_t *tree);
  void (*item)(gp_tree_t *tree); /* before each element */
  void (*list_close)(gp_tree_t *tree);
  void (*text)(
      gp_tree_t *tree, const char *text); /* UTF-8; lives as long as the tree, which writes it once */
  void (*text_once)(gp_tree_t *tree, const char *text);
  void (*integer)(gp_tree_t *tree, int64_t number);
  void (*pair)(gp_tree_t *tree, int64_t first, int64_t second);
  void (*boolean)(gp_tree_t *tree, bool value);
  /*
   * A value that occurs again: the caller keeps a number for it, 0 at first. refer() writes a reference to
   * what remember() has numbered and returns true, or returns false: then the value is to be written, and
   * remember() to be called right after it, before anything else.
   */
  bool (*refer)(gp_tree_t *tree, const uint32_t *number);
  void (*remember)(gp_tree_t *tree, uint32_t *number);
  int (*finish)(gp_tree_t *tree); /* ends the document, gives the tree back; 0 or an errno */
} gp_tree_ops_t;

struct gp_tree {
  const gp_tree_ops_t *ops;
};

/* Both begin a document on stream, which they borrow. NULL: no memory. */
gp_tree_t *gp_tree_pickle(FILE *stream); /* export_pickle.c: protocol 2 */
/* export_json.c. most: bytes, of which more are the error EOVERFLOW. */
gp_tree_t *gp_tree_json(FILE *stream, uint64_t most);

#endif
