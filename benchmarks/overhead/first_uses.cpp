#include "benchmarks/overhead/first_uses.h"

#include <iostream>
#include <sstream>

#include "benchmarks/common/child_process.h"
#include "weft/models/registry.h"
#include "weft/weft.h"

namespace weft::benchmarks {
namespace {

constexpr int kProcesses = 5;
constexpr const char *kNetworks[] = {"resnet18", "resnet50", "mobilenet_v2"};

} // namespace

int first_uses_of(const std::string &network) {
  Config off = config();
  off.cache_dir = "off";
  set_config(off);
  double start = now();
  models::AnyModel net = models::find(network).make();
  eval(net.module().parameters());
  synchronize();
  double made = now();
  net.module().eval();
  Tensor image = ones({1, 3, 64, 64});
  {
    NoGrad no_grad;
    eval(net({image}));
  }
  double inferred = now();
  net.module().train();
  net({ones({2, 3, 64, 64})})[0].sum().backward();
  std::vector<Tensor> gradients;
  for (const Tensor &parameter : net.module().parameters())
    gradients.push_back(parameter.grad());
  eval(gradients);
  double trained = now();
  volatile double sink = 0;
  for (const Tensor &gradient : gradients)
    sink = gradient.norm().item<float>();
  (void)sink;
  std::cout << made - start << " " << inferred - made << " " << now() - trained << " "
            << gradients.size() << std::endl;
  return 0;
}

void first_uses(Report &report, const std::string &program, int threads) {
  for (const std::string network : kNetworks) {
    std::vector<double> made, inferred, norms;
    double parameters = 0;
    for (int i = 0; i < kProcesses; ++i) {
      double seconds[3];
      std::istringstream stream(output_of("'" + program + "' --first-uses " + network));
      stream >> seconds[0] >> seconds[1] >> seconds[2] >> parameters;
      made.push_back(seconds[0]);
      inferred.push_back(seconds[1]);
      norms.push_back(seconds[2] / parameters);
    }
    auto add = [&](const char *what, const char *unit, double value) {
      report.add({"overhead", network + what, "weft", "time", unit, value, threads, 1});
    };
    add("_cold_construction", "s", median(made));
    add("_cold_inference", "s", median(inferred));
    add("_cold_norm_of_a_gradient", "ms", 1e3 * median(norms));
  }
}

} // namespace weft::benchmarks
