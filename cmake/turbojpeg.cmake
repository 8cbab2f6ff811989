# libjpeg-turbo's own package names files of packages that are not needed here, so the library is found by itself.
find_path(TURBOJPEG_INCLUDE_DIR turbojpeg.h REQUIRED)
find_library(TURBOJPEG_LIBRARY turbojpeg REQUIRED)
mark_as_advanced(TURBOJPEG_INCLUDE_DIR TURBOJPEG_LIBRARY)
