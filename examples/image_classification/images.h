// Where the images come from: folders of pictures, or IDX files.
#pragma once

#include <string>
#include <vector>

#include "weft/data/dataset.h"

namespace image_classification {

struct ImagesOptions {
  int64_t size = 224;      // rows and columns that the model sees
  double test_share = 0.2; // of the pictures, where there is no folder of them to test on
  bool flip = true;        // mirrors pictures at random, to train on; never those of IDX files
  double min_area = 0.08;  // of a picture, that is taken to train on
  uint64_t seed = 1;       // of the cut into two sets
};

struct Images {
  weft::data::DatasetPtr train, test; // float32 [channels, size, size], and the class, int64
  std::vector<std::string> classes;
  int64_t channels = 3;
};

// Of a folder with
// - train/ and test/ (or val/), each with a folder for each class: its PNG and JPEG files;
// - or a folder for each class: a share of all files is to test on;
// - or IDX files of MNIST's names.
// To train on, a random part of a random size of each picture is taken, as torchvision's references
// do; to test on, the middle of it. Throws weft::Error for a folder that is none of these, or where
// the two sets have other classes.
Images read_images(const std::string &folder, const ImagesOptions &options);

} // namespace image_classification
