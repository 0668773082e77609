/*
 * What cJSON does where there is no memory. Documents are made member by member, in hundreds of calls whose
 * failure would be a report that lacks a member.
 */
#ifndef GP_TOOLS_JSON_MEMORY_H
#define GP_TOOLS_JSON_MEMORY_H

/*
 * From now on a request of cJSON for memory that fails ends the process, after a message, with GP_EXIT_INPUT;
 * the file that is being written (tools/part_file.h) is removed. Called once, before the first use of cJSON.
 */
void gp_json_memory_init(void);

#endif
