# Install and export: find_package(heddle) gives heddle::heddle. Headers go to include/heddle: `#include
# <heddle/heddle.h>`.
include(CMakePackageConfigHelpers)

set(HEDDLE_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)
install(TARGETS heddle heddle_runtime EXPORT heddleTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS heddle_probe RUNTIME DESTINATION ${CMAKE_INSTALL_LIBDIR}/heddle)
install(CODE "set(SOURCE_DIR ${PROJECT_SOURCE_DIR})
  set(INCLUDE_DIR ${CMAKE_INSTALL_INCLUDEDIR})
  set(HAS_ONNX ${HEDDLE_HAS_ONNX})")
install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_headers.cmake)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# A static library leaves its private dependencies to whoever links it.
set(HEDDLE_CONFIG_DEPENDENCIES "")
if(NOT BUILD_SHARED_LIBS)
  set(HEDDLE_CONFIG_DEPENDENCIES fmt Threads ZLIB ${HEDDLE_CODEC_PACKAGES})
  list(JOIN HEDDLE_CONFIG_DEPENDENCIES " " HEDDLE_CONFIG_DEPENDENCIES)
endif()
# The component kernel_test: tests of users' kernels on devices, and on the executor of PTX, the tests' libcuda, in a
# folder of its own that no loader looks into.
set(HEDDLE_EXECUTOR_DIR ${CMAKE_INSTALL_LIBDIR}/heddle/executor)
if(TARGET heddle_fake_libcuda)
  install(TARGETS heddle_fake_libcuda LIBRARY DESTINATION ${HEDDLE_EXECUTOR_DIR})
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/heddleConfig.cmake.in ${PROJECT_BINARY_DIR}/heddleConfig.cmake
  INSTALL_DESTINATION ${HEDDLE_CMAKE_DIR} PATH_VARS HEDDLE_EXECUTOR_DIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/heddleConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/heddleConfig.cmake ${PROJECT_BINARY_DIR}/heddleConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/heddleKernelTest.cmake DESTINATION ${HEDDLE_CMAKE_DIR})
install(EXPORT heddleTargets NAMESPACE heddle:: DESTINATION ${HEDDLE_CMAKE_DIR})

if(TARGET heddle_cli)
  file(RELATIVE_PATH HEDDLE_LIB_FROM_BIN ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(heddle_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${HEDDLE_LIB_FROM_BIN}")
  install(TARGETS heddle_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/docs/heddle.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  # The program prints its own completion scripts.
  foreach(script bash:bash-completion/completions/heddle zsh:zsh/site-functions/_heddle fish:fish/vendor_completions.d/heddle.fish)
    string(REPLACE ":" ";" script ${script})
    list(GET script 0 shell)
    list(GET script 1 path)
    install(CODE "set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/${path}\")
      cmake_path(GET file PARENT_PATH folder)
      file(MAKE_DIRECTORY \${folder})
      execute_process(COMMAND $<TARGET_FILE:heddle_cli> completion ${shell} OUTPUT_FILE \${file} COMMAND_ERROR_IS_FATAL ANY)")
  endforeach()
endif()
