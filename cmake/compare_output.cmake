# cmake -DPROGRAM=... -DSHOWN=... -P compare_output.cmake: runs PROGRAM and compares its standard output with the file
# SHOWN, whatever device either names.
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE printed RESULT_VARIABLE code)
file(READ ${SHOWN} shown)
foreach(text printed shown)
  string(REGEX REPLACE "(reference|opencl|vulkan|cuda):[0-9]+" "DEVICE" ${text} "${${text}}")
endforeach()
if(NOT code EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} ended with ${code} and printed\n${printed}")
endif()
if(NOT printed STREQUAL shown)
  message(FATAL_ERROR "${PROGRAM} printed\n${printed}\nand the page shows\n${shown}")
endif()
