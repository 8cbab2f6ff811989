# The cuda backend over a libcuda in host memory (included by tests/CMakeLists.txt where the backend is built).
include(${CMAKE_CURRENT_LIST_DIR}/../ptx/ptx.cmake)
file(GLOB fake_driver CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/fake_*.cpp)
list(REMOVE_ITEM fake_driver ${CMAKE_CURRENT_LIST_DIR}/fake_nvtx.cpp)
add_library(heddle_fake_libcuda SHARED ${fake_driver})
heddle_warnings(heddle_fake_libcuda)
target_include_directories(heddle_fake_libcuda PRIVATE ${HEDDLE_INCLUDE_ROOT} ${PROJECT_SOURCE_DIR})
target_include_directories(heddle_fake_libcuda SYSTEM PRIVATE ${HEDDLE_CUDA_INCLUDE_DIR})
target_link_libraries(heddle_fake_libcuda PRIVATE heddle_ptx)
# In a folder of its own: nothing but this test may ever load it.
set_target_properties(heddle_fake_libcuda PROPERTIES PREFIX "lib" OUTPUT_NAME cuda SUFFIX ".so.1"
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake-cuda)

# A tool that listens to NVTX, as Nsight would be loaded: by NVTX_INJECTION64_PATH.
find_path(HEDDLE_NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h HINTS ${HEDDLE_CUDA_INCLUDE_DIR})
if(HEDDLE_NVTX_INCLUDE_DIR)
  add_library(heddle_fake_nvtx SHARED ${CMAKE_CURRENT_LIST_DIR}/fake_nvtx.cpp)
  heddle_warnings(heddle_fake_nvtx)
  target_include_directories(heddle_fake_nvtx SYSTEM PRIVATE ${HEDDLE_NVTX_INCLUDE_DIR})
  set_target_properties(heddle_fake_nvtx PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake-cuda)
endif()

file(GLOB fake_tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*_test.cpp)
add_executable(heddle_tests_cuda ${fake_tests} ${PROJECT_SOURCE_DIR}/tests/runtime/zoo.cpp)
heddle_warnings(heddle_tests_cuda)
target_link_libraries(heddle_tests_cuda PRIVATE heddle_test_support heddle_fake_libcuda GTest::gtest_main)
add_test(NAME cuda COMMAND heddle_tests_cuda)
set_tests_properties(cuda PROPERTIES LABELS cuda)
# RPATH, not RUNPATH: a driver's folder in LD_LIBRARY_PATH must not win over the fake.
target_link_options(heddle_tests_cuda PRIVATE LINKER:--disable-new-dtags)
if(TARGET heddle_fake_nvtx)
  add_dependencies(heddle_tests_cuda heddle_fake_nvtx)
  target_compile_definitions(heddle_tests_cuda PRIVATE HEDDLE_FAKE_NVTX="$<TARGET_FILE:heddle_fake_nvtx>")
endif()

# A minute of the groups that tools/ptx.sh runs whole, on cuda:0 over the executor: schedules of the product, matrix
# units among them, and other bodies.
set(heddle_ptx_tests *HarnessTest.*/cuda *MatmulGpuTest.*/cuda *ReduceTest.*/cuda *CopyRowsTest.*/cuda
  *ScatterAddTest.*/cuda *AttentionTest.*/cuda)
list(JOIN heddle_ptx_tests ":" heddle_ptx_tests)
add_test(NAME ptx_kernels COMMAND heddle_tests_kernels --gtest_filter=${heddle_ptx_tests})
set_tests_properties(ptx_kernels PROPERTIES LABELS ptx TIMEOUT 900 ENVIRONMENT
  "HEDDLE_TEST_PTX=1;HEDDLE_CUDA_LINES=1;OCL_ICD_VENDORS=/nonexistent;VK_DRIVER_FILES=/nonexistent;VK_ICD_FILENAMES=/nonexistent"
  ENVIRONMENT_MODIFICATION "LD_LIBRARY_PATH=path_list_prepend:${CMAKE_BINARY_DIR}/fake-cuda")
