#include "examples/image_classification/images.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "examples/common/confusion.h"
#include "weft/data/idx.h"
#include "weft/data/subset.h"
#include "weft/image/folder.h"

namespace image_classification {
namespace {

namespace fs = std::filesystem;
using namespace weft;
using image::Compose;
using image::Transform;

// Means and deviations of photographs, by channel, which published weights are used with.
const std::vector<double> kMean = {0.485, 0.456, 0.406}, kDeviation = {0.229, 0.224, 0.225};
// Of drawn characters, one channel.
constexpr double kGreyMean = 0.13, kGreyDeviation = 0.31;
// The shorter side is this much of what is cut out of its middle, as ImageNet is tested.
constexpr int64_t kShorterOf = 256, kMiddleOf = 224;

[[noreturn]] void fail(const std::string &what) {
  throw Error(ErrorKind::kFile, what);
}

Transform to_test_on(int64_t size) {
  return Compose(
      {image::ResizeShorterSide(size * kShorterOf / kMiddleOf, image::ResizeFilter::kSmooth),
       image::CenterCrop(size, size), image::ToFloat(), image::Normalize(kMean, kDeviation)});
}

Transform to_train_on(const ImagesOptions &options) {
  return Compose(
      {image::RandomResizedCrop(options.size, options.size, {.min_area = options.min_area}),
       image::RandomHorizontalFlip(options.flip ? 0.5 : 0), image::ToFloat(),
       image::Normalize(kMean, kDeviation)});
}

using image::ImageFolder;

std::shared_ptr<const ImageFolder> pictures(const std::string &folder, Transform transform) {
  return std::make_shared<ImageFolder>(
      folder, image::FolderOptions{.channels = 3, .transform = std::move(transform)});
}

Images of_two_folders(const std::string &train, const std::string &test,
                      const ImagesOptions &options) {
  auto first = pictures(train, to_train_on(options)),
       second = pictures(test, to_test_on(options.size));
  if (first->classes() != second->classes())
    fail("'" + train + "' and '" + test +
         "' have other classes: their folders must have the same names");
  return {.train = first, .test = second, .classes = first->classes()};
}

Images of_one_folder(const std::string &folder, const ImagesOptions &options) {
  // Two views of the same pictures, which differ in what is done to them.
  auto train = pictures(folder, to_train_on(options)),
       test = pictures(folder, to_test_on(options.size));
  const int64_t tested = std::clamp<int64_t>(
      std::llround(options.test_share * static_cast<double>(train->size())), 0, train->size());
  if (tested == 0 || tested == train->size())
    fail("'" + folder + "' has " + std::to_string(train->size()) + " pictures, of which " +
         std::to_string(tested) + " would be to test on: too few on one side");
  std::vector<data::Subset> parts =
      data::random_split(train, {train->size() - tested, tested}, options.seed);
  return {.train = std::make_shared<data::Subset>(parts[0]),
          .test = std::make_shared<data::Subset>(test, parts[1].items()),
          .classes = train->classes()};
}

Images of_idx_files(const std::string &folder, const ImagesOptions &options) {
  auto read = [&](bool train) {
    return std::make_shared<data::IdxDataset>(data::mnist(folder, train));
  };
  auto train = read(true), test = read(false);
  if (train->classes() > examples::kMostClasses)
    fail("'" + folder + "/train-labels-idx1-ubyte' has the label " +
         std::to_string(train->classes() - 1) + "; there may be " +
         std::to_string(examples::kMostClasses) + " classes, from 0");
  if (test->size() == 0)
    fail("'" + folder + "' has no images to test on: its t10k-images-idx3-ubyte holds none");
  if (test->classes() > train->classes())
    fail("the test images in '" + folder + "' have more classes than those to train on");
  Transform transform = Compose(
      {image::Resize(options.size, options.size), image::Normalize({kGreyMean}, {kGreyDeviation})});
  Images images{.train = std::make_shared<image::TransformedDataset>(train, transform),
                .test = std::make_shared<image::TransformedDataset>(test, transform),
                .classes = {},
                .channels = 1};
  for (int64_t i = 0; i < train->classes(); ++i)
    images.classes.push_back(std::to_string(i));
  return images;
}

} // namespace

Images read_images(const std::string &folder, const ImagesOptions &options) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    fail("'" + folder + "' is no folder");
  if (fs::exists(folder + "/train-images-idx3-ubyte", error))
    return of_idx_files(folder, options);
  if (!fs::is_directory(folder + "/train", error))
    return of_one_folder(folder, options);
  for (const char *name : {"/test", "/val"})
    if (fs::is_directory(folder + name, error))
      return of_two_folders(folder + "/train", folder + name, options);
  fail("'" + folder + "' has a folder train, but neither test nor val beside it");
}

} // namespace image_classification
