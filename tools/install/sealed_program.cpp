// A program with a sealed Weft and another LLVM in one process: libLLVM is loaded, with its symbols
// for everybody, before and used after Weft compiles.
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "weft/weft.h"

int main(int argc, char **argv) {
  if (argc != 4)
    return 2;
  const std::string llvm = argv[1], kernels = argv[2], passes = argv[3];
  void *other = dlopen(llvm.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!other)
    return std::printf("cannot load %s: %s\n", llvm.c_str(), dlerror()), 1;
  auto version = reinterpret_cast<void (*)(unsigned *, unsigned *, unsigned *)>(
      dlsym(other, "LLVMGetVersion"));
  auto create = reinterpret_cast<void *(*)()>(dlsym(other, "LLVMContextCreate"));
  auto dispose = reinterpret_cast<void (*)(void *)>(dlsym(other, "LLVMContextDispose"));
  if (!version || !create || !dispose)
    return std::printf("%s has no LLVM in it\n", llvm.c_str()), 1;
  void *context = create();

  // A training step: forward, backward and update, compiled by the LLVM inside Weft.
  weft::nn::Linear model(8, 4);
  weft::optim::AdamW optimizer(model.parameters(), {.lr = 0.01});
  weft::Tensor x = weft::randn({16, 8}), y = weft::zeros({16, 4});
  float first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    weft::Tensor loss = weft::nn::mse(weft::tanh(model(x)), y);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
    last = loss.item<float>();
    if (step == 0)
      first = last;
  }
  std::printf("loss %g to %g\n", first, last);
  if (!(last < first))
    return 1;

  // Plugins of C kernels load; those of MLIR's C++ API are refused before they are loaded.
  weft::load_plugin(kernels);
  if (weft::custom("test.plus_one", {weft::tensor({1.f, 2.f})})[0].to_vector<float>() !=
      std::vector<float>{2, 3})
    return 1;
  try {
    weft::load_plugin(passes);
    return std::printf("the plugin of passes was loaded\n"), 1;
  } catch (const weft::Error &error) {
    std::printf("%s\n", error.message().c_str());
  }
  if (dlopen(passes.c_str(), RTLD_NOW | RTLD_NOLOAD))
    return std::printf("the plugin of passes is in the process\n"), 1;

  unsigned major = 0, minor = 0, patch = 0;
  version(&major, &minor, &patch);
  dispose(context);
  std::printf("beside LLVM %u.%u.%u\n", major, minor, patch);
  return 0;
}
