#include "weft/image/folder.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "frontend/image/codec.h"

namespace weft::image {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path &path) {
  return path.filename().string().starts_with('.');
}

bool is_picture(const fs::path &path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

} // namespace

ImageFolder::ImageFolder(const std::string &folder, FolderOptions options, Location location)
    : options_(std::move(options)), made_at_(location) {
  auto fail = [&](const std::string &why) {
    throw Error(ErrorKind::kFile, "'" + folder + "' " + why, location);
  };
  check_channels(options_.channels, location);
  std::error_code error;
  if (!fs::exists(folder, error))
    fail("does not exist");
  if (!fs::is_directory(folder, error))
    fail("is not a folder");
  try {
    for (const fs::directory_entry &entry : fs::directory_iterator(folder))
      if (entry.is_directory() && !is_hidden(entry.path()))
        classes_.push_back(entry.path().filename().string());
    std::sort(classes_.begin(), classes_.end());
    if (classes_.empty())
      fail("has no subfolders; there must be one for each class");
    for (size_t label = 0; label < classes_.size(); ++label) {
      size_t first = items_.size();
      for (const fs::directory_entry &entry :
           fs::recursive_directory_iterator(fs::path(folder) / classes_[label]))
        if (entry.is_regular_file() && !is_hidden(entry.path()) && is_picture(entry.path()))
          items_.push_back({entry.path().string(), static_cast<int64_t>(label)});
      if (items_.size() == first)
        fail("has no pictures (.png, .jpg, .jpeg) in its subfolder '" + classes_[label] + "'");
      std::sort(items_.begin() + static_cast<std::ptrdiff_t>(first), items_.end(),
                [](const Item &a, const Item &b) { return a.path < b.path; });
    }
  } catch (const fs::filesystem_error &unreadable) {
    throw Error(ErrorKind::kFile,
                "'" + unreadable.path1().string() +
                    "' cannot be read: " + unreadable.code().message(),
                location);
  }
  if (!options_.transform)
    options_.transform = ToFloat();
}

data::HostBatch ImageFolder::fetch_seeded(std::span<const int64_t> items, uint64_t seed) const {
  const Location at = data::asked_at(made_at_);
  BatchOfPlanes pictures(items.size());
  data::HostBatch batch;
  batch.target = data::HostArray::empty(DType::kInt64, {static_cast<int64_t>(items.size())});
  for (size_t i = 0; i < items.size(); ++i) {
    const Item &item = items_[static_cast<size_t>(items[i])];
    data::SplitMix64 random(data::derived_seed(seed, i));
    Planes planes = to_planes(read_image(item.path, options_.channels, at));
    try {
      planes = options_.transform(std::move(planes), random);
    } catch (const Error &refused) {
      throw Error(refused.kind(), "'" + item.path + "': " + refused.message(), at);
    }
    pictures.add(planes, "'" + item.path + "'", at);
    batch.target.as<int64_t>()[i] = item.label;
  }
  batch.input = pictures.take();
  return batch;
}

} // namespace weft::image
