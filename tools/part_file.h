/*
 * The file that a command is writing and that has no final name yet. A command that is stopped removes it.
 */
#ifndef GP_TOOLS_PART_FILE_H
#define GP_TOOLS_PART_FILE_H

/*
 * From now on a signal that would end the process (from a user, a closed terminal or pipe, or a limit)
 * first removes path. Ignored signals stay ignored. One file at a time; one thread. Returns 0, or
 * ENAMETOOLONG.
 */
int gp_part_file_begin(const char *path);

/* Removes the file; call it before the process exits in the middle of its work. Legal without a file. */
void gp_part_file_remove(void);

/* The file has its final name, or is gone: restores the earlier signal handlers. Legal without a file. */
void gp_part_file_end(void);

#endif
