// Choices of kernels that were measured on this machine, kept in a file that processes share.
//
// A line is a kernel: the hash of what it computes, its name with types for people, and the choices
// that were faster than the compiler's; {} where none was:
//
//   9f0c...41 tanh_mul(64x5000xf32) -> 64x5000xf32: {vectors = 4 : i64}
//
// No choice changes a bit of a result, so that a file of another machine, or of another version,
// costs time at worst.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/codegen/Codegen.h"
#include "mlir/IR/BuiltinOps.h"
#include "runtime/core/caches.h"

namespace weft::compiler {

class MeasuredSchedules {
public:
  // Those of a target, in a file of the folder, which need not exist; an empty folder: in memory
  // alone. Read once in a process.
  static MeasuredSchedules &of(const std::string &folder, const TargetInfo &target);
  explicit MeasuredSchedules(std::string file);

  // Of what the file held when it was read: for the keys of caches. Empty for nothing.
  const std::string &key() const {
    return key_;
  }

  // Pins what was measured on fusions that pin nothing themselves. Kernels that are not known are
  // measured, those first that do most, while the process has measured for less than `seconds`.
  // What was done is added to the remarks. Threads measure one after the other.
  void apply(mlir::ModuleOp module, double seconds, std::vector<std::string> &remarks);

  // Entries of all, and their bytes.
  static runtime::CacheUse use();

private:
  void read();
  // Empty, or why the lines cannot be kept.
  std::string append(const std::string &lines);

  std::string file_, key_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::string> choices_; // texts of dictionaries, by hash
};

} // namespace weft::compiler
