// Modules of one class under numbers: "blocks.0.weight", "blocks.1.weight", ...
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/nn/module.h"

namespace weft::nn {

// PyTorch's ModuleList, of modules of one class. A list of several classes is a Sequential, whose
// layers() are called one by one.
//
//   struct Net : nn::Module {
//     nn::ModuleList<Block> blocks = child("blocks", nn::ModuleList<Block>());
//     explicit Net(int64_t depth) {
//       for (int64_t i = 0; i < depth; ++i)
//         blocks.append(Block());
//     }
//     weft::Tensor operator()(weft::Tensor x) const {
//       for (const Block &block : blocks)
//         x = block(x);
//       return x;
//     }
//   };
template <typename M> class ModuleList : public Module {
public:
  ModuleList() = default;
  explicit ModuleList(std::vector<M> modules, Location location = Location::current()) {
    for (M &module : modules)
      append(std::move(module), location);
  }

  // Registers the module under the next number.
  void append(M module, Location location = Location::current()) {
    modules_.push_back(child(std::to_string(size()), std::move(module), location));
  }
  // How many there are.
  size_t size() const {
    return modules_.size();
  }
  // Negative numbers count from the end. Error: there is no such module.
  M &operator[](Tensor::At i) {
    return modules_[position(i)];
  }
  const M &operator[](Tensor::At i) const {
    return modules_[position(i)];
  }
  // In their order.
  auto begin() {
    return modules_.begin();
  }
  auto begin() const {
    return modules_.begin();
  }
  // Behind the last.
  auto end() {
    return modules_.end();
  }
  auto end() const {
    return modules_.end();
  }

private:
  size_t position(Tensor::At i) const {
    auto count = static_cast<int64_t>(size());
    if (i.index < -count || i.index >= count)
      fail_at(i.location, ErrorKind::kIndex,
              "ModuleList: there is no module " + std::to_string(i.index) + " of " +
                  std::to_string(count));
    return static_cast<size_t>(i.index < 0 ? i.index + count : i.index);
  }

  std::vector<M> modules_;
};

} // namespace weft::nn
