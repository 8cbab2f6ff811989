# Embeds shaders/*.hk, their parts (*.hki), the preludes and shaders/tuned.json (core/tiles/tuning.h) into the library:
# one generated C++ file with a table of (name, text). core/dialect/builtin_files.h declares the table.
file(GLOB HEDDLE_SHADER_FILES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shaders/*.hk ${PROJECT_SOURCE_DIR}/shaders/*.hki
  ${PROJECT_SOURCE_DIR}/shaders/prelude.* ${PROJECT_SOURCE_DIR}/shaders/tuned.json)
set(HEDDLE_EMBEDDED ${PROJECT_BINARY_DIR}/generated/builtin_files.cpp)
add_custom_command(
  OUTPUT ${HEDDLE_EMBEDDED}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${HEDDLE_EMBEDDED} -DFUNCTION=builtin_files -DHEADER=core/dialect/builtin_files.h "-DFILES=${HEDDLE_SHADER_FILES}"
          -P ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake
  DEPENDS ${HEDDLE_SHADER_FILES} ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake
  COMMENT "Embedding shaders" VERBATIM)
target_sources(heddle PRIVATE ${HEDDLE_EMBEDDED})

# What the loader of OpenCL C gives PoCL with each kernel (backend_opencl/declarations.h).
set(HEDDLE_DECLARATIONS ${PROJECT_BINARY_DIR}/generated/opencl_declarations.cpp)
add_custom_command(
  OUTPUT ${HEDDLE_DECLARATIONS}
  COMMAND ${CMAKE_COMMAND} -DOUTPUT=${HEDDLE_DECLARATIONS} -DFUNCTION=opencl_declarations -DHEADER=backend_opencl/declarations.h
          -DFILES=${PROJECT_SOURCE_DIR}/shaders/prelude.pocl -P ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake
  DEPENDS ${PROJECT_SOURCE_DIR}/shaders/prelude.pocl ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake
  COMMENT "Embedding OpenCL's declarations" VERBATIM)
target_sources(heddle_loaders PRIVATE ${HEDDLE_DECLARATIONS})
