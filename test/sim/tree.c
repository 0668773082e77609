/*
 * An ordered index: a treap whose priorities are a hash of the key, so its shape depends on its contents
 * alone.
 */
#include "sim.h"

static uint64_t priority(const sim_node_t *node)
{
  uint64_t x = node->key * 0x9e3779b97f4a7c15u ^ (node->tie + 0x2545f4914f6cdd1du);
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static bool before(uint64_t key, uint64_t tie, const sim_node_t *node)
{
  return key < node->key || (key == node->key && tie < node->tie);
}

/* Splits into keys below node's and keys above. */
static void split(sim_node_t *tree, const sim_node_t *node, sim_node_t **ret_left, sim_node_t **ret_right)
{
  while (tree) {
    if (before(node->key, node->tie, tree)) {
      *ret_right = tree;
      ret_right = &tree->left;
      tree = tree->left;
    } else {
      *ret_left = tree;
      ret_left = &tree->right;
      tree = tree->right;
    }
  }
  *ret_left = *ret_right = NULL;
}

void sim_tree_insert(sim_tree_t *tree, sim_node_t *node)
{
  sim_node_t **link = &tree->root;
  uint64_t mine = priority(node);
  while (*link && priority(*link) >= mine)
    link = before(node->key, node->tie, *link) ? &(*link)->left : &(*link)->right;
  split(*link, node, &node->left, &node->right);
  *link = node;
}

void sim_tree_remove(sim_tree_t *tree, sim_node_t *node)
{
  sim_node_t **link = &tree->root;
  while (*link != node)
    link = before(node->key, node->tie, *link) ? &(*link)->left : &(*link)->right;
  sim_node_t *left = node->left, *right = node->right;
  while (left && right) {
    if (priority(left) >= priority(right)) {
      *link = left;
      link = &left->right;
      left = left->right;
    } else {
      *link = right;
      link = &right->left;
      right = right->left;
    }
  }
  *link = left ? left : right;
}

sim_node_t *sim_tree_find(const sim_tree_t *tree, uint64_t key, uint64_t tie)
{
  sim_node_t *node = sim_tree_floor(tree, key, tie);
  return node && node->key == key && node->tie == tie ? node : NULL;
}

sim_node_t *sim_tree_floor(const sim_tree_t *tree, uint64_t key, uint64_t tie)
{
  sim_node_t *found = NULL;
  for (sim_node_t *node = tree->root; node;) {
    if (before(key, tie, node)) {
      node = node->left;
    } else {
      found = node;
      node = node->right;
    }
  }
  return found;
}

sim_node_t *sim_tree_ceil(const sim_tree_t *tree, uint64_t key, uint64_t tie)
{
  sim_node_t *found = NULL;
  for (sim_node_t *node = tree->root; node;) {
    if (node->key < key || (node->key == key && node->tie < tie)) {
      node = node->right;
    } else {
      found = node;
      node = node->left;
    }
  }
  return found;
}
