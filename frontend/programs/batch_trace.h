// trace() of a function for a range of batch sizes.
//
// The function is recorded at two sizes, and at others to confirm. What differs between the
// recordings is what the size decides, found as for programs of a process that serve many sizes
// (generalize.h). A process reads the numbers that such a program takes from each new recording; a
// compiled model has none, so each of them must be known as a function of the size.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/compile/generalize.h"
#include "frontend/programs/program_impl.h"
#include "frontend/programs/trace.h"

namespace weft::recorder {

class BatchTrace {
public:
  // Throws kValue for a range or inputs that are none, kCompile naming the op and its line where
  // something depends on the size in another way than by a factor.
  BatchTrace(const ErasedFunction &function, std::vector<ArgumentType> types,
             const BatchRange &batch, Location location);

  // At the largest size.
  const Recording &recording() const {
    return *recording_;
  }
  // Whether the input's leading dim is the batch.
  bool varies(size_t input) const {
    return varies_[input];
  }
  // The type of an input whose leading dim is the batch.
  mlir::Type named(mlir::Type type) const;
  // Gives the module of the recording's slice named sizes, with the same arguments. Throws
  // kCompile, as above, for an op that has no form for them.
  void name_sizes(mlir::ModuleOp module) const;
  // The program's module fits the smallest size, and what the function gives there. Throws
  // kCompile.
  void check_smallest(mlir::ModuleOp module) const;

private:
  // A number that the size decides: `factor` times it, 1 over that, or as many blocks of random
  // numbers as so many elements take (random_blocks).
  struct Formula {
    enum class Kind : uint8_t { kMultiple, kReciprocal, kBlocks, kNormalBlocks };
    Kind kind = Kind::kMultiple;
    int64_t factor = 1;
  };

  [[noreturn]] void refuse(const std::string &why) const;
  Recording record_at(int64_t size);
  void expect_same_ops(const Recording &other, int64_t size) const;
  void expect_same_outputs(const Recording &other, int64_t size) const;
  void expect_same_source(const Recording &other, int64_t size, size_t leaf) const;
  [[noreturn]] void refuse_other_ops(const Recording &other, int64_t size, size_t our_op,
                                     size_t their_op) const;
  std::vector<int64_t> ints_at(int64_t size) const;
  int64_t leaf_at(size_t leaf, int64_t size) const; // the bits of a number
  void check_one(const Recording &one);
  void generalize_sizes(const Recording &other);
  void compare_leaves(const Recording &other);
  void check_formulas(const Recording &other, int64_t size) const;
  // The number in this dtype, as a constant's position or a scalar leaf has it.
  int64_t bits_at(const Formula &formula, DType dtype, int64_t size) const;
  std::optional<Formula> fit(DType dtype, int64_t bits, int64_t other_bits) const;
  std::optional<Formula> fit_amount(const Recording &other, const IntPosition &position,
                                    int64_t amount, int64_t other_amount) const;
  std::string use_of(const Value *leaf) const;

  const ErasedFunction &function_;
  std::vector<ArgumentType> types_;
  Location location_;
  std::vector<bool> varies_;
  // Recorded at high_ and other_, which give the formulas, and at smaller sizes, which confirm
  // them.
  int64_t low_ = 0, high_ = 0, other_ = 0;
  std::optional<Recording> recording_;
  std::vector<IntPosition> positions_;
  bool any_ = false; // whether an op depends on the size
  Generalization general_;
  std::vector<Formula> scalars_;                   // of the generalization's
  std::vector<std::pair<size_t, Formula>> leaves_; // numbers that the function gives, by leaf
  std::vector<size_t> sums_; // ops that a batch of one has not (batch_of_one.h)
};

} // namespace weft::recorder
