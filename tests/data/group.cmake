target_link_libraries(heddle_tests_data PRIVATE ZLIB::ZLIB ${TURBOJPEG_LIBRARY})
