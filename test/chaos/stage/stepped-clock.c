/* Preloaded into a server: its wall clock is ahead by as many milliseconds as a file says first; or its clocks stand where that says next, in
   microseconds since 1970, unless that is 0. Others may write the file. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct setting { int64_t ahead_ms, stands_at_us; };
static volatile struct setting *setting;

__attribute__((constructor)) static void open_file(void) {
  const char *path = getenv("HOLDFAST_CLOCK");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file < 0) return;
  void *content = mmap(0, sizeof *setting, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (content != MAP_FAILED) setting = content;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = syscall(SYS_clock_gettime, clock, now);
  int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (result != 0 || !setting) return result;
  if (setting->stands_at_us && (is_wall || clock == CLOCK_MONOTONIC)) {
    now->tv_sec = setting->stands_at_us / 1000000;
    now->tv_nsec = setting->stands_at_us % 1000000 * 1000;
  } else if (is_wall) {
    int64_t ns = now->tv_nsec + (setting->ahead_ms % 1000) * 1000000;
    now->tv_sec += setting->ahead_ms / 1000;
    if (ns < 0) { ns += 1000000000; now->tv_sec--; }
    if (ns >= 1000000000) { ns -= 1000000000; now->tv_sec++; }
    now->tv_nsec = ns;
  }
  return result;
}

/* Valkey 9.1 counts from the clock on by the processor's counter, unless it does not learn how fast that is. */
FILE *fopen64(const char *path, const char *mode) {
  if (setting && setting->stands_at_us && strcmp(path, "/proc/cpuinfo") == 0) return NULL;
  FILE *(*original)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen64");
  return original(path, mode);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec precise;
  int result = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return result;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
