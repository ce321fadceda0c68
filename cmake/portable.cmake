# Builds with this system's gcc for an old C library, and links everything else statically. scripts/sysroot.sh makes what
# lies in build/sysroot: that C library, and the other libraries as nothing but static ones.
cmake_path(SET CMAKE_SYSROOT NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../build/sysroot)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(libraries ${CMAKE_SYSROOT}/usr/lib/x86_64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig)

# A native gcc looks beside itself before it looks into a sysroot, unless -B names a folder.
set(CMAKE_C_FLAGS_INIT "-B${libraries}")
set(CMAKE_CXX_FLAGS_INIT "-B${libraries} -include ${CMAKE_CURRENT_LIST_DIR}/../scripts/sysroot/older_glibc.hpp")
foreach(kind IN ITEMS EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-static-libstdc++ -static-libgcc")
endforeach()
