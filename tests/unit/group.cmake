# The parts of bench/ that need no device.
if(TARGET heddle_bench)
  target_link_libraries(heddle_tests_unit PRIVATE heddle_bench)
  target_compile_definitions(heddle_tests_unit PRIVATE HEDDLE_HAS_BENCH=1)
endif()
