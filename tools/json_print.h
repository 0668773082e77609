/*
 * JSON for a terminal: the same values, but characters that could steer the terminal are written as \uXXXX.
 */
#ifndef GP_TOOLS_JSON_PRINT_H
#define GP_TOOLS_JSON_PRINT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

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

#endif
