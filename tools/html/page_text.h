/*
 * The page's text before and after its data. assemble.py makes it from page/ at build time.
 */
#ifndef GP_TOOLS_HTML_PAGE_TEXT_H
#define GP_TOOLS_HTML_PAGE_TEXT_H

#include <stddef.h>

extern const char gp_html_page_begin[];
extern const size_t gp_html_page_begin_length;
extern const char gp_html_page_end[];
extern const size_t gp_html_page_end_length;

#endif
