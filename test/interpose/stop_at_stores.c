/*
 * Stops a program at every store to its record, and writes what `gpupool recover` would make of the record if
 * the program were killed there.
 *
 *   stop_at_stores FOLDER LIBRARIES PROGRAM [ARGUMENT...]
 *
 * The pages of the record are write-protected in the program, by calls of mprotect(2) that the tracer has it
 * make. So a thread stops with SIGSEGV before a store; the tracer lets it do that one instruction. There is a
 * stop between any two stores, whatever code makes them, and between them the record does not change.
 *
 * The program raises SIGUSR1 where an operation begins, and again where it ends. Stores outside of operations
 * are not looked at. LIBRARIES are preloaded into the program; GPUPOOL_RECORD has to be set.
 *
 * Prints a line for each of these signals, and for each store after which the snapshot is another one:
 *
 *   signal FILE
 *   store FILE SECTION+OFFSET INSTRUCTION
 *
 * FILE is a snapshot in FOLDER, or "-" if the record is refused, or not there yet. The exit status is the
 * program's; 77: ptrace(2) is refused, or the processor is another.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/read/record/record_reader.h"

#define SKIPPED    77
#define PAGE_BYTES 4096u

static pid_t program;
static const char *folder;
static uint64_t syscall_at; /* of an instruction in the program that enters the kernel; 0: not known yet */
static bool is_watching;    /* an operation has begun and not ended */

/* The record; fd is -1 before there is one. */
static int fd = -1;
static uint64_t base, bytes;               /* of its mapping in the program */
static const gp_record_header_t *header;   /* in a mapping of the tracer's own */
static uint64_t covered[GP_SECTION_COUNT]; /* bytes of each section that are protected */

/* The snapshot that was written last. */
static gp_record_t record; /* too large for a stack */
static char *text;
static size_t text_bytes;
static unsigned files;
static char file_name[32] = "-";

static void give_up(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void give_up(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  fflush(stdout);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\n");
  exit(EXIT_FAILURE); /* the kernel ends the program, too */
}

static void ask(int request, pid_t thread, uintptr_t data)
{
  if (ptrace(request, thread, NULL, data))
    give_up("ptrace request %d: %s", request, strerror(errno));
}

/* One instruction, or a system call. Returns the signal that it led to. */
static int step(pid_t thread)
{
  int status;
  ask(PTRACE_SINGLESTEP, thread, 0);
  if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status))
    give_up("the program ended at a step: status %#x", status);
  return WSTOPSIG(status);
}

/* Has the thread, which is stopped, change the protection of a part of the record. */
static void protect(pid_t thread, uint64_t offset, uint64_t length, int protection)
{
  struct user_regs_struct saved, registers;
  ask(PTRACE_GETREGS, thread, (uintptr_t)&saved);
  registers = saved;
  registers.rip = syscall_at;
  registers.orig_rax = UINT64_MAX; /* no system call is under way that the kernel could restart */
  registers.rax = SYS_mprotect;
  registers.rdi = base + offset;
  registers.rsi = length;
  registers.rdx = (uint64_t)protection;
  ask(PTRACE_SETREGS, thread, (uintptr_t)&registers);
  int signal = step(thread);
  ask(PTRACE_GETREGS, thread, (uintptr_t)&registers);
  if (signal != SIGTRAP || registers.rax != 0)
    give_up("mprotect in the program: signal %d, result %lld", signal, (long long)registers.rax);
  ask(PTRACE_SETREGS, thread, (uintptr_t)&saved);
}

/* Protects what sections have got. Not more of them: the library asks the kernel for pages to write to before
 * it uses them, which needs that they may be written to. */
static void cover(pid_t thread)
{
  for (int i = 0; i < GP_SECTION_COUNT; i++) {
    const gp_section_place_t *place = &header->sections[i];
    uint64_t used = atomic_load(&place->used);
    if (used > covered[i])
      protect(thread, place->offset + covered[i], used - covered[i], PROT_READ);
    covered[i] = used;
  }
}

static void watch(pid_t thread)
{
  protect(thread, 0, GP_RECORD_HEADER_BYTES, PROT_READ);
  memset(covered, 0, sizeof(covered));
  cover(thread);
}

static void unwatch(pid_t thread)
{
  protect(thread, 0, bytes, PROT_READ | PROT_WRITE);
}

/* Where the program has mapped a file whose path begins so, by its first mapping. False: nowhere. */
static bool find_mapping(const char *path, char *ret_path, uint64_t *ret_begin)
{
  char maps_path[64], line[1024];
  bool found = false;
  snprintf(maps_path, sizeof(maps_path), "/proc/%d/maps", (int)program);
  FILE *maps = fopen(maps_path, "re");
  while (maps && !found && fgets(line, sizeof(line), maps)) {
    char *name = strchr(line, '/');
    if (!name || strncmp(name, path, strlen(path)) != 0)
      continue;
    name[strcspn(name, "\n")] = '\0';
    found = sscanf(line, "%" SCNx64, ret_begin) == 1;
    strcpy(ret_path, name);
  }
  if (maps)
    fclose(maps);
  return found;
}

/* Called after each system call, until there is a record whose header can be written. */
static void look_for_record(pid_t thread)
{
  char prefix[512], path[1024];
  struct stat status;
  if (!gp_record_folder(getenv("GPUPOOL_RECORD"), prefix, sizeof(prefix) - 16))
    give_up("GPUPOOL_RECORD is too long");
  sprintf(prefix + strlen(prefix), "/%d-", (int)program);
  if (!find_mapping(prefix, path, &base))
    return;
  int opened = open(path, O_RDONLY | O_CLOEXEC);
  if (opened < 0 || fstat(opened, &status))
    give_up("%s: %s", path, strerror(errno));
  if (status.st_blocks == 0) {
    close(opened);
    return;
  }
  fd = opened;
  bytes = (uint64_t)status.st_size;
  header = mmap(NULL, GP_RECORD_HEADER_BYTES, PROT_READ, MAP_SHARED, fd, 0);
  if (header == MAP_FAILED)
    give_up("%s cannot be mapped: %s", path, strerror(errno));
  watch(thread);
}

/* Makes the snapshot. False: it is the last one again, or there is none. */
static bool recover(void)
{
  static char buffer[64 * 1024];
  gp_json_t json;
  if (fd < 0)
    return false;
  bool is_readable = gp_record_read(fd, &record);
  int scratch = memfd_create("snapshot", MFD_CLOEXEC);
  if (scratch < 0)
    give_up("memfd_create: %s", strerror(errno));
  gp_json_init(&json, scratch, buffer, sizeof(buffer));
  if (is_readable)
    gp_document_write(&json, &record.document);
  if (gp_json_finish(&json))
    give_up("the snapshot cannot be written");
  gp_record_fini(&record);
  size_t length = (size_t)lseek(scratch, 0, SEEK_END);
  char *now = malloc(length + 1);
  if (!now || pread(scratch, now, length, 0) != (ssize_t)length)
    give_up("the snapshot cannot be read");
  close(scratch);
  bool is_same = text && length == text_bytes && memcmp(now, text, length) == 0;
  free(text);
  text = now;
  text_bytes = length;
  return !is_same;
}

static void write_snapshot(void)
{
  char path[1024];
  strcpy(file_name, "-");
  if (text_bytes == 0)
    return;
  snprintf(file_name, sizeof(file_name), "%u.json", files++);
  snprintf(path, sizeof(path), "%s/%s", folder, file_name);
  FILE *file = fopen(path, "we");
  if (!file || fwrite(text, 1, text_bytes, file) != text_bytes || fclose(file))
    give_up("%s: %s", path, strerror(errno));
}

static void print_store(uint64_t offset, uint64_t instruction, const char *library)
{
  const char *section = "header";
  char path[1024];
  uint64_t library_at, begin = 0;
  for (int i = 0; i < GP_SECTION_COUNT; i++) {
    uint64_t at = header->sections[i].offset;
    if (offset < at || at <= begin)
      continue;
    begin = at;
    section = gp_section_name((gp_section_t)i);
  }
  bool is_librarys = find_mapping(library, path, &library_at) && instruction >= library_at;
  printf("store %s %s+%" PRIu64 " %s%#" PRIx64 "\n", file_name, section, offset - begin,
      is_librarys ? "library+" : "", instruction - (is_librarys ? library_at : 0));
}

/* The thread is in front of a store to the record. False: it got the signal for something else. */
static bool pass_store(pid_t thread, const char *library)
{
  siginfo_t fault;
  struct user_regs_struct registers;
  uint64_t pages[2], offset = 0;
  int count = 0;
  int signal = SIGSEGV;
  ask(PTRACE_GETREGS, thread, (uintptr_t)&registers);
  while (signal == SIGSEGV) { /* again, if the store reaches into the next page */
    ask(PTRACE_GETSIGINFO, thread, (uintptr_t)&fault);
    uint64_t at = (uint64_t)(uintptr_t)fault.si_addr;
    if (!is_watching || fd < 0 || at < base || at - base >= bytes || count == 2)
      return false;
    offset = count == 0 ? at - base : offset;
    pages[count] = (at - base) / PAGE_BYTES * PAGE_BYTES;
    protect(thread, pages[count++], PAGE_BYTES, PROT_READ | PROT_WRITE);
    signal = step(thread);
  }
  if (signal != SIGTRAP)
    give_up("signal %d at a store", signal);
  while (count > 0)
    protect(thread, pages[--count], PAGE_BYTES, PROT_READ);
  cover(thread);
  if (recover()) {
    write_snapshot();
    print_store(offset, registers.rip, library);
  }
  return true;
}

/* An operation begins or ends. */
static void pass_signal(pid_t thread)
{
  struct user_regs_struct registers;
  ask(PTRACE_GETREGS, thread, (uintptr_t)&registers);
  if (!syscall_at)
    syscall_at = registers.rip - 2; /* the thread is behind the call that raised the signal */
  is_watching = !is_watching;
  if (fd >= 0 && is_watching)
    watch(thread);
  else if (fd >= 0)
    unwatch(thread);
  if (recover())
    write_snapshot();
  printf("signal %s\n", file_name);
}

static void start(char **command, const char *libraries)
{
  int status;
  program = fork();
  if (program == 0) {
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
      _exit(SKIPPED);
    setenv("LD_PRELOAD", libraries, 1);
    execv(command[0], command);
    _exit(127);
  }
  if (program < 0 || waitpid(program, &status, 0) != program ||
      (WIFEXITED(status) && WEXITSTATUS(status) == 127))
    give_up("%s cannot be run", command[0]);
  if (WIFEXITED(status)) {
    printf("skipped: ptrace(2) is refused\n");
    exit(SKIPPED);
  }
  ask(PTRACE_SETOPTIONS, program, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
  ask(PTRACE_CONT, program, 0);
}

/* Returns the program's status, of wait(2). */
static int trace(const char *library)
{
  int status;
  pid_t thread;
  while ((thread = waitpid(-1, &status, __WALL)) > 0) {
    if (!WIFSTOPPED(status) && thread == program)
      return status;
    if (!WIFSTOPPED(status))
      continue;
    int signal = WSTOPSIG(status);
    bool is_consumed = signal == SIGTRAP || signal == SIGSTOP; /* a thread has begun */
    if (signal == (SIGTRAP | 0x80)) {
      is_consumed = true;
      look_for_record(thread);
    } else if (signal == SIGUSR1) {
      is_consumed = true;
      pass_signal(thread);
    } else if (signal == SIGSEGV) {
      is_consumed = pass_store(thread, library);
    }
    ask(is_watching && fd < 0 ? PTRACE_SYSCALL : PTRACE_CONT, thread, is_consumed ? 0 : (uintptr_t)signal);
  }
  give_up("waitpid: %s", strerror(errno));
}

int main(int argc, char **argv)
{
  if (argc < 4 || !getenv("GPUPOOL_RECORD"))
    give_up("usage: stop_at_stores FOLDER LIBRARIES PROGRAM [ARGUMENT...], with GPUPOOL_RECORD");
  folder = argv[1];
  (void)setvbuf(stdout, NULL, _IOLBF, 0);
  char library[1024];
  snprintf(library, sizeof(library), "%.*s", (int)strcspn(argv[2], ":"), argv[2]);
  start(argv + 3, argv[2]);
  int status = trace(library);
  if (WIFSIGNALED(status))
    give_up("the program died of signal %d", WTERMSIG(status));
  return WEXITSTATUS(status);
}
