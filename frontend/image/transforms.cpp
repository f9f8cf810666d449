#include "weft/image/transforms.h"

#include <algorithm>
#include <cmath>

#include "weft/tensor.h"

namespace weft::image {
namespace {

void want_sizes(const char *what, int64_t height, int64_t width, Location location) {
  if (height < 1 || width < 1)
    throw Error(ErrorKind::kValue,
                std::string(what) + ": sizes must be at least 1, they are " +
                    std::to_string(height) + " and " + std::to_string(width),
                location);
}

std::string by(int64_t height, int64_t width) {
  return std::to_string(height) + " x " + std::to_string(width);
}
std::string size_of(const Planes &planes) {
  return by(planes.height, planes.width);
}

void want_pixels(const char *what, const Planes &planes, Location location) {
  if (planes.channels < 1 || planes.height < 1 || planes.width < 1)
    throw Error(ErrorKind::kShape,
                std::string(what) + ": the picture of " + std::to_string(planes.channels) +
                    " channels and " + size_of(planes) + " pixels is empty",
                location);
}

// No larger picture is made than is read: a narrow one would ask for more than there is.
void want_room(const char *what, const Planes &planes, int64_t height, int64_t width,
               Location location) {
  if (height > kMostPixels / width)
    throw Error(ErrorKind::kShape,
                std::string(what) + ": the picture of " + size_of(planes) +
                    " pixels would become one of " + by(height, width) + ", more than " +
                    std::to_string(kMostPixels) + " in all; cut it first",
                location);
}

float *row_of(Planes &planes, int64_t channel, int64_t row) {
  return planes.values.data() + (channel * planes.height + row) * planes.width;
}
const float *row_of(const Planes &planes, int64_t channel, int64_t row) {
  return planes.values.data() + (channel * planes.height + row) * planes.width;
}

Planes blank(int64_t channels, int64_t height, int64_t width) {
  return {channels, height, width,
          std::vector<float>(static_cast<size_t>(channels * height * width))};
}

// The part of the picture that begins at (top, left), which may lie outside of it: zeros there.
Planes part(const Planes &from, int64_t top, int64_t left, int64_t height, int64_t width) {
  Planes to = blank(from.channels, height, width);
  int64_t first = std::max<int64_t>(0, -left), last = std::min(width, from.width - left);
  for (int64_t c = 0; c < from.channels; ++c)
    for (int64_t y = 0; y < height; ++y) {
      int64_t row = top + y;
      if (row < 0 || row >= from.height || first >= last)
        continue;
      const float *source = row_of(from, c, row);
      std::copy(source + left + first, source + left + last, row_of(to, c, y) + first);
    }
  return to;
}

// Result pixel i reads between the pixels `low` and `high` of the source, and takes `share` of
// `high`.
struct Sample {
  int64_t low, high;
  float share;
};
std::vector<Sample> samples(int64_t from, int64_t to) {
  std::vector<Sample> result;
  float scale = static_cast<float>(from) / static_cast<float>(to);
  for (int64_t i = 0; i < to; ++i) {
    float at = std::max(0.0f, (static_cast<float>(i) + 0.5f) * scale - 0.5f);
    int64_t low = std::min(static_cast<int64_t>(at), from - 1);
    result.push_back({low, std::min(low + 1, from - 1), at - static_cast<float>(low)});
  }
  return result;
}

Planes resized_between(const Planes &from, int64_t height, int64_t width) {
  Planes to = blank(from.channels, height, width);
  std::vector<Sample> rows = samples(from.height, height), columns = samples(from.width, width);
  for (int64_t c = 0; c < from.channels; ++c)
    for (int64_t y = 0; y < height; ++y) {
      const Sample &row = rows[static_cast<size_t>(y)];
      const float *above = row_of(from, c, row.low), *below = row_of(from, c, row.high);
      float *result = row_of(to, c, y);
      for (int64_t x = 0; x < width; ++x) {
        const Sample &column = columns[static_cast<size_t>(x)];
        float upper = above[column.low] * (1 - column.share) + above[column.high] * column.share;
        float lower = below[column.low] * (1 - column.share) + below[column.high] * column.share;
        result[x] = upper * (1 - row.share) + lower * row.share;
      }
    }
  return to;
}

// Result pixel i is the sum of the source's pixels from `first` on, times these weights.
struct Window {
  int64_t first;
  std::vector<float> weights;
};
std::vector<Window> windows(int64_t from, int64_t to) {
  std::vector<Window> result;
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double reach = std::max(scale, 1.0);
  for (int64_t i = 0; i < to; ++i) {
    double center = (static_cast<double>(i) + 0.5) * scale, sum = 0;
    int64_t first = std::max<int64_t>(0, static_cast<int64_t>(center - reach + 0.5)),
            last = std::min(from, static_cast<int64_t>(center + reach + 0.5));
    std::vector<double> weights;
    for (int64_t j = first; j < last; ++j) {
      weights.push_back(std::max(0.0, 1 - std::abs(static_cast<double>(j) + 0.5 - center) / reach));
      sum += weights.back();
    }
    Window window{first, {}};
    for (double weight : weights)
      window.weights.push_back(static_cast<float>(weight / sum));
    result.push_back(std::move(window));
  }
  return result;
}

Planes resized_smoothly(const Planes &from, int64_t height, int64_t width) {
  std::vector<Window> rows = windows(from.height, height), columns = windows(from.width, width);
  Planes narrow = blank(from.channels, from.height, width),
         to = blank(from.channels, height, width);
  for (int64_t c = 0; c < from.channels; ++c) {
    for (int64_t y = 0; y < from.height; ++y) {
      const float *source = row_of(from, c, y);
      float *result = row_of(narrow, c, y);
      for (int64_t x = 0; x < width; ++x) {
        const Window &window = columns[static_cast<size_t>(x)];
        for (size_t j = 0; j < window.weights.size(); ++j)
          result[x] += source[window.first + static_cast<int64_t>(j)] * window.weights[j];
      }
    }
    for (int64_t y = 0; y < height; ++y) {
      const Window &window = rows[static_cast<size_t>(y)];
      float *result = row_of(to, c, y);
      for (size_t j = 0; j < window.weights.size(); ++j) {
        const float *source = row_of(narrow, c, window.first + static_cast<int64_t>(j));
        for (int64_t x = 0; x < width; ++x)
          result[x] += source[x] * window.weights[j];
      }
    }
  }
  return to;
}

Planes resized(const char *what, const Planes &from, int64_t height, int64_t width,
               ResizeFilter filter, Location location) {
  if (from.height == height && from.width == width)
    return from;
  want_room(what, from, height, width, location);
  if (filter == ResizeFilter::kSmooth)
    want_room(what, from, from.height, width, location); // on the way
  return filter == ResizeFilter::kSmooth ? resized_smoothly(from, height, width)
                                         : resized_between(from, height, width);
}

// Half of the pixels that are left over, rounded to even.
int64_t margin(int64_t all, int64_t wanted) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(all - wanted) / 2));
}

} // namespace

Planes to_planes(const Image &image) {
  Planes planes = blank(image.channels, image.height, image.width);
  int64_t count = image.height * image.width;
  for (int64_t c = 0; c < image.channels; ++c)
    for (int64_t i = 0; i < count; ++i)
      planes.values[static_cast<size_t>(c * count + i)] =
          image.pixels[static_cast<size_t>(i * image.channels + c)];
  return planes;
}

Planes Compose::operator()(Planes planes, data::SplitMix64 &random, Location location) const {
  try {
    for (const Transform &step : steps_)
      planes = step(std::move(planes), random);
  } catch (const Error &refused) { // at the line that called the std::function
    throw Error(refused.kind(), refused.message(), location);
  }
  return planes;
}

Resize::Resize(int64_t height, int64_t width, ResizeFilter filter, Location location)
    : height_(height), width_(width), filter_(filter) {
  want_sizes("Resize", height, width, location);
}
Planes Resize::operator()(Planes planes, data::SplitMix64 &, Location location) const {
  want_pixels("Resize", planes, location);
  return resized("Resize", planes, height_, width_, filter_, location);
}

ResizeShorterSide::ResizeShorterSide(int64_t size, ResizeFilter filter, Location location)
    : size_(size), filter_(filter) {
  want_sizes("ResizeShorterSide", size, size, location);
}
Planes ResizeShorterSide::operator()(Planes planes, data::SplitMix64 &, Location location) const {
  constexpr const char *kName = "ResizeShorterSide";
  want_pixels(kName, planes, location);
  const bool upright = planes.width < planes.height;
  int64_t longer = 0;
  if (__builtin_mul_overflow(size_, std::max(planes.height, planes.width), &longer))
    want_room(kName, planes, size_, size_, location); // such a size has none
  longer /= std::min(planes.height, planes.width);
  return resized(kName, planes, upright ? longer : size_, upright ? size_ : longer, filter_,
                 location);
}

RandomResizedCrop::RandomResizedCrop(int64_t height, int64_t width,
                                     RandomResizedCropOptions options, Location location)
    : height_(height), width_(width), options_(options) {
  want_sizes("RandomResizedCrop", height, width, location);
  const RandomResizedCropOptions &o = options;
  if (!(o.min_area > 0 && o.min_area <= o.max_area && o.max_area <= 1))
    throw Error(ErrorKind::kValue,
                "RandomResizedCrop: areas must be 0 < min_area <= max_area <= 1, they are " +
                    std::to_string(o.min_area) + " and " + std::to_string(o.max_area),
                location);
  if (!(o.min_ratio > 0 && o.min_ratio <= o.max_ratio && std::isfinite(o.max_ratio)))
    throw Error(ErrorKind::kValue,
                "RandomResizedCrop: ratios must be 0 < min_ratio <= max_ratio, they are " +
                    std::to_string(o.min_ratio) + " and " + std::to_string(o.max_ratio),
                location);
}
Planes RandomResizedCrop::operator()(Planes planes, data::SplitMix64 &random,
                                     Location location) const {
  constexpr int kDraws = 10;
  constexpr const char *kName = "RandomResizedCrop";
  want_pixels(kName, planes, location);
  const RandomResizedCropOptions &o = options_;
  const double all = static_cast<double>(planes.height * planes.width);
  for (int draw = 0; draw < kDraws; ++draw) {
    double area = all * (o.min_area + (o.max_area - o.min_area) * random.uniform());
    double ratio = std::exp(std::log(o.min_ratio) +
                            (std::log(o.max_ratio) - std::log(o.min_ratio)) * random.uniform());
    int64_t width = std::llround(std::sqrt(area * ratio)),
            height = std::llround(std::sqrt(area / ratio));
    if (width < 1 || height < 1 || width > planes.width || height > planes.height)
      continue;
    auto start = [&](int64_t rest) {
      return static_cast<int64_t>(random.below(static_cast<uint64_t>(rest) + 1));
    };
    int64_t top = start(planes.height - height), left = start(planes.width - width);
    return resized(kName, part(planes, top, left, height, width), height_, width_, o.filter,
                   location);
  }
  int64_t height = planes.height, width = planes.width;
  double ratio = static_cast<double>(width) / static_cast<double>(height);
  if (ratio < o.min_ratio)
    height = std::clamp<int64_t>(std::llround(static_cast<double>(width) / o.min_ratio), 1, height);
  else if (ratio > o.max_ratio)
    width = std::clamp<int64_t>(std::llround(static_cast<double>(height) * o.max_ratio), 1, width);
  return resized(
      kName, part(planes, (planes.height - height) / 2, (planes.width - width) / 2, height, width),
      height_, width_, o.filter, location);
}

CenterCrop::CenterCrop(int64_t height, int64_t width, Location location)
    : height_(height), width_(width) {
  want_sizes("CenterCrop", height, width, location);
}
Planes CenterCrop::operator()(Planes planes, data::SplitMix64 &, Location location) const {
  if (planes.height < height_ || planes.width < width_)
    throw Error(ErrorKind::kShape,
                "CenterCrop: the picture of " + size_of(planes) + " pixels has no middle of " +
                    by(height_, width_) + "; resize it first",
                location);
  return part(planes, margin(planes.height, height_), margin(planes.width, width_), height_,
              width_);
}

RandomCrop::RandomCrop(int64_t height, int64_t width, int64_t padding, Location location)
    : height_(height), width_(width), padding_(padding) {
  want_sizes("RandomCrop", height, width, location);
  if (padding < 0)
    throw Error(ErrorKind::kValue,
                "RandomCrop: padding must not be negative, it is " + std::to_string(padding),
                location);
}
Planes RandomCrop::operator()(Planes planes, data::SplitMix64 &random, Location location) const {
  int64_t down = planes.height + 2 * padding_ - height_,
          right = planes.width + 2 * padding_ - width_;
  if (down < 0 || right < 0)
    throw Error(ErrorKind::kShape,
                "RandomCrop: the picture of " + size_of(planes) + " pixels, with a padding of " +
                    std::to_string(padding_) + ", has no part of " + by(height_, width_) +
                    "; resize it first, or pad more",
                location);
  int64_t top = static_cast<int64_t>(random.below(static_cast<uint64_t>(down) + 1)) - padding_;
  int64_t left = static_cast<int64_t>(random.below(static_cast<uint64_t>(right) + 1)) - padding_;
  return part(planes, top, left, height_, width_);
}

RandomHorizontalFlip::RandomHorizontalFlip(double probability, Location location)
    : probability_(probability) {
  if (!(probability >= 0 && probability <= 1))
    throw Error(ErrorKind::kValue,
                "RandomHorizontalFlip: the probability must be in [0, 1], it is " +
                    std::to_string(probability),
                location);
}
Planes RandomHorizontalFlip::operator()(Planes planes, data::SplitMix64 &random) const {
  if (random.uniform() >= probability_)
    return planes;
  for (int64_t c = 0; c < planes.channels; ++c)
    for (int64_t y = 0; y < planes.height; ++y)
      std::reverse(row_of(planes, c, y), row_of(planes, c, y) + planes.width);
  return planes;
}

Planes ToFloat::operator()(Planes planes, data::SplitMix64 &) const {
  for (float &value : planes.values)
    value /= 255.0f;
  return planes;
}

Normalize::Normalize(std::vector<double> mean, std::vector<double> deviation, Location location)
    : mean_(std::move(mean)), deviation_(std::move(deviation)) {
  if (mean_.empty() || mean_.size() != deviation_.size())
    throw Error(ErrorKind::kValue,
                "Normalize: " + std::to_string(mean_.size()) + " means and " +
                    std::to_string(deviation_.size()) +
                    " deviations; there must be one of each for a channel, or one for all",
                location);
  for (double deviation : deviation_)
    if (!(deviation > 0))
      throw Error(ErrorKind::kValue,
                  "Normalize: deviations must be positive, one is " + std::to_string(deviation),
                  location);
}
Planes Normalize::operator()(Planes planes, data::SplitMix64 &, Location location) const {
  if (mean_.size() > 1 && static_cast<int64_t>(mean_.size()) != planes.channels)
    throw Error(ErrorKind::kShape,
                "Normalize: " + std::to_string(mean_.size()) + " means for a picture of " +
                    std::to_string(planes.channels) + " channels",
                location);
  size_t count = static_cast<size_t>(planes.height * planes.width);
  for (size_t i = 0; i < planes.values.size(); ++i) {
    size_t channel = mean_.size() > 1 ? i / count : 0;
    planes.values[i] =
        static_cast<float>((planes.values[i] - mean_[channel]) / deviation_[channel]);
  }
  return planes;
}

void BatchOfPlanes::add(const Planes &planes, const std::string &name, Location location) {
  if (next_ == 0)
    array_ = data::HostArray::empty(DType::kFloat32,
                                    {count_, planes.channels, planes.height, planes.width});
  if (array_.shape[1] != planes.channels || array_.shape[2] != planes.height ||
      array_.shape[3] != planes.width)
    throw Error(ErrorKind::kShape,
                name + " is " + std::to_string(planes.channels) + " x " + size_of(planes) +
                    " after its transformations, the first of its batch " +
                    std::to_string(array_.shape[1]) + " x " + std::to_string(array_.shape[2]) +
                    " x " + std::to_string(array_.shape[3]) +
                    "; let Resize or a crop make them equal",
                location);
  std::copy(planes.values.begin(), planes.values.end(),
            array_.as<float>().begin() + next_ * static_cast<std::ptrdiff_t>(planes.values.size()));
  ++next_;
}

data::HostBatch TransformedDataset::fetch_seeded(std::span<const int64_t> items,
                                                 uint64_t seed) const {
  const Location at = data::asked_at(made_at_);
  data::HostBatch batch = dataset_->fetch_seeded(items, data::derived_seed(seed, 0));
  const data::HostArray &input = batch.input;
  bool bytes = input.dtype == DType::kUInt8;
  if (input.shape.size() != 4 || (!bytes && input.dtype != DType::kFloat32))
    throw Error(ErrorKind::kShape,
                std::string("TransformedDataset: the data set's inputs are ") + name(input.dtype) +
                    " " + to_string(input.shape) +
                    " as a batch; they must be float32 or uint8 [batch, channels, height, width]",
                at);
  Planes planes{input.shape[1], input.shape[2], input.shape[3], {}};
  size_t count = static_cast<size_t>(planes.channels * planes.height * planes.width);
  BatchOfPlanes result(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    Planes one{planes.channels, planes.height, planes.width, std::vector<float>(count)};
    if (bytes)
      std::copy_n(input.as<uint8_t>().begin() + static_cast<std::ptrdiff_t>(i * count), count,
                  one.values.begin());
    else
      std::copy_n(input.as<float>().begin() + static_cast<std::ptrdiff_t>(i * count), count,
                  one.values.begin());
    data::SplitMix64 random(data::derived_seed(seed, i + 1));
    const std::string name = "item " + std::to_string(items[i]);
    try {
      one = transform_(std::move(one), random);
    } catch (const Error &refused) {
      throw Error(refused.kind(), name + ": " + refused.message(), at);
    }
    result.add(one, name, at);
  }
  batch.input = result.take();
  return batch;
}

} // namespace weft::image
