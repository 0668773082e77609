/*
 * JSON for a terminal: the same values, but what could steer one is written as \uXXXX.
 */
#ifndef GP_TOOLS_JSON_PRINT_H
#define GP_TOOLS_JSON_PRINT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

/* As cJSON_Print, or with is_flat cJSON_PrintUnformatted. Give it back with free(); NULL: no memory. */
char *gp_json_print(const cJSON *item, bool is_flat);

/*
 * text[0..length), which is JSON, with every unsafe character of its strings (pool/util/printable.h) escaped,
 * and what is no UTF-8 as \ufffd. Line ends and blanks outside of strings stay. Give it back with free();
 * NULL: no memory.
 */
char *gp_json_escape(const char *text, size_t length, size_t *ret_length);

#endif
