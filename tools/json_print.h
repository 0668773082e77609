/*
 * Builds and prints JSON documents. Printing escapes characters that could control a terminal as \uXXXX.
 */
#ifndef GP_TOOLS_JSON_PRINT_H
#define GP_TOOLS_JSON_PRINT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Prints `item` like cJSON_Print, or like cJSON_PrintUnformatted with `is_flat`. The caller frees the text
 * with free(). Returns NULL if memory runs out. */
char *gp_json_print(const cJSON *item, bool is_flat);

/* Prints `root` and a line feed to stdout, and deletes `root`. Returns the exit status, after a message if
 * memory runs out. */
int gp_json_put(cJSON *root);

/*
 * Returns a copy of the JSON text[0..length) with every unsafe character in a string (base/printable.h)
 * escaped, and each malformed UTF-8 byte replaced by \ufffd. Keeps line ends and blanks outside of strings.
 * The caller frees the copy with free(). Returns NULL if memory runs out.
 */
char *gp_json_escape(const char *text, size_t length, size_t *ret_length);

/*
 * Functions that add members, like cJSON's. If memory runs out, the member is missing and the print fails.
 */

void gp_json_add_uint(cJSON *object, const char *name, uint64_t number); /* exact, unlike cJSON's numbers */
void gp_json_add_int(cJSON *object, const char *name, int64_t number);
void gp_json_add_uint_or_null(cJSON *object, const char *name, bool known, uint64_t number);
void gp_json_add_text_or_null(cJSON *object, const char *name, const char *text); /* NULL, "": null */

/* Adds an object with the members `bytes` and `count`. */
void gp_json_add_amount(cJSON *object, const char *name, uint64_t bytes, uint64_t count);

/* Appends an empty object to a list. Returns the object. */
cJSON *gp_json_add_item(cJSON *list);

/* Adds an empty object and returns it. If known is false, adds null and returns NULL. */
cJSON *gp_json_add_object_or_null(cJSON *object, const char *name, bool known);

/* Starts a command's document with the members format and version. Returns NULL if memory runs out. */
cJSON *gp_json_document(const char *command);

/*
 * The members of a report. Each use of these macros adds one member, and is the only place that defines the
 * member's key, type and meaning. scripts/make-reports.py reads the uses, and generates reports.schema.json
 * and the tables of REPORTS.md. `meaning` is for readers only. If it begins with "only with --option", the
 * member is optional. Members have the order of the source file.
 */

/* GP_JSON_SHAPE precedes the members of objects called NAME, and GP_JSON_DOCUMENT those of the document that
 * `gpupool NAME --json` prints. Objects called COMMAND_snapshot are the items of `snapshots` in that
 * command's document. */
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
/* `choices` is "a|b|c", or "format/actions.def" for the events that are marks */
#define GP_PUT_CHOICE(object, key, choices, value, meaning)                                                  \
  ((void)cJSON_AddStringToObject(object, key, value))
#define GP_PUT_CHOICE_OR_NULL(object, key, choices, value, meaning)                                          \
  gp_json_add_text_or_null(object, key, value)

/* Add an empty object, list or map (an object whose keys are names). Return it, or NULL if memory runs out.
 * `of` is the type of the object, of the list's items or of the map's values: shape, text, uint or amount. */
#define GP_PUT_OBJECT(object, key, of, meaning)                cJSON_AddObjectToObject(object, key)
#define GP_PUT_OBJECT_OR_NULL(object, key, known, of, meaning) gp_json_add_object_or_null(object, key, known)
#define GP_PUT_LIST(object, key, of, meaning)                  cJSON_AddArrayToObject(object, key)
#define GP_PUT_MAP(object, key, of, meaning)                   cJSON_AddObjectToObject(object, key)

/* Calls `function`, which adds a member of type `of`. A type that ends in _or_null may be null. */
#define GP_PUT_BY(function, object, key, of, meaning, ...) function(object, key, __VA_ARGS__)
/* Calls `call`, which adds all members of the shape `of`. */
#define GP_PUT_SHAPE(of, call) call

#endif
