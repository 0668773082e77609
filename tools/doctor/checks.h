/*
 * The results of `gpupool doctor`: one line for each check, with a remedy.
 */
#ifndef GP_TOOLS_DOCTOR_CHECKS_H
#define GP_TOOLS_DOCTOR_CHECKS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/options.h"

#define GP_CHECKS_MOST      64
#define GP_CHECK_TEXT_BYTES 2048

typedef enum gp_check_state {
  GP_CHECK_GOOD,
  GP_CHECK_NOTE, /* works, but the user may prefer another setting */
  GP_CHECK_BAD,  /* must be changed for gpupool to work */
} gp_check_state_t;

typedef struct gp_check {
  const char *name; /* static */
  gp_check_state_t state;
  char text[GP_CHECK_TEXT_BYTES];
  char remedy[GP_CHECK_TEXT_BYTES]; /* "": no remedy is needed */
} gp_check_t;

typedef struct gp_checks {
  gp_check_t items[GP_CHECKS_MOST]; /* checks beyond the array's size are dropped */
  size_t count;
} gp_checks_t;

/* Adds a check with its result. */
void gp_checks_add(gp_checks_t *checks, const char *name, gp_check_state_t state, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Sets the remedy of the check that was added last. */
void gp_checks_remedy(gp_checks_t *checks, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints all checks as text, and the number of checks that need a change. */
void gp_checks_print(const gp_checks_t *checks);

/* Prints all checks as one JSON document. Returns the exit status. */
int gp_checks_print_json(const gp_checks_t *checks);

/*
 * The groups of checks.
 */

/* check_driver.c: queries the driver and its devices in a child process, because a driver may crash. */
void gp_check_driver(gp_checks_t *checks);

/* check_place.c: checks the space for the record, and external limits: the container's, MIG, MPS. */
void gp_check_place(gp_checks_t *checks, const gp_options_t *options);

/* check_preload.c: runs the loader with LD_PRELOAD set to the library, and checks what it would load. Sets
 * this process's LD_PRELOAD. `program` is a path or NULL. Writes the loader's output to `list`. */
void gp_check_preload(
    gp_checks_t *checks, const char *library, const char *program, char *list, size_t capacity);

/* check_program.c: checks whether the library is loaded into the program, and whether the program's framework
 * caches memory itself. Does not start the program. `library` is the preload library; `list` is the output of
 * gp_check_preload. */
void gp_check_program(
    gp_checks_t *checks, const char *library, const char *path, char *const argv[], const char *list);

#endif
