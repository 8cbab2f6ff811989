add_dependencies(heddle_tests_cli heddle_cli)
set_tests_properties(cli PROPERTIES TIMEOUT 600)
include(${CMAKE_CURRENT_SOURCE_DIR}/consumer/group.cmake)
# The example of the README is compiled with the test that compares the two.
add_subdirectory(${PROJECT_SOURCE_DIR}/examples ${PROJECT_BINARY_DIR}/examples)
