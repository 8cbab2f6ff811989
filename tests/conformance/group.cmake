# Whole programs with two queues on devices that run one by default (Caps::queues).
add_test(NAME conformance_queues COMMAND heddle_tests_conformance --gtest_filter=RandomGraphs.*:*CheckpointTraining*:*BudgetTraining*)
set_tests_properties(conformance_queues PROPERTIES LABELS conformance ENVIRONMENT "HEDDLE_QUEUES=2")
# A binding that covers 16 KiB: values that are larger are computed in sections.
add_test(NAME conformance_bindings COMMAND heddle_tests_conformance --gtest_filter=*BindingLimit.*)
set_tests_properties(conformance_bindings PROPERTIES LABELS conformance ENVIRONMENT "HEDDLE_MAX_BINDING=16384")
# A CPU whose vector registers hold a quarter of AVX-512's floats, where drivers compile for more, and the other way
# round where they do not: other numbers of sums, and vectors of other widths (core/tiles/cpu_registers.h).
add_test(NAME conformance_narrow_registers COMMAND heddle_tests_conformance
  --gtest_filter=*Matmul*opencl*:*Conv*opencl*:*Attention*opencl*:*Mlp*opencl*)
set_tests_properties(conformance_narrow_registers PROPERTIES LABELS conformance
  ENVIRONMENT "HEDDLE_REGISTER_FLOATS=128")
add_test(NAME conformance_wide_registers COMMAND heddle_tests_conformance --gtest_filter=*Conv*opencl*)
set_tests_properties(conformance_wide_registers PROPERTIES LABELS conformance ENVIRONMENT "HEDDLE_REGISTER_FLOATS=512")
# Vulkan devices without 8- and 16-bit storage and without 64-bit integers, as SwiftShader and many phones are: their
# kernels see 32-bit words (backend_vulkan/int64_words.h). Without texel buffers, so that loads see them too.
add_test(NAME conformance_words COMMAND heddle_tests_conformance
  --gtest_filter=*Int64*vulkan*:*Casts*vulkan*:*Movement*vulkan*:*CopyRows*vulkan*:*MovedBits*vulkan*:*DeviceContract*vulkan*)
set_tests_properties(conformance_words PROPERTIES LABELS conformance
  ENVIRONMENT "HEDDLE_VULKAN_WITHOUT=storage8,storage16,int64;HEDDLE_TEXELS=none")
# The training steps of bench/, and the programs that run one that a test planned (image_test.cpp) in another process.
if(TARGET heddle_bench)
  target_link_libraries(heddle_tests_conformance PRIVATE heddle_bench)
  add_executable(heddle_image_run ${CMAKE_CURRENT_SOURCE_DIR}/conformance/programs/image_run.cpp)
  heddle_warnings(heddle_image_run)
  target_link_libraries(heddle_image_run PRIVATE heddle_test_support)
  # The same over nothing but loaders: it links neither planner nor compilers.
  add_executable(heddle_runtime_run ${CMAKE_CURRENT_SOURCE_DIR}/conformance/programs/image_run.cpp)
  heddle_warnings(heddle_runtime_run)
  target_include_directories(heddle_runtime_run PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(heddle_runtime_run PRIVATE heddle_image_loaders)
  target_compile_definitions(heddle_tests_conformance PRIVATE HEDDLE_HAS_BENCH=1
    HEDDLE_IMAGE_RUN="$<TARGET_FILE:heddle_image_run>" HEDDLE_RUNTIME_RUN="$<TARGET_FILE:heddle_runtime_run>")
  add_dependencies(heddle_tests_conformance heddle_image_run heddle_runtime_run)
endif()
# A driver that runs commands while they are enqueued, in the thread that enqueues: PoCL's `basic` device, alone, on what
# depends on that: the contract, asynchronous evaluation, slices (tools/drivers.sh runs more, on more drivers).
add_test(NAME conformance_basic COMMAND heddle_tests_conformance
  --gtest_filter=*DeviceContract.*opencl*:*Async.*opencl*:*Slices.*opencl*:OpenCl.*:*ControlFlow.InsideCompileAndCheckpoint*opencl*)
set_tests_properties(conformance_basic PROPERTIES LABELS conformance RESOURCE_LOCK conformance_kernels
  ENVIRONMENT "POCL_DEVICES=basic;VK_DRIVER_FILES=/nonexistent;VK_ICD_FILENAMES=/nonexistent")
# Another vendor's Vulkan driver, SwiftShader, which really has little: no 8- and 16-bit storage, no 64-bit integers, no f64.
find_file(HEDDLE_SWIFTSHADER vk_swiftshader_icd.json PATHS /usr/lib/chromium NO_DEFAULT_PATH)
if(HEDDLE_SWIFTSHADER)
  add_test(NAME conformance_swiftshader COMMAND heddle_tests_conformance
    --gtest_filter=*DeviceContract.*vulkan*:*StepTest*vulkan*:*Rows.*vulkan*:*Int64*vulkan*:*Casts*vulkan*:*Slices*vulkan*:*CheckpointTraining*vulkan*)
  set_tests_properties(conformance_swiftshader PROPERTIES LABELS conformance
    ENVIRONMENT "OCL_ICD_VENDORS=/nonexistent;VK_DRIVER_FILES=${HEDDLE_SWIFTSHADER};VK_ICD_FILENAMES=${HEDDLE_SWIFTSHADER}")
else()
  heddle_left_out("tests on SwiftShader" "not found (chromium-common)")
endif()
