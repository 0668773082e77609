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

#endif
