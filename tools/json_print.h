/*
 * JSON documents: what makes them, and how they are printed. In what is printed, characters that could steer
 * a terminal are written as \uXXXX.
 */
#ifndef GP_TOOLS_JSON_PRINT_H
#define GP_TOOLS_JSON_PRINT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Like cJSON_Print, or with is_flat cJSON_PrintUnformatted. The caller frees
 * it with free(); NULL: no memory. */
char *gp_json_print(const cJSON *item, bool is_flat);

/* Prints root on stdout, with a line feed, and deletes it. Returns the exit status, after a message if there
 * is no memory. */
int gp_json_put(cJSON *root);

/*
 * Returns a copy of the JSON text[0..length). Escapes every unsafe character in its strings
 * (base/printable.h), and writes bytes that are not UTF-8 as \ufffd. Keeps line ends and blanks
 * outside of strings. The caller frees it with free(); NULL: no memory.
 */
char *gp_json_escape(const char *text, size_t length, size_t *ret_length);

/*
 * What cJSON lacks to make a document. A failed allocation leaves a member out; the final print then fails.
 */

void gp_json_add_uint(cJSON *object, const char *name, uint64_t number); /* exact, unlike cJSON's numbers */
void gp_json_add_int(cJSON *object, const char *name, int64_t number);
void gp_json_add_uint_or_null(cJSON *object, const char *name, bool known, uint64_t number);
void gp_json_add_text_or_null(cJSON *object, const char *name, const char *text); /* NULL and "" are null */

/* Adds an object of two members, bytes and count. */
void gp_json_add_amount(cJSON *object, const char *name, uint64_t bytes, uint64_t count);

/* Adds an empty object to a list, and returns it. */
cJSON *gp_json_add_item(cJSON *list);

/* Adds an empty object and returns it; if it is not known, adds null and returns NULL. */
cJSON *gp_json_add_object_or_null(cJSON *object, const char *name, bool known);

/* Begins the document of a command, with the members format and version. NULL: no memory. */
cJSON *gp_json_document(const char *command);

/*
 * The members of a report. Each of these lines adds one, and is the only place that has its key, its type and
 * its meaning: scripts/make-reports.py reads them and makes reports.schema.json and the tables of REPORTS.md.
 * A `meaning` is for readers only; one that begins with "only with --option" is of a member that is not
 * always there. Members come in the order of the file.
 */

/* The lines that follow add the members of objects called NAME; GP_JSON_DOCUMENT: of the document that
 * `gpupool NAME
 * --json` prints. Objects called COMMAND_snapshot are the items of `snapshots` in the document of that
 * command. */
#define GP_JSON_SHAPE(name)    ((void)0)
#define GP_JSON_DOCUMENT(name) ((void)0)

#define GP_PUT_UINT(object, key, value, meaning) gp_json_add_uint(object, key, value)
#define GP_PUT_UINT_OR_NULL(object, key, known, value, meaning)                                              \
  gp_json_add_uint_or_null(object, key, known, value)
#define GP_PUT_DEVICE(object, key, value, meaning) gp_json_add_int(object, key, value)
#define GP_PUT_DEVICE_OR_NULL(object, key, known, value, meaning)                                            \
  gp_json_add_uint_or_null(object, key, known, (uint64_t)(value))
#define GP_PUT_NUMBER(object, key, value, meaning)        ((void)cJSON_AddNumberToObject(object, key, value))
#define GP_PUT_BOOL(object, key, value, meaning)          ((void)cJSON_AddBoolToObject(object, key, value))
#define GP_PUT_TEXT(object, key, value, meaning)          ((void)cJSON_AddStringToObject(object, key, value))
#define GP_PUT_TEXT_OR_NULL(object, key, value, meaning)  gp_json_add_text_or_null(object, key, value)
#define GP_PUT_AMOUNT(object, key, bytes, count, meaning) gp_json_add_amount(object, key, bytes, count)
/* choices: "a|b|c", or "format/actions.def" for the events that are marks */
#define GP_PUT_CHOICE(object, key, choices, value, meaning)                                                  \
  ((void)cJSON_AddStringToObject(object, key, value))
#define GP_PUT_CHOICE_OR_NULL(object, key, choices, value, meaning)                                          \
  gp_json_add_text_or_null(object, key, value)

/* An empty object, list or map (an object whose keys are names), which the expression returns; NULL without
 * memory. of: the name of the object, of the list's items or of the map's values: a shape, or text, uint,
 * amount. */
#define GP_PUT_OBJECT(object, key, of, meaning)                cJSON_AddObjectToObject(object, key)
#define GP_PUT_OBJECT_OR_NULL(object, key, known, of, meaning) gp_json_add_object_or_null(object, key, known)
#define GP_PUT_LIST(object, key, of, meaning)                  cJSON_AddArrayToObject(object, key)
#define GP_PUT_MAP(object, key, of, meaning)                   cJSON_AddObjectToObject(object, key)

/* A member that the function adds, of type `of`, with _or_null if it may be null. */
#define GP_PUT_BY(function, object, key, of, meaning, ...) function(object, key, __VA_ARGS__)
/* All members of another shape, which the call adds. */
#define GP_PUT_SHAPE(of, call) call

#endif
