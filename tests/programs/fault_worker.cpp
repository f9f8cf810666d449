// A process that tests of faults start, several at once, and kill.
//   fault_worker write npy|safetensors PATH     writes files of one number, each time another one,
//                                               until it is killed
//   fault_worker compute FIRST COUNT            evaluates programs over the shared disk cache and
//                                               prints what they give
//   fault_worker leave MILLISECONDS             trains so long, and ends while steps are under way
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "weft/weft.h"

namespace {

void write_for_ever(const std::string &kind, const std::string &path) {
  for (int round = 0;; ++round) {
    weft::Tensor tensor = weft::full({100 + round % 7 * 1000}, double(round % 100));
    if (kind == "npy")
      weft::io::save_npy(path, tensor);
    else
      weft::io::save_safetensors(path, {{"first", tensor}, {"second", tensor + 1}},
                                 {{"round", std::to_string(round)}});
    if (round == 0)
      std::cout << "written" << std::endl;
  }
}

void compute(int first, int count) {
  weft::Config options = weft::config();
  options.symbolic = false; // a program, and an entry, for each n
  weft::set_config(options);
  for (int i = 0; i < count; ++i) {
    int n = 1 + (first + i) % count;
    weft::Tensor x = weft::arange(n, weft::float32), y = weft::tanh(x * 0.01) + n;
    std::cout << n << " " << weft::sum(y).item<float>() << "\n";
  }
  weft::synchronize();
  std::cerr << weft::statistics().corrupt_entries << " corrupt, " << weft::statistics().disk_hits
            << " hits\n";
}

void leave(int milliseconds) {
  weft::nn::Sequential model(weft::nn::Conv2d(4, 16, 3, {.padding = 1}), weft::nn::ReLU(),
                             weft::nn::Conv2d(16, 16, 3, {.padding = 1}));
  weft::nn::Linear head(512, 512);
  std::vector<weft::Tensor> parameters = model.parameters();
  for (const weft::Tensor &parameter : head.parameters())
    parameters.push_back(parameter);
  weft::optim::SGD optimizer(parameters, {.lr = 1e-3});
  weft::Tensor x = weft::randn({16, 4, 16, 16}), y = weft::randn({256, 512});
  auto step = [&] {
    weft::Tensor loss = model(x).square().mean() + head(y).square().mean();
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    return loss;
  };
  step().item<float>();
  auto started = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - started < std::chrono::milliseconds(milliseconds))
    step();
}

} // namespace

int main(int argc, char **argv) {
  try {
    if (argc == 4 && std::string(argv[1]) == "write")
      write_for_ever(argv[2], argv[3]);
    if (argc == 4 && std::string(argv[1]) == "compute")
      compute(std::atoi(argv[2]), std::atoi(argv[3]));
    if (argc == 3 && std::string(argv[1]) == "leave")
      leave(std::atoi(argv[2]));
  } catch (const weft::Error &error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
