/*
 * The file that a command is writing and that has not got its name yet: a command that is stopped takes it
 * away.
 */
#ifndef GP_TOOLS_PART_FILE_H
#define GP_TOOLS_PART_FILE_H

/*
 * From now on a signal that would end the process (of a user, a terminal or a pipe that go away, or of a
 * limit) removes path first. Signals that are ignored stay so. One file at a time; one thread. Returns 0, or
 * ENAMETOOLONG.
 */
int gp_part_file_begin(const char *path);

/* Removes the file, before the process ends by itself in the middle of its work. Without a file legal. */
void gp_part_file_remove(void);

/* The file has its name, or is gone: signals are as they were before. Without a file legal. */
void gp_part_file_end(void);

#endif
