# Parts that a build can do without: a peer of the benchmarks, an image codec, a backend. One that is absent, or too old
# or too new for the code that uses it, is left out, and the last line of the configuration says so and why.

# heddle_left_out("libpng" "png.h not found")
function(heddle_left_out what why)
  set_property(GLOBAL APPEND PROPERTY HEDDLE_LEFT_OUT "${what}: ${why}")
endfunction()

# The last line.
function(heddle_report_left_out)
  get_property(left_out GLOBAL PROPERTY HEDDLE_LEFT_OUT)
  list(JOIN left_out "; " left_out)
  if(left_out STREQUAL "")
    set(left_out "nothing")
  endif()
  message(STATUS "Heddle: left out: ${left_out}")
endfunction()

# heddle_compiles(RESULT_VARIABLE WHY_VARIABLE name INCLUDES folders... LIBRARIES libraries...): whether
# cmake/probes/<name>.cpp, which uses the part as Heddle does, compiles and links. A success is kept in the cache; a
# failure is tried again by the next configuration.
function(heddle_compiles result why name)
  cmake_parse_arguments(PARSE_ARGV 3 part "" "" "INCLUDES;LIBRARIES")
  set(includes ${HEDDLE_INCLUDE_ROOT} ${PROJECT_SOURCE_DIR} ${part_INCLUDES})
  string(MD5 inputs "${includes} ${part_LIBRARIES}")
  if(NOT HEDDLE_COMPILES_${name} STREQUAL inputs)
    try_compile(compiled SOURCES ${PROJECT_SOURCE_DIR}/cmake/probes/${name}.cpp
      CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${includes}" LINK_LIBRARIES ${part_LIBRARIES} ${CMAKE_DL_LIBS} OUTPUT_VARIABLE output
      CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
    set(works ${compiled})
    unset(compiled CACHE)
    if(NOT works)
      unset(HEDDLE_COMPILES_${name} CACHE)
      string(REGEX MATCH "(error|undefined reference)[^\n]*" complaint "${output}")
      string(REPLACE ";" "," complaint "${complaint}")
      set(${result} FALSE PARENT_SCOPE)
      set(${why} "found, but it does not compile (${complaint})" PARENT_SCOPE)
      return()
    endif()
    set(HEDDLE_COMPILES_${name} ${inputs} CACHE INTERNAL "What cmake/probes/${name}.cpp was compiled with")
  endif()
  set(${result} TRUE PARENT_SCOPE)
  set(${why} "" PARENT_SCOPE)
endfunction()
