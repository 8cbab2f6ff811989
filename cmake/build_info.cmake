# Writes generated/build_info.cpp (core/base/build_info.h) at every build, if it changed: the commit of the moment, not
# that of the configuration.
if(DEFINED OUTPUT)  # script mode
  execute_process(COMMAND ${CMAKE_COMMAND} -E env GIT_OPTIONAL_LOCKS=0 git -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --match=
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit unknown)
  endif()
  file(CONFIGURE OUTPUT ${OUTPUT} CONTENT
"#include \"heddle/core/base/build_info.h\"\n\nnamespace heddle {\n
std::string_view library_version() { return \"${VERSION}\"; }
std::string_view source_commit() { return \"${commit}\"; }
std::string_view compiler_version() { return __VERSION__; }\n
}  // namespace heddle\n")
  return()
endif()

set(HEDDLE_BUILD_INFO ${PROJECT_BINARY_DIR}/generated/build_info.cpp)
add_custom_target(heddle_build_info BYPRODUCTS ${HEDDLE_BUILD_INFO}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${HEDDLE_BUILD_INFO} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
  -P ${PROJECT_SOURCE_DIR}/cmake/build_info.cmake
  COMMENT "Commit" VERBATIM)
target_sources(heddle PRIVATE ${HEDDLE_BUILD_INFO})
add_dependencies(heddle heddle_build_info)
