# The component kernel_test of the installed package (docs/extending.md, "Testing kernels of your own").
# Before: GTest was found, and heddle_EXECUTOR_DIR is the folder of the executor of PTX, or empty.

# heddle_add_kernel_test(NAME sources...): an executable with GoogleTest's main(); CTest NAME runs it on all devices of
# the machine, and CTest NAME.executor on the executor of PTX alone, where this Heddle was built with the CUDA headers;
# without NVRTC its tests are skipped, with the reason.
function(heddle_add_kernel_test name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE heddle::heddle GTest::gtest_main)
  # Kernels lie beside the test's source: KERNEL_DIR "/saxpy.hk".
  target_compile_definitions(${name} PRIVATE KERNEL_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  if(heddle_EXECUTOR_DIR)
    add_test(NAME ${name}.executor COMMAND ${name})
    set_tests_properties(${name}.executor PROPERTIES
      ENVIRONMENT "HEDDLE_TEST_DEVICES=cuda:0;HEDDLE_CUDA_LINES=1;OCL_ICD_VENDORS=/nonexistent;VK_DRIVER_FILES=/nonexistent;VK_ICD_FILENAMES=/nonexistent"
      ENVIRONMENT_MODIFICATION "LD_LIBRARY_PATH=path_list_prepend:${heddle_EXECUTOR_DIR}")
  else()
    message(STATUS "heddle: ${name} runs on devices only: this Heddle has no executor of PTX (it was built without the CUDA headers, or without its tests)")
  endif()
endfunction()
