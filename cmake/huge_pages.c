// Loaded in front of the compiler (BantamOptions.cmake): asks for huge pages where it asks for memory. GCC takes one to two gigabytes for a large
// file, in pieces of two megabytes, and on a virtual machine a fifth of its time goes into four hundred thousand small pages.
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __SIZEOF_POINTER__ != 8
#error the system call has these arguments on 64-bit machines
#endif

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  void* memory = (void*)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
  // Where it is refused pages are small ones.
  if (memory != MAP_FAILED && file == -1 && bytes >= 2 << 20) (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}
