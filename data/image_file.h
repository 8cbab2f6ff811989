// Image files and folders of them: PNG and JPEG.
//
// Invariants: pixels are u8 of shape (channels, height, width), 1 channel for grey and 3 for RGB; transparency is laid
// on black; 16 bits become 8, four inks (CMYK) light; a JPEG is turned as its EXIF orientation says. Errors: IoError
// with the path and the decoder's reason for a file that is missing, no image, broken or cut short, larger than 2^27
// pixels, or with more pixels than a file of its length can hold (about 8,000 a byte of PNG's compressed data at 1 bit,
// 512 for JPEG): a header is not believed, and a large PNG that takes many times its file is inflated once before
// memory is taken for its pixels. A file whose decoder (libpng, libjpeg-turbo) this build lacks is an IoError that
// names it. Thread safety: may be called from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/data/dataset.h"

namespace heddle::data {

// Which of the two is told by the content, not by the name. `channels`: 1, 3, or 0 for what the file has.
Array read_image(const std::string& path, int channels = 0);
// 8-bit PNG of u8 pixels (1 or 3, height, width).
void write_png(const std::string& path, const Array& pixels);

// Image files and the number of the class of each: (pixels, label i32).
class ImageFiles : public Dataset {
 public:
  struct File {
    std::string path;
    int32_t label;
  };
  explicit ImageFiles(std::vector<File> files, int channels = 3) : channels_(channels), files_(std::move(files)) {}
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  Sample get(int64_t index, Random& random) const override;
  // 0 <= index < size().
  const std::string& path(int64_t index) const { return file(index).path; }
  const std::vector<File>& files() const { return files_; }

 private:
  const File& file(int64_t index) const;

  int channels_;
  std::vector<File> files_;
};

// The image files of a folder with a folder of them for each class: classes by name in ascending order. Names that end
// with neither .png, .jpg nor .jpeg are left out, as are those that begin with a dot.
struct ImageFolderFiles {
  std::vector<std::string> classes;
  std::vector<ImageFiles::File> files;
  std::map<std::string, int64_t> left_out = {};  // files of each other ending, ".webp" and so on
};
// IoError for a folder without any, and for a class without any.
ImageFolderFiles list_image_folder(const std::string& folder);
bool is_image_name(std::string_view name);

// Such a folder as a dataset.
class ImageFolder final : public ImageFiles {
 public:
  explicit ImageFolder(const std::string& folder, int channels = 3)
      : ImageFolder(list_image_folder(folder), channels) {}
  const std::vector<std::string>& classes() const { return classes_; }

 private:
  ImageFolder(ImageFolderFiles listed, int channels)
      : ImageFiles(std::move(listed.files), channels), classes_(std::move(listed.classes)) {}

  std::vector<std::string> classes_;
};

}  // namespace heddle::data
