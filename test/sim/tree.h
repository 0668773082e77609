/*
 * An ordered index (treap) of nodes embedded in their owners; a key (key, tie) is unique.
 */
#ifndef SIM_TREE_H
#define SIM_TREE_H

#include <stddef.h>
#include <stdint.h>

typedef struct sim_node {
  struct sim_node *left, *right;
  uint64_t key, tie;
} sim_node_t;

typedef struct {
  sim_node_t *root;
} sim_tree_t;

void sim_tree_insert(sim_tree_t *tree, sim_node_t *node);
void sim_tree_remove(sim_tree_t *tree, sim_node_t *node);
sim_node_t *sim_tree_find(const sim_tree_t *tree, uint64_t key, uint64_t tie);
sim_node_t *sim_tree_floor(const sim_tree_t *tree, uint64_t key, uint64_t tie); /* greatest <= */
sim_node_t *sim_tree_ceil(const sim_tree_t *tree, uint64_t key, uint64_t tie);  /* least >= */
#define SIM_CONTAINER(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

#endif
