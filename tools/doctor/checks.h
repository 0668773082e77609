/*
 * What `gpupool doctor` found: a line for each check, with what to do about it.
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
  GP_CHECK_NOTE, /* works, and the user may want it otherwise */
  GP_CHECK_BAD,  /* has to be changed for gpupool to do its work */
} gp_check_state_t;

typedef struct gp_check {
  const char *name; /* static */
  gp_check_state_t state;
  char text[GP_CHECK_TEXT_BYTES];
  char remedy[GP_CHECK_TEXT_BYTES]; /* "": none is needed */
} gp_check_t;

typedef struct gp_checks {
  gp_check_t items[GP_CHECKS_MOST]; /* what does not fit is left out */
  size_t count;
} gp_checks_t;

/* Adds a check. */
void gp_checks_add(gp_checks_t *checks, const char *name, gp_check_state_t state, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Sets the remedy of the check that was added last. */
void gp_checks_remedy(gp_checks_t *checks, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints all as text, with how many there are to change. */
void gp_checks_print(const gp_checks_t *checks);

/* Prints all as one JSON document. Returns the exit status. */
int gp_checks_print_json(const gp_checks_t *checks);

/*
 * The checks
 */

/* check_driver.c: the driver and its devices, asked in a child process: a driver may crash or hang. */
void gp_check_driver(gp_checks_t *checks);

/* check_place.c: room for the record, and limits from outside: the container's, MIG, MPS. */
void gp_check_place(gp_checks_t *checks, const gp_options_t *options);

/* check_preload.c: puts the library into this process's LD_PRELOAD, and asks the loader. program: its path,
 * or NULL. Writes what the loader loads with it to list. */
void gp_check_preload(
    gp_checks_t *checks, const char *library, const char *program, char *list, size_t capacity);

/* check_program.c: whether the library reaches the program, and whether its framework keeps memory by itself.
 * Starts nothing of it. library: the preload library. list: what gp_check_preload wrote. */
void gp_check_program(
    gp_checks_t *checks, const char *library, const char *path, char *const argv[], const char *list);

#endif
