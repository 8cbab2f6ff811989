# Run by `cmake --install`. The installed headers are what <heddle/heddle.h> and the trainer bring, what a backend
# outside of this tree is written against, and all that stands behind these by their own #include lines.
# In: SOURCE_DIR, INCLUDE_DIR (relative to the prefix), HAS_ONNX.
cmake_minimum_required(VERSION 3.25)

set(open
  heddle.h autograd/gradcheck.h distributed/shard_map.h train/checkpoint.h train/recipe.h train/tensorboard.h train/trainer.h
  # backends (docs/extending.md)
  core/contract/device.h core/contract/slices.h core/device/in_flight.h core/device/registry.h core/device/validate.h
  core/dialect/printer.h
  # tests of users' kernels (examples/kernel_test)
  checks/kernel_test.h
  # models as images, and the C interface over them
  deploy/write_compiled.h runtime/heddle.h)
if(HAS_ONNX)
  list(APPEND open onnx/export.h onnx/import.h)
endif()
set(found "")
while(open)
  list(POP_FRONT open header)
  if(header IN_LIST found)
    continue()
  endif()
  list(APPEND found ${header})
  file(STRINGS ${SOURCE_DIR}/${header} lines REGEX "^ *# *include +\"heddle/")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^ *# *include +\"heddle/([^\"]+)\".*" "\\1" target "${line}")
    list(APPEND open ${target})
  endforeach()
endwhile()

foreach(header IN LISTS found)
  cmake_path(GET header PARENT_PATH folder)
  file(INSTALL ${SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_PREFIX}/${INCLUDE_DIR}/heddle/${folder})
endforeach()
