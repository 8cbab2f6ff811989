# Decides which backends are built. A backend is a loader and a compiler: the file that registers loaders is part of what
# runs images (cmake/loaders.cmake), the one that lists compilers of libheddle alone. Both are generated: static
# initialisers would vanish from a static library. Those left out are registered as absent, with the reason, so that `heddle devices` can say why.
set(HEDDLE_BACKENDS "")
set(HEDDLE_ABSENT_CALLS "")

# For use in heddle_backend: heddle_absent(VULKAN "why").
macro(heddle_absent option reason)
  string(TOLOWER ${option} absent_name)
  string(REPLACE "\"" "'" absent_reason "${reason}")
  set(HEDDLE_ABSENT_CALLS "${HEDDLE_ABSENT_CALLS}  registry.add(make_absent_backend(\"${absent_name}\", \"${absent_reason}\"));\n" PARENT_SCOPE)
endmacro()

# heddle_backend(VULKAN backend_vulkan make_vulkan_backend FOUND_VARIABLE "what is missing" COMPILER files... INCLUDES
# folders... LIBRARIES libraries...): the last two are for cmake/probes/<backend>.cpp too; COMPILER: of the folder's
# files, those that compile.
function(heddle_backend option folder factory found missing)
  cmake_parse_arguments(PARSE_ARGV 5 probe "" "" "COMPILER;INCLUDES;LIBRARIES")
  string(TOLOWER ${option} name)
  if(HEDDLE_${option} STREQUAL "OFF")
    heddle_left_out("backend ${name}" "HEDDLE_${option}=OFF")
    heddle_absent(${option} "not part of this build (HEDDLE_${option}=OFF)")
    return()
  endif()
  set(works ${${found}})
  set(why "${missing} not found")
  if(works)
    heddle_compiles(works why ${name} INCLUDES ${probe_INCLUDES} LIBRARIES ${probe_LIBRARIES})
  endif()
  if(NOT works)
    if(HEDDLE_${option} STREQUAL "ON")
      message(FATAL_ERROR "HEDDLE_${option}=ON, but: ${why}; run tools/setup.sh")
    endif()
    heddle_left_out("backend ${name}" "${why}")
    heddle_absent(${option} "not part of this build (${why} when it was configured)")
    return()
  endif()
  message(STATUS "Heddle: ${option} backend: on")
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cpp)
  list(TRANSFORM probe_COMPILER PREPEND ${PROJECT_SOURCE_DIR}/${folder}/)
  if(probe_COMPILER)
    list(REMOVE_ITEM sources ${probe_COMPILER})
  endif()
  target_sources(heddle_loaders PRIVATE ${sources})
  target_sources(heddle PRIVATE ${probe_COMPILER})
  target_include_directories(heddle_loaders SYSTEM PRIVATE ${probe_INCLUDES})
  target_include_directories(heddle SYSTEM PRIVATE ${probe_INCLUDES})
  set(HEDDLE_BACKENDS ${HEDDLE_BACKENDS} ${factory} PARENT_SCOPE)
endfunction()

include(backend_cuda/find.cmake)
include(backend_opencl/find.cmake)
include(backend_vulkan/find.cmake)

set(declarations "")
set(calls "")
foreach(factory IN LISTS HEDDLE_BACKENDS)
  string(APPEND declarations "std::unique_ptr<Backend> ${factory}();\n")
  string(APPEND calls "  registry.add(${factory}());\n")
endforeach()
function(heddle_write_backends file declarations calls)
  string(CONCAT text
    "#include \"heddle/core/device/absent_backend.h\"\n#include \"heddle/core/device/registry.h\"\n\n"
    "namespace heddle {\n\n" "${declarations}\n\n"
    "void register_builtin_backends(Registry& registry) {\n${calls}${HEDDLE_ABSENT_CALLS}}\n\n}  // namespace heddle\n")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${file} CONTENT "${text}")
endfunction()
# The small library has none of the devices that take no kernels.
heddle_write_backends(runtime_backends.cpp "${declarations}" "${calls}")
foreach(factory make_reference_backend make_null_backend)
  string(APPEND declarations "std::unique_ptr<Backend> ${factory}();\n")
  string(APPEND calls "  registry.add(${factory}());\n")
endforeach()
heddle_write_backends(builtin_backends.cpp "${declarations}" "${calls}")
target_sources(heddle_loaders PRIVATE ${PROJECT_BINARY_DIR}/generated/builtin_backends.cpp)
target_sources(heddle_runtime PRIVATE ${PROJECT_BINARY_DIR}/generated/runtime_backends.cpp)

# Compilers by target (core/contract/kernel_compiler.h).
set(declarations "const KernelCompiler& text_compiler();\n")
set(cases "    case Target::opencl:\n      return &text_compiler();\n")
foreach(entry IN ITEMS "glsl=vulkan" "cuda=cuda")
  string(REGEX MATCH "^(.*)=(.*)$" _ ${entry})
  if(make_${CMAKE_MATCH_2}_backend IN_LIST HEDDLE_BACKENDS)
    string(APPEND declarations "const KernelCompiler& ${CMAKE_MATCH_2}_compiler();\n")
    string(APPEND cases "    case Target::${CMAKE_MATCH_1}:\n      return &${CMAKE_MATCH_2}_compiler();\n")
  endif()
endforeach()
function(heddle_write_compilers file body)
  string(CONCAT text "#include \"heddle/core/contract/kernel_compiler.h\"\n\nnamespace heddle {\n\n" "${body}"
    "\n}  // namespace heddle\n")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/${file} CONTENT "${text}")
endfunction()
string(CONCAT body "${declarations}\n" "const KernelCompiler* builtin_compiler(Target target) {\n  switch (target) {\n${cases}"
  "    default:\n      return nullptr;\n  }\n}\n")
heddle_write_compilers(builtin_compilers.cpp "${body}")
heddle_write_compilers(no_compilers.cpp "const KernelCompiler* builtin_compiler(Target) { return nullptr; }\n")
target_sources(heddle PRIVATE ${PROJECT_BINARY_DIR}/generated/builtin_compilers.cpp)
