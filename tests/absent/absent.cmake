# What a build without libpng, libjpeg-turbo and utf8proc does: the files of data/ that use them, compiled as such a
# build compiles them. Their functions stand in the program itself, which is searched before the library (included by
# tests/CMakeLists.txt).
set(codec_users ${PROJECT_SOURCE_DIR}/data/image_png.cpp ${PROJECT_SOURCE_DIR}/data/image_jpeg.cpp ${PROJECT_SOURCE_DIR}/data/unicode.cpp)
add_executable(heddle_tests_absent ${CMAKE_CURRENT_LIST_DIR}/absent_test.cpp ${codec_users})
heddle_warnings(heddle_tests_absent)
target_compile_options(heddle_tests_absent PRIVATE -UHEDDLE_HAS_PNG -UHEDDLE_HAS_JPEG -UHEDDLE_HAS_UTF8PROC)
target_link_libraries(heddle_tests_absent PRIVATE heddle_test_support GTest::gtest_main)
add_test(NAME absent COMMAND heddle_tests_absent)
set_tests_properties(absent PROPERTIES LABELS data)
