/* A library with many names and few buckets, so that names share them. Linked once with each kind of table.
 */
#include <stdlib.h>

#define NAMES(X)                                                                                             \
  X(a)                                                                                                       \
  X(b)                                                                                                       \
  X(c) X(d) X(e) X(f) X(g) X(h) X(i) X(j) X(k) X(l) X(m) X(n) X(o) X(p) X(q) X(r) X(s) X(t) X(u) X(v) X(w)   \
      X(x) X(y) X(z)

#define DEFINE(letter)                                                                                       \
  int gp_objects_##letter(void);                                                                             \
  int gp_objects_##letter(void)                                                                              \
  {                                                                                                          \
    return #letter[0];                                                                                       \
  }
NAMES(DEFINE)

int gp_objects_uses_another(void);

/* Names that it refers to are in its table, too. */
int gp_objects_uses_another(void)
{
  return abs(rand()) + atoi("1");
}
