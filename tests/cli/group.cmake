add_dependencies(heddle_tests_cli heddle_cli)
# With no kernels cached it is bound by the compilers of drivers: 400 s on a fast machine, twice that on a slow one.
set_tests_properties(cli PROPERTIES TIMEOUT 1800)
include(${CMAKE_CURRENT_SOURCE_DIR}/consumer/group.cmake)
# The example of the README is compiled with the test that compares the two.
add_subdirectory(${PROJECT_SOURCE_DIR}/examples ${PROJECT_BINARY_DIR}/examples)
# A program that leaves work pending when it ends (exit_test.cpp).
add_executable(heddle_pending_at_exit ${CMAKE_CURRENT_SOURCE_DIR}/cli/programs/pending_at_exit.cpp)
heddle_warnings(heddle_pending_at_exit)
target_link_libraries(heddle_pending_at_exit PRIVATE heddle Threads::Threads)
target_compile_definitions(heddle_tests_cli PRIVATE HEDDLE_PENDING_AT_EXIT="$<TARGET_FILE:heddle_pending_at_exit>")
add_dependencies(heddle_tests_cli heddle_pending_at_exit)
# A driver that dies (driver_test.cpp).
add_library(heddle_fatal_driver MODULE ${CMAKE_CURRENT_SOURCE_DIR}/cli/programs/fatal_driver.cpp)
target_compile_options(heddle_fatal_driver PRIVATE -Wall -Wextra)
target_compile_definitions(heddle_tests_cli PRIVATE HEDDLE_FATAL_DRIVER="$<TARGET_FILE:heddle_fatal_driver>")
add_dependencies(heddle_tests_cli heddle_fatal_driver)
# A driver over another interface (driver_test.cpp).
if(make_vulkan_backend IN_LIST HEDDLE_BACKENDS)
  add_library(heddle_portability_driver MODULE ${CMAKE_CURRENT_SOURCE_DIR}/cli/programs/portability_driver.cpp)
  target_compile_options(heddle_portability_driver PRIVATE -Wall -Wextra)
  target_include_directories(heddle_portability_driver SYSTEM PRIVATE ${HEDDLE_VULKAN_INCLUDE})
  target_compile_definitions(heddle_tests_cli PRIVATE HEDDLE_PORTABILITY_DRIVER="$<TARGET_FILE:heddle_portability_driver>")
  add_dependencies(heddle_tests_cli heddle_portability_driver)
endif()
# A device that computes something else (doctor_test.cpp).
add_library(heddle_backend_wrong MODULE ${CMAKE_CURRENT_SOURCE_DIR}/cli/programs/wrong_backend.cpp ${CMAKE_CURRENT_SOURCE_DIR}/support/faulty_device.cpp)
heddle_warnings(heddle_backend_wrong)
target_include_directories(heddle_backend_wrong PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(heddle_backend_wrong PRIVATE heddle fmt::fmt)
set_target_properties(heddle_backend_wrong PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/plugins-wrong)
target_compile_definitions(heddle_tests_cli PRIVATE HEDDLE_WRONG_BACKEND="${CMAKE_BINARY_DIR}/plugins-wrong")
add_dependencies(heddle_tests_cli heddle_backend_wrong)
