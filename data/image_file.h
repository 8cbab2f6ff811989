// Image files and folders of them: PNG and JPEG.
//
// Invariants: pixels are u8 of shape (channels, height, width), 1 channel for grey and 3 for RGB; transparency is laid
// on black; 16 bits become 8. Errors: IoError with the path and the decoder's reason for a file that is missing, no
// image, broken or cut short, larger than 2^27 pixels, or with more pixels than a file of its length can hold (about
// 8,000 a byte of PNG's compressed data at 1 bit, 512 for JPEG): a header is not believed, and a large PNG that takes
// many times its file is inflated once before memory is taken for its pixels. A file whose decoder (libpng,
// libjpeg-turbo) this build lacks is an IoError that names it. Thread safety: may be called from any thread.
#pragma once

#include <string>
#include <vector>

#include "heddle/data/dataset.h"

namespace heddle::data {

// Which of the two is told by the content, not by the name. `channels`: 1, 3, or 0 for what the file has.
Array read_image(const std::string& path, int channels = 0);
// 8-bit PNG of u8 pixels (1 or 3, height, width).
void write_png(const std::string& path, const Array& pixels);

// A folder with a folder of images for each class: (pixels, label i32), classes by name in ascending order. Names that
// end with neither .png, .jpg nor .jpeg are left out. IoError for a folder without any.
class ImageFolder final : public Dataset {
 public:
  explicit ImageFolder(const std::string& folder, int channels = 3);
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  Sample get(int64_t index, Random& random) const override;
  const std::vector<std::string>& classes() const { return classes_; }
  // 0 <= index < size().
  const std::string& path(int64_t index) const { return file(index).path; }

 private:
  struct File {
    std::string path;
    int32_t label;
  };
  const File& file(int64_t index) const;

  int channels_;
  std::vector<std::string> classes_;
  std::vector<File> files_;
};

}  // namespace heddle::data
