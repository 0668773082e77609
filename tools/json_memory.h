/*
 * Handles failed allocations of cJSON. The commands build documents in hundreds of cJSON calls; a call that
 * failed unnoticed would leave a report without a member.
 */
#ifndef GP_TOOLS_JSON_MEMORY_H
#define GP_TOOLS_JSON_MEMORY_H

/*
 * From now on, if cJSON cannot get memory, the process prints a message and exits with GP_EXIT_INPUT.
 * Before, it removes the file that it is writing (tools/part_file.h). Call this once, before the first use
 * of cJSON.
 */
void gp_json_memory_init(void);

#endif
