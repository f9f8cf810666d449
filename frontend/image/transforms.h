// Transformations of pictures on their way into a batch. They run on the loader's thread, on plain
// floats; what is random in them comes from a seed (data::Dataset::fetch_seeded), so that a resumed
// run sees the same pictures.
#pragma once

#include <functional>
#include <vector>

#include "weft/data/dataset.h"
#include "weft/data/random.h"
#include "weft/error.h"
#include "weft/image/image.h"

namespace weft::image {

// A picture as floats, [channels, height, width]: 0 to 255 as it comes from a file.
struct Planes {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<float> values;
};
// The channels of a picture one after another, as floats; numbers stay.
Planes to_planes(const Image &image);

// One step. Throws Error when the picture does not suit it, at the line of the call; a data set
// adds the file's name.
using Transform = std::function<Planes(Planes, data::SplitMix64 &)>;

// One after another: Compose({Resize(40, 40), RandomCrop(32, 32), RandomHorizontalFlip(),
// ToFloat(), Normalize({0.5}, {0.25})}).
class Compose {
public:
  explicit Compose(std::vector<Transform> steps) : steps_(std::move(steps)) {}
  Planes operator()(Planes planes, data::SplitMix64 &random,
                    Location location = Location::current()) const;

private:
  std::vector<Transform> steps_;
};

// How a resized pixel reads the picture. kNear: as PyTorch's interpolate(mode="bilinear",
// align_corners=False, antialias=False): between the two rows and columns around (i + 0.5) H / H' -
// 0.5, so that shrinking to less than half skips pixels. kSmooth: as with antialias=True and as
// torchvision and PIL do it: where the picture shrinks, of all pixels under a triangle that is
// wider by as much.
enum class ResizeFilter { kNear, kSmooth };

// To this size.
class Resize {
public:
  // Throws Error when a size is below 1.
  Resize(int64_t height, int64_t width, ResizeFilter filter = ResizeFilter::kNear,
         Location location = Location::current());
  Planes operator()(Planes planes, data::SplitMix64 &random,
                    Location location = Location::current()) const;

private:
  int64_t height_, width_;
  ResizeFilter filter_;
};
// The same to a size whose shorter side is this, the longer one in proportion, rounded down.
class ResizeShorterSide {
public:
  explicit ResizeShorterSide(int64_t size, ResizeFilter filter = ResizeFilter::kNear,
                             Location location = Location::current());
  Planes operator()(Planes planes, data::SplitMix64 &random,
                    Location location = Location::current()) const;

private:
  int64_t size_;
  ResizeFilter filter_;
};

struct RandomResizedCropOptions {
  double min_area = 0.08, max_area = 1;            // of the picture's
  double min_ratio = 3.0 / 4, max_ratio = 4.0 / 3; // width to height
  ResizeFilter filter = ResizeFilter::kSmooth;
};
// A part of random area and ratio at a random place, resized (Szegedy et al. 2015); torchvision's.
// Where ten draws do not fit into the picture, the largest middle part whose ratio is in the range.
class RandomResizedCrop {
public:
  // Throws Error when a size is below 1, or unless 0 < min_area <= max_area <= 1 and 0 < min_ratio
  // <= max_ratio.
  RandomResizedCrop(int64_t height, int64_t width, RandomResizedCropOptions options = {},
                    Location location = Location::current());
  Planes operator()(Planes planes, data::SplitMix64 &random,
                    Location location = Location::current()) const;

private:
  int64_t height_, width_;
  RandomResizedCropOptions options_;
};

// The middle of a picture, which must be at least as large. Of an odd rest the half rounds to even,
// as in torchvision.
class CenterCrop {
public:
  // Throws Error when a size is below 1.
  CenterCrop(int64_t height, int64_t width, Location location = Location::current());
  Planes operator()(Planes planes, data::SplitMix64 &random,
                    Location location = Location::current()) const;

private:
  int64_t height_, width_;
};

// A part at a uniformly random place of a picture with `padding` rows and columns of zeros on each
// side, which must be at least as large.
class RandomCrop {
public:
  // Throws Error when a size is below 1, or the padding negative.
  RandomCrop(int64_t height, int64_t width, int64_t padding = 0,
             Location location = Location::current());
  Planes operator()(Planes planes, data::SplitMix64 &random,
                    Location location = Location::current()) const;

private:
  int64_t height_, width_, padding_;
};

// Mirrors left and right with this probability.
class RandomHorizontalFlip {
public:
  // Throws Error unless the probability is in [0, 1].
  explicit RandomHorizontalFlip(double probability = 0.5,
                                Location location = Location::current());
  Planes operator()(Planes planes, data::SplitMix64 &random) const;

private:
  double probability_;
};

// 0 to 255 becomes 0 to 1.
class ToFloat {
public:
  Planes operator()(Planes planes, data::SplitMix64 &random) const;
};

// (value - mean) / deviation for each channel; one number stands for all of them.
class Normalize {
public:
  // Throws Error unless there are as many deviations as means, all of them positive.
  Normalize(std::vector<double> mean, std::vector<double> deviation,
            Location location = Location::current());
  Planes operator()(Planes planes, data::SplitMix64 &random,
                    Location location = Location::current()) const;

private:
  std::vector<double> mean_, deviation_;
};

// Another data set's inputs, float32 or uint8 [C, H, W], transformed: say, digits of an IdxDataset,
// shifted at random.
class TransformedDataset : public data::Dataset {
public:
  // location: where errors stand that no loader's batch meets.
  TransformedDataset(data::DatasetPtr dataset, Transform transform,
                     Location location = Location::current())
      : dataset_(std::move(dataset)), transform_(std::move(transform)), made_at_(location) {}

  int64_t size() const override {
    return dataset_->size();
  }
  data::HostBatch fetch(std::span<const int64_t> items) const override {
    return fetch_seeded(items, 0);
  }
  data::HostBatch fetch_seeded(std::span<const int64_t> items, uint64_t seed) const override;

private:
  data::DatasetPtr dataset_;
  Transform transform_;
  Location made_at_;
};

// Collects pictures of one size as a batch, float32 [count, C, H, W]. Private to data sets.
class BatchOfPlanes {
public:
  explicit BatchOfPlanes(size_t count) : count_(static_cast<int64_t>(count)) {}
  // Throws Error, at `location`, when this one has another size than the first. `name` stands in
  // the error.
  void add(const Planes &planes, const std::string &name, Location location);
  // All that were added, [count, channels, height, width]; the batch is empty afterwards.
  data::HostArray take() {
    return std::move(array_);
  }

private:
  int64_t count_, next_ = 0;
  data::HostArray array_;
};

} // namespace weft::image
