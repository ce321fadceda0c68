// What Debian 12's static libstdc++ and libgcc ask of its glibc 2.36 and an older one lacks. scripts/sysroot.sh puts this
// into the old one's libc_nonshared.a, which holds such things and is linked into everything.
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

// Since 2.32. Whether shared_ptr may count without atomic instructions: this glibc cannot say.
char __libc_single_threaded = 0;

// Since 2.36. std::random_device.
uint32_t arc4random(void) {
  uint32_t number;
  while (getrandom(&number, sizeof number, 0) != sizeof number)
    if (errno != EINTR) abort();
  return number;
}

// Since 2.35. Where an exception finds how to leave a function: what glibc's own <dlfcn.h> says, of which gcc reads only
// eh_frame. gcc 11 searched the loaded objects itself, as here.
struct dl_find_object {
  unsigned long long flags;
  void *map_start, *map_end, *link_map, *eh_frame;
  unsigned long long reserved[7];
};

struct search {
  uintptr_t address;
  void *eh_frame;
};

static int look_into(struct dl_phdr_info *object, size_t size, void *data) {
  (void)size;
  struct search *search = data;
  int holds = 0;
  void *eh_frame = NULL;
  for (const ElfW(Phdr) *part = object->dlpi_phdr; part != object->dlpi_phdr + object->dlpi_phnum; ++part) {
    const uintptr_t start = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD && search->address - start < part->p_memsz) holds = 1;
    if (part->p_type == PT_GNU_EH_FRAME) eh_frame = (void *)start;
  }
  if (holds) search->eh_frame = eh_frame;
  return holds;
}

int _dl_find_object(void *address, struct dl_find_object *result) {
  struct search search = {.address = (uintptr_t)address};
  dl_iterate_phdr(look_into, &search);
  *result = (struct dl_find_object){.eh_frame = search.eh_frame};
  return search.eh_frame ? 0 : -1;
}
