// A folder of pictures as a data set.
#pragma once

#include <string>
#include <vector>

#include "weft/image/transforms.h"

namespace weft::image {

struct FolderOptions {
  int64_t channels = 3;     // of every picture: 1, 3 or 4
  Transform transform = {}; // to pictures of one size; none: to floats from 0 to 1
};

// A class for each subfolder, numbered in the order of their names; its items are the files below
// it with the endings .png, .jpg and .jpeg (in any case), sorted by path. Other files, and those
// whose name begins with a dot, are left out. An item is float32 [C, H, W] and the class, int64.
// Pictures are read when their batch is made, on the loader's thread.
class ImageFolder : public data::Dataset {
public:
  // Throws Error when the folder is missing or has no subfolder, or a subfolder has no picture.
  explicit ImageFolder(const std::string &folder, FolderOptions options = {},
                       Location location = Location::current());

  int64_t size() const override {
    return static_cast<int64_t>(items_.size());
  }
  data::HostBatch fetch(std::span<const int64_t> items) const override {
    return fetch_seeded(items, 0);
  }
  // Throws Error, naming the file, when one cannot be read or a transformation refuses it, or
  // pictures of one batch differ in size: at the line of the loader that asks (data::asked_at),
  // else at that of the data set.
  data::HostBatch fetch_seeded(std::span<const int64_t> items, uint64_t seed) const override;

  // The subfolders' names, by class.
  const std::vector<std::string> &classes() const {
    return classes_;
  }
  // The file of an item.
  const std::string &path(int64_t item) const {
    return items_[static_cast<size_t>(item)].path;
  }
  // The class of an item: its place in classes().
  int64_t label(int64_t item) const {
    return items_[static_cast<size_t>(item)].label;
  }

private:
  struct Item {
    std::string path;
    int64_t label;
  };
  std::vector<std::string> classes_;
  std::vector<Item> items_;
  FolderOptions options_;
  Location made_at_;
};

} // namespace weft::image
