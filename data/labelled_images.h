// Labelled images of the user's own: folders, tables of paths, files of records.
//
//   const auto photos = data::read_labelled_images("photos", {});
//   photos.classes;                          // {"cat", "dog"}
//   photos.train.size();
//
// A folder holds a folder for each class; or folders train and val (or test), each of which does. A CSV file holds the
// path of an image, from its own folder, and the name of its class in each row. A file of records is what `heddle pack`
// makes of images. Invariants: examples are (pixels u8 (channels, height, width), label i32), every label is smaller
// than the number of classes. Errors: IoError and ValueError that name the folder, the row or the record: no images, a
// class without any, a class that training does not have. Images themselves are read later (data/image_survey.h).
// Thread safety: as datasets.
#pragma once

#include <string>
#include <vector>

#include "heddle/data/image_file.h"
#include "heddle/data/preprocess.h"

namespace heddle::data {

// Some images: files by their paths, or records.
struct LabelledSet {
  std::vector<ImageFiles::File> files = {};
  DatasetPtr records = nullptr;  // in the place of files

  int64_t size() const { return records ? records->size() : static_cast<int64_t>(files.size()); }
  bool empty() const { return size() == 0; }
  DatasetPtr dataset(int channels) const;
};

struct LabelledImages {
  std::vector<std::string> classes;
  LabelledSet train, validation, test;    // empty: there are none of their own
  Preprocessing packed = {};              // what a file of records says
  std::vector<std::string> remarks = {};  // what a user should know, a line each: files that are no images by name
};

struct LabelledImagesOptions {
  std::string image_column = {};          // of a CSV file; empty: the first
  std::string class_column = {};          // empty: the last
  std::vector<std::string> classes = {};  // in the order of their numbers; empty: those that are there
};

// Whether a path is one of these three: a folder, a .csv or a .rec file.
bool holds_labelled_images(const std::string& path);
LabelledImages read_labelled_images(const std::string& path, const LabelledImagesOptions& options = {});

// Of each class that share, at least one of what has two; the same for the same seed. What is held out, and the rest.
// Records are not looked at: of them that share of all.
struct HeldOut {
  LabelledSet held_out, rest;
};
HeldOut hold_out(const LabelledSet& all, double share, uint64_t seed);

}  // namespace heddle::data
