# What runs an image (docs/design.md, section 3g): base, contract, devices, launcher, the loaders of the backends, the
# reader of `.heddle` files and runtime/. Its objects are part of libheddle; libheddle_runtime, for programs that only run
# images, is made of the same files and nothing else: no planner, no printer and no compiler is in it. A program links one
# of the two.
file(GLOB HEDDLE_LOADER_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/base/*.cpp ${PROJECT_SOURCE_DIR}/core/contract/*.cpp
  ${PROJECT_SOURCE_DIR}/core/device/*.cpp)
# Of what differs between systems, the files of the one that is built for.
set(HEDDLE_SYSTEM posix)
set(other_system windows)
if(WIN32)
  set(HEDDLE_SYSTEM windows)
  set(other_system posix)
endif()
file(GLOB system_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/core/base/system/*.cpp)
list(FILTER system_sources EXCLUDE REGEX "_${other_system}\\.cpp$")
list(APPEND HEDDLE_LOADER_SOURCES ${system_sources})
list(REMOVE_ITEM HEDDLE_LOADER_SOURCES ${PROJECT_SOURCE_DIR}/core/device/text_compiler.cpp)
list(APPEND HEDDLE_LOADER_SOURCES ${PROJECT_SOURCE_DIR}/core/inspect/kernel_facts.cpp ${PROJECT_SOURCE_DIR}/core/inspect/profile.cpp
  ${PROJECT_SOURCE_DIR}/core/inspect/saved_launch.cpp ${PROJECT_SOURCE_DIR}/core/memory/loop_places.cpp)
foreach(file commands debug image image_bytes joined_launch launch_memory launcher replay)
  list(APPEND HEDDLE_LOADER_SOURCES ${PROJECT_SOURCE_DIR}/core/run/${file}.cpp)
endforeach()
foreach(file file_bytes model_parts model_upgrade sha256)
  list(APPEND HEDDLE_LOADER_SOURCES ${PROJECT_SOURCE_DIR}/io/${file}.cpp)
endforeach()
file(GLOB runtime_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/*.cpp)
list(APPEND HEDDLE_LOADER_SOURCES ${runtime_sources})

add_library(heddle_loaders OBJECT ${HEDDLE_LOADER_SOURCES})
heddle_warnings(heddle_loaders)
target_include_directories(heddle_loaders PRIVATE ${HEDDLE_INCLUDE_ROOT})
target_link_libraries(heddle_loaders PRIVATE fmt::fmt Threads::Threads)
set_target_properties(heddle_loaders PROPERTIES POSITION_INDEPENDENT_CODE ON)
heddle_precompile(heddle_loaders <fmt/format.h> <fmt/ranges.h> ${HEDDLE_STD_HEADERS})
target_sources(heddle PRIVATE $<TARGET_OBJECTS:heddle_loaders>)

# libheddle_runtime is shipped with programs: the same files once more but for the devices that take no kernels, compiled
# and linked for size; what the C interface does not reach is dropped by the linker, and nothing else is exported.
add_library(heddle_runtime)
add_library(heddle::heddle_runtime ALIAS heddle_runtime)
target_sources(heddle_runtime PRIVATE ${PROJECT_BINARY_DIR}/generated/no_compilers.cpp
  "$<FILTER:$<TARGET_PROPERTY:heddle_loaders,SOURCES>,EXCLUDE,(builtin_backends|null_device|reference_device)\\.cpp$|/Unity/>")
heddle_warnings(heddle_runtime)
target_include_directories(heddle_runtime SYSTEM PRIVATE $<TARGET_PROPERTY:heddle_loaders,INCLUDE_DIRECTORIES>)
target_include_directories(heddle_runtime PUBLIC $<BUILD_INTERFACE:${HEDDLE_INCLUDE_ROOT}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(heddle_runtime PRIVATE cxx_std_20)
target_link_libraries(heddle_runtime PRIVATE fmt::fmt Threads::Threads ${CMAKE_DL_LIBS})
set_target_properties(heddle_runtime PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
  POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
if(CMAKE_CXX_FLAGS_RELEASE MATCHES "-O3")
  target_compile_options(heddle_runtime PRIVATE $<$<CONFIG:Release>:-Os>)
  include(CheckIPOSupported)
  check_ipo_supported(RESULT ipo OUTPUT output LANGUAGES CXX)
  if(ipo AND BUILD_SHARED_LIBS AND UNIX)
    set_target_properties(heddle_runtime PROPERTIES INTERPROCEDURAL_OPTIMIZATION_RELEASE ON)
  endif()
endif()
if(UNIX AND NOT APPLE)
  target_compile_options(heddle_runtime PRIVATE -ffunction-sections -fdata-sections)
endif()
if(UNIX AND NOT APPLE AND BUILD_SHARED_LIBS AND NOT HEDDLE_SANITIZE)
  set(map ${PROJECT_BINARY_DIR}/generated/heddle_runtime.map)
  file(CONFIGURE OUTPUT ${map} CONTENT "{ global: heddle_*; local: *; };\n")
  # What is missing above shows when the library is linked, not when a program that uses it is.
  # Constants lie in the pages of the code: with pages of their own the file would have two to three padded ones more.
  target_link_options(heddle_runtime PRIVATE -Wl,--no-undefined -Wl,--gc-sections -Wl,-z,noseparate-code -Wl,--version-script=${map})
  set_property(TARGET heddle_runtime APPEND PROPERTY LINK_DEPENDS ${map})
endif()

# The objects of libheddle without a compiler, for tests of images and systems.
add_library(heddle_image_loaders STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:heddle_loaders> ${PROJECT_BINARY_DIR}/generated/no_compilers.cpp)
heddle_warnings(heddle_image_loaders)
target_include_directories(heddle_image_loaders PUBLIC ${HEDDLE_INCLUDE_ROOT})
target_link_libraries(heddle_image_loaders PUBLIC fmt::fmt Threads::Threads ${CMAKE_DL_LIBS})
