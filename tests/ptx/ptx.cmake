# The executor of PTX, and its tests (included by fake_cuda.cmake).
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*_test.cpp)
list(REMOVE_ITEM sources ${tests})
add_library(heddle_ptx STATIC ${sources})
heddle_warnings(heddle_ptx)
find_package(Threads REQUIRED)
target_include_directories(heddle_ptx PUBLIC ${PROJECT_SOURCE_DIR})
target_link_libraries(heddle_ptx PUBLIC Threads::Threads)
set_target_properties(heddle_ptx PROPERTIES POSITION_INDEPENDENT_CODE ON)
# Conformance runs on its loops. Registers are bytes that instructions read as their types; a * b + c rounds twice.
target_compile_options(heddle_ptx PRIVATE -O2 -fno-strict-aliasing -ffp-contract=off)

add_executable(heddle_tests_ptx ${tests})
heddle_warnings(heddle_tests_ptx)
target_link_libraries(heddle_tests_ptx PRIVATE heddle_test_support heddle_ptx GTest::gtest_main)
add_test(NAME ptx COMMAND heddle_tests_ptx)
set_tests_properties(ptx PROPERTIES LABELS ptx)
