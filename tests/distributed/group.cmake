# A rank that mpirun starts (mpi_test.cpp).
add_executable(heddle_mpi_ranks ${CMAKE_CURRENT_SOURCE_DIR}/distributed/programs/ranks.cpp)
heddle_warnings(heddle_mpi_ranks)
target_link_libraries(heddle_mpi_ranks PRIVATE heddle)
target_sources(heddle_tests_distributed PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/cli/subprocess.cpp)
target_compile_definitions(heddle_tests_distributed PRIVATE HEDDLE_MPI_RANKS="$<TARGET_FILE:heddle_mpi_ranks>")
add_dependencies(heddle_tests_distributed heddle_mpi_ranks)
# What train_test.cpp launches.
add_dependencies(heddle_tests_distributed heddle_cli)
# What mpirun_errors_test.cpp asks.
target_sources(heddle_tests_distributed PRIVATE ${PROJECT_SOURCE_DIR}/tools/mpirun_errors.cpp)
