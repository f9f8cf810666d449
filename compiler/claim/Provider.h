// Who may run ops in place of our own kernels: vendor libraries, each with rules of what it claims.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "compiler/backend/CompileOptions.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace weft::compiler {

// The name of the runtime's entry that calls kernels of users, as provider calls and library calls
// have it.
inline constexpr llvm::StringLiteral kCustomEntry = "weft.custom";
// Those that keep a value in a file (backends/cpu/device/file_entry.h).
inline constexpr llvm::StringLiteral kStoreEntry = "weft.file.store";
inline constexpr llvm::StringLiteral kLoadEntry = "weft.file.load";

// Why an op was not claimed: a short fixed name, and a sentence for the report. Both texts stay
// valid.
struct ClaimRefusal {
  llvm::StringRef reason;
  llvm::StringRef explanation;
};

// What one call of a library's entry computes.
struct Claim {
  // In block order. Those whose results others read as well are copied into the call, and stay for
  // the others.
  llvm::SmallVector<mlir::Operation *, 4> ops;
  // The call's operands and results, in the entry's order. Results are results of the last op;
  // operands are defined outside of `ops`.
  llvm::SmallVector<mlir::Value, 4> inputs;
  llvm::SmallVector<mlir::Value, 1> outputs;
  // Values: integers, floats, strings, arrays of i64.
  llvm::SmallVector<mlir::NamedAttribute> config;
  // Neighbours that the call could have taken in, and why it did not.
  llvm::SmallVector<std::pair<mlir::Operation *, ClaimRefusal>, 1> left;

  void set(llvm::StringRef name, mlir::Attribute value) {
    config.emplace_back(mlir::StringAttr::get(value.getContext(), name), value);
  }
};

// Nothing to say about ops of other kinds.
struct NotMine {};

// Of an op whose sizes vary: the library takes it at some sizes of the range and not at others.
// There is no program for all of them then, since which of the two computes it decides bits;
// whoever asked narrows the range, or compiles for one size.
struct SometimesMine {
  llvm::StringRef explanation;
};

using ClaimAnswer = std::variant<NotMine, ClaimRefusal, SometimesMine, Claim>;

// An operand that calls copy into a form of the library's own before they compute: many calls with
// one such operand rather share a copy.
struct OperandPacking {
  unsigned operand;       // of the call
  mlir::StringAttr entry; // the library's entry that makes the copy: one input, one output of its
                          // type, with the same value
  mlir::DictionaryAttr
      config; // of that call. Operands that agree in it and in the entry agree in the form
  mlir::NamedAttribute
      packed;       // what the config of the call gets, so that its entry expects the form
  int64_t minCalls; // fewer would not earn the copy back
};

// NotMine where the call would gain nothing, ClaimRefusal where it would, but cannot.
using PackingAnswer = std::variant<NotMine, ClaimRefusal, OperandPacking>;

// How a call of a library gives some rows of its result, elements along its first dim: by a call on
// parts of what it reads.
struct RowPieces {
  struct Operand {
    mlir::RankedTensorType type;        // of what one such call reads
    llvm::SmallVector<int64_t> strides; // of its dims, in elements; none: all lie in a row
    int64_t bytes;                      // from its first to its last element
    int64_t step; // bytes from where one row's part begins to where the next one's does; 0: all
                  // rows read the same
  };
  llvm::SmallVector<Operand> inputs;
  mlir::DictionaryAttr config; // of such a call
  int64_t multiple = 1;        // rows come in multiples of it
};

// NotMine for calls that give all rows or none.
using RowsAnswer = std::variant<NotMine, ClaimRefusal, RowPieces>;

// Stateless and thread-safe: compilations in other threads ask the same object.
class Provider {
public:
  virtual ~Provider() = default;
  // The entry that its calls name: "onednn.matmul".
  virtual llvm::StringRef name() const = 0;
  // May claim the op together with ops around it. Looks at a bounded number of neighbours; changes
  // nothing. With MathMode::Fast claims that conformance forbids (NaN dropped) are allowed.
  virtual ClaimAnswer match(mlir::Operation *op, MathMode math) const = 0;
  // Whether calls of the entry may have operands whose sizes are known at run time only
  // (ir::hasNamedDims). Where not, its claims of such ops do not count.
  virtual bool takesVaryingSizes() const {
    return false;
  }
  // Whether it would claim this convolution, and rather with images that have channels last: the
  // layout phase then puts transposes around the op, which match() takes in.
  virtual bool prefersChannelsLast(mlir::Operation *) const {
    return false;
  }
  // What a weft.provider_call of its entry would have packed.
  virtual PackingAnswer packing(mlir::Operation *) const {
    return NotMine{};
  }
  // What a call of its entry with these tensors (inputs, then outputs) and config is for so many
  // rows: the same sums for each element, so that the result has the same bits.
  virtual RowsAnswer rowPieces(llvm::ArrayRef<mlir::RankedTensorType>, mlir::DictionaryAttr,
                               int64_t) const {
    return NotMine{};
  }
};

// A composite that the backend's own code generator builds whole.
struct OwnKernel {};
using KernelAnswer = std::variant<NotMine, ClaimRefusal, SometimesMine, OwnKernel>;

// The providers of a backend, first come first served.
class ProviderSet {
public:
  // Asked of composites that no provider takes. Stateless; without one, all are decomposed.
  using Kernels = KernelAnswer (*)(mlir::Operation *);
  void setKernels(Kernels kernels) {
    kernels_ = kernels;
  }
  KernelAnswer kernelFor(mlir::Operation *op) const {
    return kernels_ ? kernels_(op) : KernelAnswer(NotMine{});
  }
  void add(std::shared_ptr<const Provider> provider) {
    providers_.push_back(std::move(provider));
  }
  llvm::ArrayRef<std::shared_ptr<const Provider>> providers() const {
    return providers_;
  }

private:
  std::vector<std::shared_ptr<const Provider>> providers_;
  Kernels kernels_ = nullptr;
};

} // namespace weft::compiler
