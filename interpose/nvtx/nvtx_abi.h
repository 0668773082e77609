/*
 * The interface between NVTX and a tool that it loads, as nvtx3/nvToolsExt.h and nvtx3/nvtxDetail/nvtxTypes.h
 * declare it. Packages of CUDA headers may lack those files, so the library has its own declarations; the
 * program test/prog/nvtx.c compares them. libnvToolsExt.so.1 (NVTX 2) has the same interface.
 */
#ifndef GP_INTERPOSE_NVTX_NVTX_ABI_H
#define GP_INTERPOSE_NVTX_NVTX_ABI_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

enum { GP_NVTX_ASCII = 1, GP_NVTX_UNICODE = 2, GP_NVTX_REGISTERED = 3 }; /* nvtxMessageType_t */

typedef struct gp_nvtx_attributes { /* nvtxEventAttributes_t */
  uint16_t version;
  uint16_t size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved;
  uint64_t payload;
  int32_t message_type;
  union {
    const char *ascii;
    const wchar_t *unicode;
    const void *registered; /* nvtxStringHandle_t */
  } message;
} gp_nvtx_attributes_t;

enum { GP_NVTX_CORE = 1, GP_NVTX_CORE2 = 5 }; /* NvtxCallbackModule */
enum { GP_NVTX_EXPORT_CALLBACKS = 1 };        /* NvtxExportTableID */

typedef void (*gp_nvtx_function_t)(void);
typedef gp_nvtx_function_t **gp_nvtx_table_t; /* pointers to NVTX's own function pointers, by function
                                               * number */

typedef struct gp_nvtx_callbacks { /* NvtxExportTableCallbacks */
  size_t struct_size;
  int (*table_of)(int module, gp_nvtx_table_t *ret_table, unsigned *ret_size);
} gp_nvtx_callbacks_t;

typedef const void *(*gp_nvtx_export_t)(uint32_t table);
typedef int (*gp_nvtx_initialize_t)(gp_nvtx_export_t export);

#endif
