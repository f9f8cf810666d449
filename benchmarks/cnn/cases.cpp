#include "benchmarks/cnn/cases.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "benchmarks/cnn/networks.h"
#include "weft/weft.h"

namespace weft::benchmarks {
namespace {

constexpr int64_t kClasses = 1000, kImage = 224; // ImageNet's
constexpr int64_t kSmallImage = 64;              // of the case whose kernels are small

struct Training {
  Training(nn::Sequential net, const Shape &shape)
      : net(net), optimizer(net.parameters(), {.lr = 1e-3, .momentum = 0.9}), images(rand(shape)),
        classes(randint(0, kClasses, {shape[0]})) {
    eval({images, classes});
  }
  void step() {
    Tensor loss = nn::cross_entropy(net(images), classes);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    loss.item<float>();
  }
  nn::Sequential net;
  optim::SGD optimizer;
  Tensor images, classes;
};

} // namespace

const std::vector<std::string> &cnn_case_names() {
  static const std::vector<std::string> names = {
      "resnet18_inference_1",   "mobilenet_inference_1",  "resnet18_training_16",
      "mobilenet_training_16",  "squeezenet_inference_1", "efficientnet_inference_8",
      "efficientnet_training_8"};
  return names;
}

int64_t cnn_case_batch(const std::string &name) {
  return std::atoll(name.c_str() + name.rfind('_') + 1);
}

std::function<void()> make_cnn_case(const std::string &name) {
  const std::vector<std::string> &names = cnn_case_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw std::runtime_error("no case '" + name + "'");
  manual_seed(1);
  nn::Sequential net = name.starts_with("resnet18")    ? resnet18(kClasses)
                       : name.starts_with("mobilenet") ? mobilenet(kClasses)
                       : name.starts_with("squeeze")   ? squeezenet(kClasses)
                                                       : efficientnet(kClasses);
  int64_t pixels = name.starts_with("efficientnet") ? kSmallImage : kImage;
  Shape shape = {cnn_case_batch(name), 3, pixels, pixels};
  if (name.find("training") != std::string::npos) {
    auto training = std::make_shared<Training>(net, shape);
    return [training] {
      training->step();
    };
  }
  net.eval();
  // Other images each time, as in use.
  std::vector<Tensor> images = {rand(shape), rand(shape)};
  eval(images);
  return [net, images, run = size_t{0}]() mutable {
    NoGrad no_history;
    net(images[run++ % images.size()]).eval();
  };
}

} // namespace weft::benchmarks
