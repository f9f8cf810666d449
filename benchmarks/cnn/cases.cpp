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

struct Training {
  explicit Training(nn::Sequential net, int64_t batch)
      : net(net), optimizer(net.parameters(), {.lr = 1e-3, .momentum = 0.9}),
        images(rand({batch, 3, kImage, kImage})), classes(randint(0, kClasses, {batch})) {
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
  static const std::vector<std::string> names = {"resnet18_inference_1", "mobilenet_inference_1",
                                                 "resnet18_training_16", "mobilenet_training_16"};
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
  nn::Sequential net = name.starts_with("resnet18") ? resnet18(kClasses) : mobilenet(kClasses);
  int64_t batch = cnn_case_batch(name);
  if (name.find("training") != std::string::npos) {
    auto training = std::make_shared<Training>(net, batch);
    return [training] {
      training->step();
    };
  }
  net.eval();
  // Other images each time, as in use.
  std::vector<Tensor> images = {rand({batch, 3, kImage, kImage}), rand({batch, 3, kImage, kImage})};
  eval(images);
  return [net, images, run = size_t{0}]() mutable {
    NoGrad no_history;
    net(images[run++ % images.size()]).eval();
  };
}

} // namespace weft::benchmarks
