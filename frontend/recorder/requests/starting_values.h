// What storages start from: values that are known when a tensor is made and brought into memory
// when it is read first, so that a parameter that is loaded or converted before costs nothing. One
// program over an open size serves all shapes: a model of many shapes would compile for each.
#pragma once

#include <array>
#include <memory>

#include "frontend/recorder/record/values.h"

namespace weft::recorder {

struct CompiledProgram;

// All elements alike, or each sample * scale + shift; rounded to the storage's dtype once.
struct StartingValue {
  enum class Kind : uint8_t { kConstant, kUniform, kNormal };
  Kind kind = Kind::kConstant;
  DType computed = DType::kFloat32;  // what samples are drawn and scaled in: float32 or float64
  double scale = 0, shift = 0;       // of a constant: `shift` is the element
  std::array<int64_t, 2> state = {}; // of the generator, before these samples
  Location location = {};            // where the tensor was made
  // Of samples: found when the tensor is made, so that the first read compiles nothing.
  std::shared_ptr<CompiledProgram> program = nullptr;
};

// The blocks of a generator's stream that samples of so many elements take
// (dialects/weft/ir/TensorOps.td, "Random"), and how many samples share some of them.
int64_t random_blocks(int64_t elements, bool normal);
inline constexpr int64_t kSamplesTogether = 64;

// The value with its program for storages of this type; null where there is none: the backend runs
// no program for many sizes. May compile, for which it gives up the lock.
std::shared_ptr<const StartingValue> with_program(StartingValue value, const TypeInfo &type);
// A leaf that holds it, maybe in flight; gives up the lock. Fails, and may be called again, when
// there is no memory, and what is recorded and under way gives none back.
Var in_memory(const StartingValue &value, const TypeInfo &type);
// The leaf in another dtype, in flight; null as above.
Var converted(Value *leaf, DType dtype);

} // namespace weft::recorder
