#include "weft/models/vgg.h"

#include "weft/models/registry.h"

namespace weft::models {

VggConfig VggConfig::vgg11() {
  return {};
}
VggConfig VggConfig::vgg16() {
  return {.stages = {{64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}}};
}
VggConfig VggConfig::vgg19() {
  return {
      .stages = {
          {64, 64}, {128, 128}, {256, 256, 256, 256}, {512, 512, 512, 512}, {512, 512, 512, 512}}};
}

Vgg::Vgg(const VggConfig &config, Location location) : pooled_(config.pooled) {
  require(!config.stages.empty(), "Vgg", "there must be at least one stage", location);
  require(config.pooled >= 1, "Vgg", "pooled must be at least 1", location);
  int64_t in = config.channels;
  for (const std::vector<int64_t> &stage : config.stages) {
    require(!stage.empty(), "Vgg", "a stage has at least one convolution", location);
    for (int64_t out : stage) {
      features_.append(convolution(in, out, 3, {.padding = 1}, location), location);
      if (config.batch_norm)
        features_.append(batch_norm(out, 1e-5, 0.1, location), location);
      features_.append(nn::ReLU(), location);
      in = out;
    }
    features_.append(nn::MaxPool2d(2), location);
  }
  classifier_.append(linear_normal(in * pooled_ * pooled_, config.hidden, 0.01, location));
  classifier_.append(nn::ReLU());
  classifier_.append(nn::Dropout(config.dropout, location));
  classifier_.append(linear_normal(config.hidden, config.hidden, 0.01, location));
  classifier_.append(nn::ReLU());
  classifier_.append(nn::Dropout(config.dropout, location));
  classifier_.append(linear_normal(config.hidden, config.classes, 0.01, location));
  child("features", features_, location);
  child("classifier", classifier_, location);
}

Tensor Vgg::operator()(const Tensor &images, Location location) const {
  nn::ModuleCall scope(*this, location);
  return classifier_(adaptive_avg_pool2d(features_(images), pooled_).flatten(1));
}

namespace {
Record classifier(const char *name) {
  return {.name = name,
          .kind = "image classifier",
          .source = "Simonyan and Zisserman 2015, Very Deep Convolutional Networks for "
                    "Large-Scale Image Recognition",
          .inputs = image_input()};
}
const Registration<Vgg> vgg11(classifier("vgg11"), VggConfig::vgg11());
const Registration<Vgg> vgg16(classifier("vgg16"), VggConfig::vgg16());
const Registration<Vgg> vgg19(classifier("vgg19"), VggConfig::vgg19());
} // namespace

} // namespace weft::models
