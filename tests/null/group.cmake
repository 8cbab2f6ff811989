# The training steps of bench/, whose plans memory_budget_test.cpp looks at.
if(TARGET heddle_bench)
  target_link_libraries(heddle_tests_null PRIVATE heddle_bench)
  target_compile_definitions(heddle_tests_null PRIVATE HEDDLE_HAS_BENCH=1)
endif()
