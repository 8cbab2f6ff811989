add_dependencies(heddle_tests_cli heddle_cli)
set_tests_properties(cli PROPERTIES TIMEOUT 600)
include(${CMAKE_CURRENT_SOURCE_DIR}/consumer/group.cmake)
