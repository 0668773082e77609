/*
 * What the programs do with the results of their calls, which are numbers of the driver's or of the runtime's
 * list and 0 for success, and how they find the case that their command line names.
 */
#ifndef PROG_CALLS_H
#define PROG_CALLS_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prints "CALL: RESULT"; is the result. */
#define SAY(call) say_result(#call, (int)(call))

/* Prints the same and ends the program with status 1 if the call fails. */
#define CALL(call) must_succeed(#call, (int)(call))

static inline int say_result(const char *what, int result)
{
  printf("%s: %d\n", what, result);
  return result;
}

static inline void must_succeed(const char *what, int result)
{
  if (result == 0)
    return;
  say_result(what, result);
  exit(1);
}

typedef struct prog_case {
  const char *name;
  void (*run)(void);
} prog_case_t;

/* A case that has its function's name. */
#define CASE(function)                                                                                       \
  {                                                                                                          \
    .name = #function, .run = function                                                                       \
  }

/*
 * The index of the element of that name in an array of structures that begin with their name. Where there is
 * none, prints the names and ends the program with status 2. NULL is no name, as argv[1] is without
 * arguments.
 */
#define CASE_OF(argument, cases) case_index(argument, &(cases)[0].name, sizeof((cases)[0]), sizeof(cases))

static inline size_t case_index(const char *name, const char *const *first, size_t stride, size_t bytes)
{
  const char *start = (const char *)first;
  for (size_t at = 0; name && at < bytes; at += stride)
    if (strcmp(*(const char *const *)(start + at), name) == 0)
      return at / stride;
  fprintf(stderr, "%s is none of these:\n", name ? name : "nothing");
  for (size_t at = 0; at < bytes; at += stride)
    puts(*(const char *const *)(start + at));
  exit(2);
}

#endif
