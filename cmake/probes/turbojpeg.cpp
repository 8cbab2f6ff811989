// libjpeg-turbo's TurboJPEG interface (2 or 3), as data/image_jpeg.cpp uses it.
#include <turbojpeg.h>

int main() {
  const tjhandle decoder = tjInitDecompress();
  const unsigned char file[2] = {};
  unsigned char pixels[3] = {};
  int width = 0, height = 0, sampling = 0, colours = 0;
  tjDecompressHeader3(decoder, file, 2, &width, &height, &sampling, &colours);
  tjDecompress2(decoder, file, 2, pixels, width, 0, height, TJPF_RGB, TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING);
  const char* text = tjGetErrorStr2(decoder);
  tjDestroy(decoder);
  return text == nullptr || colours == TJCS_GRAY;
}
