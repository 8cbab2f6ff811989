# Toolchain: Windows x86-64 by MinGW-w64 with POSIX threads (Debian: g++-mingw-w64-x86-64-posix); used by
# tools/cross/windows.sh, which puts the libraries that Debian has no MinGW packages of into HEDDLE_CROSS_PREFIX.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc-posix)
set(CMAKE_CXX_COMPILER x86_64-w64-mingw32-g++-posix)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)
# Windows 10: paths longer than 260 characters, sequences of terminals, processors beyond 64.
add_compile_definitions(_WIN32_WINNT=0x0A00 WINVER=0x0A00 NOMINMAX WIN32_LEAN_AND_MEAN UNICODE _UNICODE __USE_MINGW_ANSI_STDIO=1)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEDDLE_CROSS_PREFIX)
set(CMAKE_FIND_ROOT_PATH ${HEDDLE_CROSS_PREFIX} /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_PREFIX_PATH /)
set(CMAKE_CROSSCOMPILING_EMULATOR wine)
# One file that runs anywhere: no DLL of the compiler beside it. Objects of many templates have many sections.
# Stacks as core/base/thread_stack.h wants them.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static -Wl,--stack,8388608")
set(CMAKE_CXX_FLAGS_INIT "-Wa,-mbig-obj -DUTF8PROC_STATIC")
set(ZLIB_USE_STATIC_LIBS ON)
