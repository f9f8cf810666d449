// What the entries of a model hold between runs: of one name, one tensor. Private to this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "compiler/link/Aot.h"
#include "compiler/link/AotEntry.h"
#include "compiler/link/ModelCode.h"
#include "llvm/ADT/StringMap.h"

namespace weft::compiler {

class SharedTensors {
public:
  struct Shared {
    HeldTensor tensor;
    std::string first;         // the entry that names it first
    std::string valued;        // the entry whose value it begins with
    bool valueIsState = false; // what that entry keeps; else what it captured
    int entries = 0;           // how many have it
    int32_t number = -1;       // in the model; -1: not there
  };

  // Adds what the entries hold, then gives values. Each value may be of an entry, which keeps it,
  // or one of `weights`, whose caller does. InvalidArgument where entries, or a weight, do not fit.
  absl::Status add(llvm::ArrayRef<std::unique_ptr<AotEntry>> entries,
                   llvm::ArrayRef<AotWeight> weights);
  // What entries keep as constants and others write: a sentence for each such entry. It compiles,
  // and is most likely not meant.
  std::vector<std::string> unseenWrites(llvm::ArrayRef<std::unique_ptr<AotEntry>> entries) const;

  Shared &of(const AotEntry::Held &held) {
    return shared_[numbers_.find(held.name)->second];
  }
  const std::vector<Shared> &all() const {
    return shared_;
  }

private:
  absl::Status add(const AotEntry &entry, AotEntry::Held &held, bool isReplaced);

  std::vector<Shared> shared_;
  llvm::StringMap<size_t> numbers_;
};

} // namespace weft::compiler
