// Included before everything by cmake/portable.cmake: what Debian 12's libstdc++ takes for granted since it was built with
// glibc 2.36, and 2.27 lacks (all three came with 2.30). Without them it waits as it did before.
#pragma once
#include <bits/c++config.h>
#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
#undef _GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK
