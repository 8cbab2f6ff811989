# Which compilers the library was built with: their checks need no device.
foreach(backend vulkan cuda)
  if("make_${backend}_backend" IN_LIST HEDDLE_BACKENDS)
    string(TOUPPER ${backend} upper)
    target_compile_definitions(heddle_tests_kernels PRIVATE HEDDLE_TEST_${upper}=1)
  endif()
endforeach()
