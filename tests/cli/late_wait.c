/* Preloaded: a little time passes before every wait for input, in which a signal that comes must not be lost. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

int ppoll(struct pollfd* ready, nfds_t count, const struct timespec* limit, const sigset_t* let_through) {
  int (*wait)(struct pollfd*, nfds_t, const struct timespec*, const sigset_t*);
  *(void**)&wait = dlsym(RTLD_NEXT, "ppoll");
  usleep(3000);
  return wait(ready, count, limit, let_through);
}
