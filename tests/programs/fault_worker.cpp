// A process that tests of faults start, several at once, and kill.
//   fault_worker write npy|safetensors PATH     writes files of one number, each time another one, until it is killed
//   fault_worker compute FIRST COUNT            evaluates programs over the shared disk cache and prints what they give
#include <cstdlib>
#include <iostream>
#include <string>

#include "weft/weft.h"

namespace {

void write_for_ever(const std::string &kind, const std::string &path) {
  for (int round = 0;; ++round) {
    weft::Tensor tensor = weft::full({100 + round % 7 * 1000}, double(round % 100));
    if (kind == "npy") weft::io::save_npy(path, tensor);
    else weft::io::save_safetensors(path, {{"first", tensor}, {"second", tensor + 1}}, {{"round", std::to_string(round)}});
    if (round == 0) std::cout << "written" << std::endl;
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
  std::cerr << weft::statistics().corrupt_entries << " corrupt, " << weft::statistics().disk_hits << " hits\n";
}

} // namespace

int main(int argc, char **argv) {
  try {
    if (argc == 4 && std::string(argv[1]) == "write") write_for_ever(argv[2], argv[3]);
    if (argc == 4 && std::string(argv[1]) == "compute") compute(std::atoi(argv[2]), std::atoi(argv[3]));
  } catch (const weft::Error &error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
