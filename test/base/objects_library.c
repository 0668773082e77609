/* A library with more names than buckets, so that names share them. Linked once with each kind of table. */
#include <stdlib.h>

#define DEFINE(letter)                                                                                       \
  int gp_objects_##letter(void);                                                                             \
  int gp_objects_##letter(void)                                                                              \
  {                                                                                                          \
    return #letter[0];                                                                                       \
  }

DEFINE(a)
DEFINE(b)
DEFINE(c)
DEFINE(d)
DEFINE(e)
DEFINE(f)
DEFINE(g)
DEFINE(h)
DEFINE(i)
DEFINE(j)
DEFINE(k)
DEFINE(l)
DEFINE(m)
DEFINE(n)
DEFINE(o)
DEFINE(p)
DEFINE(q)
DEFINE(r)
DEFINE(s)
DEFINE(t)
DEFINE(u)
DEFINE(v)
DEFINE(w)
DEFINE(x)
DEFINE(y)
DEFINE(z)

extern int gp_objects_variable;
int gp_objects_variable = 1;

int gp_objects_uses_another(void);

/* Names that it refers to are in its table, too. */
int gp_objects_uses_another(void)
{
  return abs(rand()) + atoi("1");
}
