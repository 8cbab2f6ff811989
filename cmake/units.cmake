# A build from nothing in few translation units (HEDDLE_UNITS, the presets quickstart, asan and tsan): the files of a
# folder are compiled as one or a few, so that headers are read and templates are made once for them, not once a file. It
# costs what is built again after a change, so other presets leave it out. In a folder no two files may define the same
# name in an anonymous namespace: tests/unit/folder_names_test.cpp.
set(HEDDLE_UNIT_BYTES 250000)  # of sources: what a compiler takes half a minute and a gigabyte for

# heddle_units(target): groups the sources that the target has by now.
function(heddle_units target)
  if(NOT HEDDLE_UNITS)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(SORT sources)
  set(before "")
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    cmake_path(GET source PARENT_PATH folder)
    if(EXISTS ${source})
      file(SIZE ${source} bytes)
    else()  # generated
      set(bytes 0)
    endif()
    if(NOT folder STREQUAL before)
      set(before ${folder})
      set(number 0)
      set(held 0)
    endif()
    math(EXPR held "${held} + ${bytes}")
    if(held GREATER HEDDLE_UNIT_BYTES)
      math(EXPR number "${number} + 1")
      set(held ${bytes})
    endif()
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE name)
    string(MAKE_C_IDENTIFIER "${name}_${number}" name)
    set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${name})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Developers' builds warn: of files as one some warnings are wrong, and they cost time.
  target_compile_options(${target} PRIVATE -w)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Large units in which the compiler seldom collects garbage: a tenth of its time for a third more memory.
    target_compile_options(${target} PRIVATE "SHELL:--param ggc-min-expand=300" "SHELL:--param ggc-min-heapsize=600000")
  endif()
endfunction()
