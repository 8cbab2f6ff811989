# Decides which backends are built and generates the file that registers them: static initialisers would vanish from a
# static library. Those left out are registered as absent, with the reason, so that `heddle devices` can say why.
set(HEDDLE_BACKENDS "")
set(HEDDLE_ABSENT_CALLS "")

# For use in heddle_backend: heddle_absent(VULKAN "why").
macro(heddle_absent option reason)
  string(TOLOWER ${option} absent_name)
  string(REPLACE "\"" "'" absent_reason "${reason}")
  set(HEDDLE_ABSENT_CALLS "${HEDDLE_ABSENT_CALLS}  registry.add(make_absent_backend(\"${absent_name}\", \"${absent_reason}\"));\n" PARENT_SCOPE)
endmacro()

# heddle_backend(VULKAN backend_vulkan make_vulkan_backend FOUND_VARIABLE "what is missing" INCLUDES folders...
# LIBRARIES libraries...): the last two for cmake/probes/<backend>.cpp.
function(heddle_backend option folder factory found missing)
  cmake_parse_arguments(PARSE_ARGV 5 probe "" "" "INCLUDES;LIBRARIES")
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
  target_sources(heddle PRIVATE ${sources})
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
string(CONCAT text
  "#include \"heddle/core/device/absent_backend.h\"\n#include \"heddle/core/device/registry.h\"\n\n"
  "namespace heddle {\n\n"
  "${declarations}std::unique_ptr<Backend> make_reference_backend();\n"
  "std::unique_ptr<Backend> make_null_backend();\n\n\n"
  "void register_builtin_backends(Registry& registry) {\n${calls}"
  "  registry.add(make_reference_backend());\n  registry.add(make_null_backend());\n"
  "${HEDDLE_ABSENT_CALLS}}\n\n}  // namespace heddle\n")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/builtin_backends.cpp CONTENT "${text}")
target_sources(heddle PRIVATE ${PROJECT_BINARY_DIR}/generated/builtin_backends.cpp)
