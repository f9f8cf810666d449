// What programs of one structure have in common: which of their ints vary together, and what a
// program for all of them may assume. Knows nothing of MLIR.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::recorder {

using Ints = std::vector<int64_t>;              // a program's
using Observations = std::vector<const Ints *>; // of programs of one structure, the newest last

// One int of a program that may differ between programs of one structure.
struct IntPosition {
  enum class Kind : uint8_t {
    kSize, // a dim of an operand or of a result
    // An element of the one attribute of its op's that may: where a slice starts, by how much a
    // counter moves. Where it does, the op becomes one that takes them as an operand
    // (symbolic_module.cpp); every other attribute is part of the structure.
    kAttribute,
    kConstant, // the bits of a scalar constant
  };
  Kind kind;
  uint32_t op;    // in the slice
  uint32_t value; // kSize: operand, or kResult | result
  uint16_t at;    // the dim, or the element of the attribute
};
inline constexpr uint32_t kResult = 0x80000000u;

// A program for many ints: every int is a constant, or a member of a class. All members of a class
// have one value.
struct Generalization {
  struct Size {
    std::string name;
    int64_t least = 0;         // of those seen
    int64_t low = 0, high = 0; // both included
    // It is coefficient * the product of these sizes, which come before it. None: it is free.
    int64_t coefficient = 1;
    std::vector<uint32_t> factors;
    uint32_t position = 0; // where its value stands
    bool is_free() const {
      return factors.empty();
    }
    // Of one that is not free, for what `of` gives for its factors.
    template <typename Of> int64_t product(const Of &of) const {
      int64_t result = coefficient;
      for (uint32_t factor : factors)
        result *= of(factor);
      return result;
    }
  };
  struct Scalar {
    IntPosition::Kind kind = IntPosition::Kind::kAttribute;
    uint32_t position = 0;
  };
  static constexpr int32_t kConstant = -1;
  Ints ints;                    // those of one program: what constants must be
  std::vector<int32_t> classes; // of each int: kConstant, a size, or sizes.size() + a scalar
  std::vector<Size> sizes;      // named; equal names are equal sizes
  std::vector<Scalar> scalars;  // the program takes them as scalar arguments, after its leaves

  // What its sizes and scalars are for these ints; nothing where they are not within its guards.
  struct Match {
    std::vector<int64_t> sizes, scalars;
  };
  std::optional<Match> match(const Ints &ints) const;
  // The same from a later power of two on, at most the one below the least size seen, for programs
  // that no smaller size may share. False: it is that already.
  bool raise_ranges();
  // Parts of its only free size's range around the newest, none of one size, for programs that not
  // all sizes may share: the part above the newest cut in half again and again, or that below it,
  // or both. Where one threshold parts the sizes, some range lies on the newest's side of it, if
  // two sizes do. None where several sizes vary.
  std::vector<std::pair<int64_t, int64_t>> ranges_around() const;
  // Where one size varies.
  void set_range(std::pair<int64_t, int64_t> range);
  // Where several sizes vary: ranges that go far beyond these ints end near them.
  void cut_ranges(const Ints &near);
  // The ranges of products, after those of free sizes have changed.
  void bound_products();
  // The free sizes: others are products of these.
  std::vector<uint32_t> free_sizes() const;
  // What it is made of, for keys: equal texts for equal programs.
  std::string text() const;
  int64_t bytes() const {
    return static_cast<int64_t>(ints.size() * (sizeof(int64_t) + sizeof(int32_t)));
  }
};

// The program for all these observations, the newest last: ints that are equal in all of them
// become one class, and a size that is the same multiple of others in all of them is one of theirs.
// A size's range goes from 2 to the power of two that covers the largest one seen. Observations
// whose sizes differ from the newest's where one of both is 0 or 1 are left out: those sizes mean
// other things, no elements and broadcasting. False where nothing is left that varies; `why` then
// says so. sizes_as_scalars: the program takes its sizes as scalars, too.
bool generalize(const Observations &observations, const std::vector<IntPosition> &positions,
                bool sizes_as_scalars, Generalization &result, std::string &why);

// The observations that `general` was made of, as they would be if all its free sizes but this one
// were as in the newest.
std::vector<Ints> hold_other_sizes(const Observations &observations,
                                   const std::vector<IntPosition> &positions,
                                   const Generalization &general, uint32_t varies);

} // namespace weft::recorder
