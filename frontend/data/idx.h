// IDX files, the format of MNIST (http://yann.lecun.com/exdb/mnist/), and data sets of images and
// labels in them.
#pragma once

#include <string>

#include "weft/data/dataset.h"
#include "weft/error.h"

namespace weft::data {

// The array in an IDX file: uint8, int8, int16, int32, float32 or float64, of any rank. Throws
// Error when the file is missing, is no IDX file, or is not as long as its header says; nothing is
// allocated before that is known.
HostArray read_idx(const std::string &path, Location location = Location::current());

struct ImageOptions {
  // Pixels become (value / 255 - mean) / deviation.
  double mean = 0, deviation = 1;
};

// Images and their labels: an item is float32 [1, H, W] and an int64.
class IdxDataset : public Dataset {
public:
  // images: uint8 [n, H, W]; labels: integers [n]. Throws Error when a file is not such, or their
  // numbers differ.
  IdxDataset(const std::string &images, const std::string &labels, ImageOptions options = {},
             Location location = Location::current());

  int64_t size() const override {
    return images_.shape[0];
  }
  HostBatch fetch(std::span<const int64_t> items) const override;
  // Rows of an image.
  int64_t height() const {
    return images_.shape[1];
  }
  // Columns of an image.
  int64_t width() const {
    return images_.shape[2];
  }
  // The largest label and one.
  int64_t classes() const {
    return classes_;
  }

private:
  HostArray images_;
  std::vector<int64_t> labels_;
  int64_t classes_ = 0;
  ImageOptions options_;
};

// train-images-idx3-ubyte and train-labels-idx1-ubyte in the folder, or with train = false t10k-*:
// MNIST's files and others of its names, unpacked: they are distributed as .gz.
IdxDataset mnist(const std::string &folder, bool train = true, ImageOptions options = {},
                 Location location = Location::current());

} // namespace weft::data
