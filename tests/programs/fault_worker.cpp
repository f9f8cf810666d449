// A process that tests of faults start, several at once, and kill.
//   fault_worker write npy|safetensors PATH     writes files of one number, each time another one,
//                                               until it is killed
//   fault_worker compute FIRST COUNT            evaluates programs over the shared disk cache and
//                                               prints what they give
//   fault_worker leave MILLISECONDS             trains so long, and ends while steps are under way
//   fault_worker end                            computes in destructors and in atexit(), and prints
//                                               what becomes of it
//   fault_worker exit N                         calls exit(7) in a kernel of its own, of N pieces
//   fault_worker fork                           the same in children of fork(), which call exit()
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "runtime/abi/weft_custom.h"
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

// Says what a tensor that was computed holds, and what becomes of another computation.
void try_to_compute(const char *where, const weft::Tensor &computed) {
  std::cout << where << " reads " << computed.item<float>() << std::endl;
  try {
    float sum = weft::sum(weft::ones({4}) + 1).item<float>();
    std::cout << where << " computes " << sum << std::endl;
  } catch (const weft::Error &error) {
    std::cout << where << ": " << error.what() << std::endl;
  }
}

struct AtEnd {
  const char *where;
  weft::Tensor computed;
  ~AtEnd() {
    if (computed.defined())
      try_to_compute(where, computed);
  }
};
AtEnd earlier{"a static object", {}}; // made before the first call of Weft: it goes as the last one

void end() {
  std::thread([] {
    thread_local AtEnd of_thread{"a thread's object", {}};
    of_thread.computed = weft::full({1}, 5).eval();
  }).join();
  earlier.computed = weft::full({1}, 3).eval();
  static weft::Tensor later = weft::full({1}, 4).eval();
  std::atexit([] { try_to_compute("atexit", later); });
}

void fork_children() {
  weft::Tensor x = weft::full({300, 300}, 2).eval(), y = weft::full({1}, 7).eval();
  weft::Tensor under_way = weft::matmul(x, x);
  weft::submit_step({{under_way}});
  for (bool computes : {false, true}) {
    pid_t child = fork();
    if (child == 0) {
      alarm(60);
      if (computes)
        try_to_compute("the child", y);
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::cout << "a child has ended with " << status << std::endl;
  }
  try_to_compute("the parent", y);
  std::cout << weft::sum(under_way).item<float>() << std::endl;
}

// Of the process's thread where the kernel is small, else of one of Weft's.
void exit_in_a_kernel(int64_t pieces) {
  alarm(60); // rather than wait for ever
  static int64_t count = pieces;
  static weft::Tensor kept = weft::ones({1}).eval(); // goes while the run is under way
  std::atexit([] { try_to_compute("atexit", kept); });
  weft_custom_kernel kernel = {};
  kernel.struct_size = sizeof kernel;
  kernel.version = WEFT_CUSTOM_ABI_VERSION;
  kernel.name = "test.exit";
  kernel.num_outputs = 1;
  kernel.infer = [](const weft_custom_call *call, weft_custom_shape *outputs) -> const char * {
    outputs[0] = {call->inputs[0].dtype, 1, {call->inputs[0].dims[0]}};
    return nullptr;
  };
  kernel.run = [](const weft_custom_call *, int64_t begin, int64_t end) -> const char * {
    if (end == count)
      std::exit(7);
    return begin < 0 ? "no piece" : nullptr;
  };
  kernel.count = [](const weft_custom_call *) {
    return count;
  };
  if (const char *wrong = weft_register_kernel(&kernel))
    throw std::runtime_error(wrong);
  weft::custom("test.exit", {weft::ones({4})})[0].sum().item<float>();
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
    if (argc == 2 && std::string(argv[1]) == "end")
      end();
    if (argc == 3 && std::string(argv[1]) == "exit")
      exit_in_a_kernel(std::atoll(argv[2]));
    if (argc == 2 && std::string(argv[1]) == "fork")
      fork_children();
  } catch (const weft::Error &error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
