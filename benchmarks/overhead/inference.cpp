#include "benchmarks/overhead/inference.h"

#include "benchmarks/common/report.h"
#include "weft/weft.h"

namespace weft::benchmarks {
namespace {

constexpr int kRuns = 20;   // a round
constexpr int kWarmUp = 12; // until both programs are compiled and weights are packed

struct Mlp : nn::Module {
  nn::Linear up = child("up", nn::Linear(1024, 4096));
  nn::Linear down = child("down", nn::Linear(4096, 1024));
  Tensor operator()(const Tensor &x) {
    return down(relu(up(x)));
  }
};

} // namespace

void inference(Report &report, int rounds, int threads) {
  NoGrad no_grad;
  Mlp mlp;
  Config before = config();
  for (int64_t batch : {1, 8, 32}) {
    std::vector<double> times[2];
    volatile float sink = 0;
    for (int round = -1; round < rounds; ++round)
      for (bool prepare : {false, true}) {
        Config changed = before;
        changed.prepare = prepare;
        set_config(changed);
        Tensor x = randn({batch, 1024}).eval();
        int runs = round < 0 ? kWarmUp : kRuns;
        double start = now();
        for (int i = 0; i < runs; ++i)
          sink = *mlp(x).data<float>();
        if (round >= 0)
          times[prepare].push_back((now() - start) / runs);
      }
    (void)sink;
    set_config(before);
    report.add({"overhead", "mlp_1024_4096_1024_plain_weights", "weft", "time", "us",
                1e6 * median(times[0]), threads, batch});
    report.add({"overhead", "mlp_1024_4096_1024_prepared", "weft", "time", "us",
                1e6 * median(times[1]), threads, batch});
    std::fprintf(stderr, "  batch %lld: plain weights / prepared: %.2f\n",
                 static_cast<long long>(batch), median(times[0]) / median(times[1]));
  }
}

} // namespace weft::benchmarks
