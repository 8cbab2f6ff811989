# What data/ reads files and texts with, each optional: HEDDLE_HAS_PNG, HEDDLE_HAS_JPEG and HEDDLE_HAS_UTF8PROC are
# defined where it is there (for tests of this tree too).

# heddle_codec(HAS name package "what it is for" INCLUDES ... LIBRARIES ...): an empty or false entry means that it was
# not found.
function(heddle_codec has name package purpose)
  cmake_parse_arguments(PARSE_ARGV 4 codec "" "" "INCLUDES;LIBRARIES")
  set(works TRUE)
  foreach(entry IN LISTS codec_INCLUDES codec_LIBRARIES)
    if(NOT entry OR (entry MATCHES "::" AND NOT TARGET ${entry}))
      set(works FALSE)
      set(why "not found (${package})")
    endif()
  endforeach()
  if(works)
    heddle_compiles(works why ${name} INCLUDES ${codec_INCLUDES} LIBRARIES ${codec_LIBRARIES})
  endif()
  if(NOT works)
    heddle_left_out("${purpose}" "${why}")
    return()
  endif()
  target_link_libraries(heddle PRIVATE ${codec_LIBRARIES})
  target_include_directories(heddle SYSTEM PRIVATE ${codec_INCLUDES})
  target_compile_definitions(heddle PUBLIC $<BUILD_INTERFACE:${has}=1>)
  set(${has} TRUE PARENT_SCOPE)
endfunction()

find_package(PNG QUIET)
heddle_codec(HEDDLE_HAS_PNG png libpng-dev "PNG files (libpng)" INCLUDES ${PNG_INCLUDE_DIRS} LIBRARIES PNG::PNG)
if(HEDDLE_HAS_PNG)
  set(HEDDLE_CODEC_PACKAGES PNG)  # of a static library (cmake/install.cmake)
endif()

# libjpeg-turbo's own package names files of packages that are not needed here, so the library is found by itself.
find_path(TURBOJPEG_INCLUDE_DIR turbojpeg.h)
find_library(TURBOJPEG_LIBRARY turbojpeg)
heddle_codec(HEDDLE_HAS_JPEG turbojpeg libturbojpeg0-dev "JPEG files (libjpeg-turbo)" INCLUDES ${TURBOJPEG_INCLUDE_DIR} LIBRARIES ${TURBOJPEG_LIBRARY})

# Unicode's general categories (data/unicode.cpp); the package has no CMake file of its own.
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h)
find_library(UTF8PROC_LIBRARY utf8proc)
heddle_codec(HEDDLE_HAS_UTF8PROC utf8proc libutf8proc-dev "words of texts beyond ASCII (utf8proc)"
  INCLUDES ${UTF8PROC_INCLUDE_DIR} LIBRARIES ${UTF8PROC_LIBRARY})
mark_as_advanced(TURBOJPEG_INCLUDE_DIR TURBOJPEG_LIBRARY UTF8PROC_INCLUDE_DIR UTF8PROC_LIBRARY)
