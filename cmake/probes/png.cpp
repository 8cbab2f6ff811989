// libpng 1.6, as data/image_png.cpp uses it.
#include <png.h>

int main() {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  const png_color black{0, 0, 0};
  png_image_begin_read_from_memory(&image, nullptr, 0);
  png_image_finish_read(&image, &black, nullptr, 0, nullptr);
  png_image_write_to_memory(&image, nullptr, &bytes, 0, nullptr, 0, nullptr);
  png_image_free(&image);
  return PNG_IMAGE_FAILED(image);
}
