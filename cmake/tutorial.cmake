# docs/tutorial: the code of each page is one program, compiled as it stands and run as a test, which compares what it
# prints with the page. The lines in front of main()'s body are those that the first page shows.
include(${PROJECT_SOURCE_DIR}/cmake/doc_code.cmake)

set(folder ${PROJECT_BINARY_DIR}/generated/tutorial)
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/tutorial/*.md)
heddle_doc_blocks(${PROJECT_SOURCE_DIR}/docs/tutorial/1-tensors.md c++ frame)
foreach(page ${pages})
  get_filename_component(name ${page} NAME_WE)
  string(REPLACE "-" "_" name tutorial_${name})
  heddle_doc_blocks(${page} cpp code)
  heddle_doc_blocks(${page} text shown)
  heddle_write_if_changed(${folder}/${name}.cpp "${frame}${code}}\n")
  heddle_write_if_changed(${folder}/${name}.txt "${shown}")
  add_executable(heddle_${name} ${folder}/${name}.cpp)
  heddle_warnings(heddle_${name})
  target_link_libraries(heddle_${name} PRIVATE heddle)
  add_test(NAME ${name}
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:heddle_${name}> -DSHOWN=${folder}/${name}.txt
            -P ${PROJECT_SOURCE_DIR}/cmake/compare_output.cmake
    WORKING_DIRECTORY ${folder})
  set_tests_properties(${name} PROPERTIES LABELS tutorial)
endforeach()
