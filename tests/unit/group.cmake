# The parts of bench/ that need no device.
if(TARGET heddle_bench)
  target_link_libraries(heddle_tests_unit PRIVATE heddle_bench)
  target_compile_definitions(heddle_tests_unit PRIVATE HEDDLE_HAS_BENCH=1)
endif()

# What of `heddle certify` needs no compiler.
foreach(part gcn gen gpu_families listing model rank_correlation sass)
  target_sources(heddle_tests_unit PRIVATE ${PROJECT_SOURCE_DIR}/tools/certify/${part}.cpp)
endforeach()

# The codes of docs/pytorch.md, as a file that pytorch_table_test.cpp includes.
include(${PROJECT_SOURCE_DIR}/cmake/doc_code.cmake)
heddle_doc_table(${PROJECT_SOURCE_DIR}/docs/pytorch.md HEDDLE_CODE text)
heddle_write_if_changed(${PROJECT_BINARY_DIR}/generated/docs/pytorch_table.inc "${text}")
target_include_directories(heddle_tests_unit PRIVATE ${PROJECT_BINARY_DIR}/generated/docs)
