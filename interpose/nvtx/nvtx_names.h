/*
 * Texts of NVTX: as they are passed, of strings that the program registered, of domains.
 */
#ifndef GP_INTERPOSE_NVTX_NVTX_NAMES_H
#define GP_INTERPOSE_NVTX_NVTX_NAMES_H

#include "format/marks.h"
#include "interpose/nvtx/nvtx_abi.h"

/* Writes text as UTF-8, cut after GP_MARK_NAME_BYTES - 1 bytes; NULL is "". */
void gp_nvtx_narrow(const wchar_t *text, char buffer[GP_MARK_NAME_BYTES]);

/* Keeps the text for the handle. handle NULL: makes one, which is no other's; returns it, or NULL if the
 * table is full. The table has room for 4096 texts; later ones have no name. Any thread. */
void *gp_nvtx_name_add(void *handle, const char *text);

/* Writes the name of a range: the event's text, behind "DOMAIN: " unless domain is NULL. Any thread. */
void gp_nvtx_name_of(const void *domain, const gp_nvtx_attributes_t *event, char buffer[GP_MARK_NAME_BYTES]);

#endif
