# Which compilers the library was built with: their checks need no device.
foreach(backend vulkan cuda)
  if("make_${backend}_backend" IN_LIST HEDDLE_BACKENDS)
    string(TOUPPER ${backend} upper)
    target_compile_definitions(heddle_tests_kernels PRIVATE HEDDLE_TEST_${upper}=1)
  endif()
endforeach()

# What PoCL compiles with its optimiser (tests/CMakeLists.txt): what reads its machine code, and products. Those with
# warpgroups PoCL 6 compiles wrongly without it (docs/decisions.md).
set(heddle_optimised_tests MachineCode.*:Devices/MatmulTest.*/opencl:Devices/MatmulWarpgroupsTest.*/opencl)
set_tests_properties(kernels PROPERTIES ENVIRONMENT "GTEST_FILTER=-${heddle_optimised_tests}")
add_test(NAME kernels_optimised COMMAND heddle_tests_kernels --gtest_filter=${heddle_optimised_tests})
set_tests_properties(kernels_optimised PROPERTIES LABELS kernels)

# The rows that README.md shows, as files that readme_rows_test.cpp includes.
include(${PROJECT_SOURCE_DIR}/cmake/doc_code.cmake)
foreach(row op=HEDDLE_UNARY gradient=HEDDLE_GRAD_UNARY catalogue=HEDDLE_ELEMENTWISE)
  string(REPLACE "=" ";" row ${row})
  list(GET row 0 name)
  list(GET row 1 macro)
  heddle_doc_blocks(${PROJECT_SOURCE_DIR}/README.md cpp text "${macro}(")
  heddle_write_if_changed(${PROJECT_BINARY_DIR}/generated/docs/readme_${name}_row.inc "${text}")
endforeach()
target_include_directories(heddle_tests_kernels PRIVATE ${PROJECT_BINARY_DIR}/generated/docs)
