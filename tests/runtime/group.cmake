# The C interface: in this process as a part of libheddle, and in others over libheddle_runtime alone.
add_subdirectory(${PROJECT_SOURCE_DIR}/examples/runtime ${PROJECT_BINARY_DIR}/examples/runtime)
target_compile_definitions(heddle_tests_runtime PRIVATE HEDDLE_RUN_MODEL="$<TARGET_FILE:heddle_example_run_model>"
  HEDDLE_RUNTIME_LIBRARY="$<TARGET_FILE:heddle_runtime>")
add_dependencies(heddle_tests_runtime heddle_example_run_model heddle_example_game_loop)
