# Devices side by side, and the properties by themselves: `ctest -j` runs them at once. The entry `reference` is what is
# left: the reference device.
set_tests_properties(reference PROPERTIES ENVIRONMENT "GTEST_FILTER=Torch*reference_0*:PropertyExemptions.*")
function(heddle_reference_part part filter)
  add_test(NAME reference_${part} COMMAND heddle_tests_reference --gtest_filter=${filter})
  set_tests_properties(reference_${part} PROPERTIES LABELS reference)
endfunction()
heddle_reference_part(properties "Property/*")
heddle_reference_part(opencl "*opencl*")
heddle_reference_part(vulkan "*vulkan*")
heddle_reference_part(rest "-Torch/*:Property/*:PropertyExemptions.*:*opencl*:*vulkan*")
