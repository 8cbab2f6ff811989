# Script mode: installs the build in BUILD_DIR to a fresh prefix, builds tests/consumer and examples/kernel_test against
# it, and runs both.
foreach(variable BUILD_DIR SOURCE_DIR WORK_DIR GENERATOR CXX BUILD_TYPE SANITIZE)
  if(NOT DEFINED ${variable})
    message(FATAL_ERROR "${variable} is not set")
  endif()
endforeach()

function(run_or_fail what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  message(STATUS "${what}:\n${output}")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what} failed: ${result}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK_DIR})
set(flags "")
if(SANITIZE)
  set(flags "-DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE}" "-DCMAKE_C_FLAGS=-fsanitize=${SANITIZE}")
endif()
run_or_fail("install" ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/prefix)
run_or_fail("configure" ${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE_DIR} -B ${WORK_DIR}/build -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=${BUILD_TYPE}
  -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix ${flags})
run_or_fail("build" ${CMAKE_COMMAND} --build ${WORK_DIR}/build)
run_or_fail("run" ${CMAKE_COMMAND} -E chdir ${WORK_DIR}/build ./consumer reference:0)
run_or_fail("run runtime" ${CMAKE_COMMAND} -E chdir ${WORK_DIR}/build ./runtime)
set(kernel_test ${WORK_DIR}/kernel_test)
run_or_fail("configure kernel_test" ${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE_DIR}/../../examples/kernel_test -B ${kernel_test}
  -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_PREFIX_PATH=${WORK_DIR}/prefix ${flags})
run_or_fail("build kernel_test" ${CMAKE_COMMAND} --build ${kernel_test})
run_or_fail("run kernel_test" ${CMAKE_CTEST_COMMAND} --test-dir ${kernel_test} --output-on-failure)
run_or_fail("installed tool" ${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH ${WORK_DIR}/prefix/bin/heddle version)
