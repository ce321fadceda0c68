/* Preloaded: one read takes some seconds, once the file that SLOW_DRIVE names is there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

ssize_t pread(int descriptor, void* bytes, size_t count, off_t offset) {
  ssize_t (*read)(int, void*, size_t, off_t);
  *(void**)&read = dlsym(RTLD_NEXT, "pread");
  const char* flag = getenv("SLOW_DRIVE");
  if (flag != NULL && unlink(flag) == 0) usleep(4500000);
  return read(descriptor, bytes, count, offset);
}
