// The calls that random programs are made of. Elementwise functions come from the op records, with
// their dtypes and domains; functions of a form of their own have a row in calls.cpp that says how
// to draw their arguments.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/fuzz/program.h"
#include "tests/fuzz/random.h"
#include "weft/weft.h"

namespace weft::fuzz {

using Tensors = std::vector<Tensor>;

// What a call is drawn with: the values so far, of which shapes and dtypes are known, and random
// numbers.
class Draw {
public:
  Draw(Random &random, const Tensors &values, std::function<int(Step)> append)
      : random(random), values_(&values), append_(std::move(append)) {}

  Random &random;
  // A value that fits, mostly one of the last. -1: there is none.
  int value(const std::function<bool(const Tensor &)> &fits);
  const Tensor &operator[](int place) const {
    return (*values_)[static_cast<size_t>(place)];
  }
  // Puts a step before the one that is drawn, and says its place.
  int add(Step step) {
    return append_(std::move(step));
  }
  // A new input; a few have infinities, NaN and the like among their numbers, unless they are to be
  // finite.
  int numbers(DType dtype, const Shape &shape, double low, double high, bool finite = false);
  int indices(const Shape &shape, int64_t limit);

private:
  const Tensors *values_;
  std::function<int(Step)> append_;
};

struct Call {
  // The operands and arguments of a call that fits the values so far; nothing when none does.
  std::function<std::optional<Step>(Draw &)> draw;
  std::function<Tensor(const Tensors &args, const Step &step)> run;
  // The call in C++: $0 is an argument, #0 the numbers of a group, @0 a dtype, %0 a scalar in
  // thousandths.
  std::string text;
  double weight = 1;   // how often it is drawn, beside the others
  bool writes = false; // a statement: its result is its first argument
  std::function<Tensor(const Tensors &args, const Step &step)> dry =
      {}; // `run` without computing, where it computes
};

// By name, in a fixed order.
const std::map<std::string, Call> &calls();

inline bool is_input(const Step &step) {
  return step.call == "input" || step.call == "indices";
}
// "input" is the step that makes a tensor of values: numbers are {dtype, seed, low, high in
// thousandths, special}, {shape}. "indices": {limit, seed, dtype}, {shape}.
Tensor make_input(const Step &step);

inline constexpr int64_t kScalarUnit = 1000; // scalars in steps are in thousandths

} // namespace weft::fuzz
