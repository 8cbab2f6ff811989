# Toolchain of 64-bit ARM Linux on another machine: Debian's cross compiler (g++-aarch64-linux-gnu), and headers and
# libraries of an arm64 system in the folder HEDDLE_ARM64_ROOT, which tools/cross.sh arm64 makes. Programs that the build
# starts run by qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(HEDDLE_ARM64_ROOT /opt/heddle-arm64/root CACHE PATH "An arm64 system with the packages that Heddle is built with")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HEDDLE_ARM64_ROOT)
set(CMAKE_SYSROOT ${HEDDLE_ARM64_ROOT})
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;${HEDDLE_ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
