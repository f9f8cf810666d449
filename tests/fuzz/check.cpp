#include "tests/fuzz/check.h"

#include <algorithm>

#include "tests/fuzz/checked_backend.h"
#include "tests/fuzz/function.h"
#include "tests/fuzz/machine.h"
#include "tests/fuzz/sizes.h"

namespace weft::fuzz {
namespace {

// Programs of which one is run at many sizes: each size is compiled alone as well.
constexpr uint64_t kSizesOfOneIn = 48;

struct Class {
  const char *name;
  std::vector<Setup> setups;
};

const std::vector<Class> &classes() {
  static const std::vector<Class> all = {
      {"cpu",
       {{"cpu, unfused, computing again what it can", "cpu-unfused", 1, false, {"cpu"}, 1},
        {"cpu on one thread", "cpu"},
        {"cpu on two threads", "cpu", 2},
        {"cpu on two devices", "cpu", 1, false, {"cpu:1", "cpu"}},
        {"cpu, every op against reference evaluation", kCheckedBackend}}},
      {"reference",
       {{"reference", "reference"},
        {"reference, call by call", "reference", 1, true},
        {"reference on another device", "reference", 1, false, {"cpu:1"}}}},
  };
  return all;
}

// The two ways that take the longest for what they show have every second program each.
bool has_turn(const Setup &setup, uint64_t seed) {
  return seed % 2 ? !setup.eager : setup.devices.size() == 1;
}

bool has_gradients(const Program &program) {
  return std::any_of(program.steps.begin(), program.steps.end(), [](const Step &step) {
    return step.call == "grad" || step.call == "backward";
  });
}

// Without the steps that nothing needs any more. Writes and evaluations of what is kept stay.
Program without_dead_steps(const Program &program) {
  size_t n = program.steps.size();
  std::vector<bool> live(n, false);
  for (int output : program.outputs)
    live[static_cast<size_t>(output)] = true;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = n; i-- > 0;) {
      const Step &step = program.steps[i];
      auto found = calls().find(step.call);
      if (!live[i] && found != calls().end() && found->second.writes &&
          live[static_cast<size_t>(step.args[0])])
        live[i] = changed = true;
      if (!live[i])
        continue;
      for (int arg : step.args)
        if (!live[static_cast<size_t>(arg)])
          live[static_cast<size_t>(arg)] = changed = true;
    }
  }
  Program smaller{program.seed, {}, {}};
  std::vector<int> place(n, -1);
  for (size_t i = 0; i < n; ++i) {
    if (!live[i])
      continue;
    place[i] = static_cast<int>(smaller.steps.size());
    smaller.steps.push_back(program.steps[i]);
    for (int &arg : smaller.steps.back().args)
      arg = place[static_cast<size_t>(arg)];
  }
  for (int output : program.outputs)
    smaller.outputs.push_back(place[static_cast<size_t>(output)]);
  return smaller;
}

class Reducer {
public:
  explicit Reducer(Program program) : best_(std::move(program)) {}

  Program reduce() {
    for (bool progress = true; progress && tries_ < kMostTries;) {
      progress = drop_steps();
      progress |= drop_outputs();
      progress |= bypass_steps();
      progress |= replace_by_inputs();
      progress |= drop_writes();
      progress |= shrink_shapes();
    }
    return best_;
  }

private:
  static constexpr int kMostTries = 3000;

  bool accept(const Program &candidate) {
    if (candidate.steps.empty() || ++tries_ > kMostTries)
      return false;
    // Steps that nobody reads may still be part of the failure: they are recorded, and alive for a
    // while.
    Program smaller = without_dead_steps(candidate);
    bool shorter = smaller.steps.size() < candidate.steps.size();
    if (dry_values(smaller) && !check(smaller).empty())
      best_ = std::move(smaller);
    else if (shorter && dry_values(candidate) && !check(candidate).empty())
      best_ = candidate;
    else
      return false;
    return true;
  }

  // Steps that nobody reads go one by one.
  bool drop_steps() {
    bool any = false;
    for (size_t i = best_.steps.size(); i-- > 0;) {
      if (i >= best_.steps.size())
        continue;
      bool read = false;
      for (const Step &step : best_.steps)
        read |= std::count(step.args.begin(), step.args.end(), static_cast<int>(i)) > 0;
      read |= std::count(best_.outputs.begin(), best_.outputs.end(), static_cast<int>(i)) > 0;
      if (read || best_.steps.size() == 1)
        continue;
      Program candidate = best_;
      candidate.steps.erase(candidate.steps.begin() + static_cast<int64_t>(i));
      auto moved = [&](int &place) {
        place -= place > static_cast<int>(i);
      };
      for (Step &step : candidate.steps)
        std::for_each(step.args.begin(), step.args.end(), moved);
      std::for_each(candidate.outputs.begin(), candidate.outputs.end(), moved);
      any |= accept(candidate);
    }
    return any;
  }

  bool drop_outputs() {
    bool any = false;
    for (size_t i = 0; best_.outputs.size() > 1 && i < best_.outputs.size();) {
      Program candidate = best_;
      candidate.outputs.erase(candidate.outputs.begin() + static_cast<int64_t>(i));
      if (accept(candidate))
        any = true;
      else
        ++i;
    }
    // Or what a step was made of, instead of the step.
    for (size_t i = 0; i < best_.outputs.size(); ++i)
      for (int arg : best_.steps[static_cast<size_t>(best_.outputs[i])].args) {
        Program candidate = best_;
        candidate.outputs[i] = arg;
        if (accept(candidate)) {
          any = true;
          break;
        }
      }
    return any;
  }

  // Uses of a step become uses of one of its operands.
  bool bypass_steps() {
    bool any = false;
    for (size_t i = best_.steps.size(); i-- > 0;) {
      if (i >= best_.steps.size())
        continue;
      for (int with : best_.steps[i].args) {
        Program candidate = best_;
        for (Step &step : candidate.steps)
          for (int &arg : step.args)
            if (arg == static_cast<int>(i))
              arg = with;
        for (int &output : candidate.outputs)
          if (output == static_cast<int>(i))
            output = with;
        if (accept(candidate)) {
          any = true;
          break;
        }
      }
    }
    return any;
  }

  bool replace_by_inputs() {
    bool any = false;
    for (size_t i = best_.steps.size(); i-- > 0;) {
      if (i >= best_.steps.size() || is_input(best_.steps[i]))
        continue;
      Machine machine(true);
      for (size_t k = 0; k <= i; ++k)
        machine.apply(best_.steps[k]);
      const Tensor &value = machine.values()[i];
      if (static_cast<int>(value.dtype()) > static_cast<int>(boolean))
        continue;
      Program candidate = best_;
      candidate.steps[i] = {
          "input",
          {},
          {{static_cast<int64_t>(value.dtype()), 7, -2000, 2000, 0, value.requires_grad()},
           value.shape()}};
      if (accept(candidate))
        any = true;
    }
    return any;
  }

  bool drop_writes() {
    bool any = false;
    for (size_t i = best_.steps.size(); i-- > 0;) {
      if (i >= best_.steps.size())
        continue;
      auto found = calls().find(best_.steps[i].call);
      if (found == calls().end() || !found->second.writes)
        continue;
      Program candidate = best_;
      candidate.steps[i] = {"detach", {candidate.steps[i].args[0]}, {}};
      if (accept(candidate))
        any = true;
    }
    return any;
  }

  // One size becomes a smaller one, wherever it stands.
  bool shrink_shapes() {
    std::vector<int64_t> sizes;
    for (const Step &step : best_.steps)
      if (is_input(step))
        sizes.insert(sizes.end(), step.numbers[1].begin(), step.numbers[1].end());
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    bool any = false;
    for (int64_t size : sizes)
      for (int64_t smaller : {int64_t(1), int64_t(2), size / 2, size - 1}) {
        if (smaller >= size || smaller < 1)
          continue;
        Program candidate = with_extent(best_, size, smaller);
        if (accept(candidate)) {
          any = true;
          break;
        }
      }
    return any;
  }

  Program best_;
  int tries_ = 0;
};

} // namespace

std::string check(const Program &program) {
  for (const Class &c : classes()) {
    Outcome first;
    for (const Setup &setup : c.setups) {
      if (!has_turn(setup, program.seed))
        continue;
      Outcome outcome = run(program, setup);
      if (!outcome.error.empty())
        return setup.name + ": " + outcome.error;
      if (&setup == &c.setups.front()) {
        first = std::move(outcome);
        continue;
      }
      std::string different = different_outcome(program, outcome, first);
      std::string other = c.setups.front().name;
      // A gradient's parts are summed at the copy that another device read before those of other
      // reads are added: in the order of a program that makes these copies on one device.
      if (!different.empty() && !outcome.moved.empty() && has_gradients(program)) {
        different =
            different_outcome(program, outcome, run(program, c.setups.front(), outcome.moved));
        other += ", with copies in place of moves";
      }
      if (!different.empty())
        return setup.name + " differs from " + other + ": " + different;
    }
  }
  if (std::string different = check_functions(program); !different.empty())
    return different;
  return sizes_of_all || program.seed % kSizesOfOneIn == 0 ? check_sizes(program) : "";
}

Program reduce(const Program &program) {
  return Reducer(program).reduce();
}

std::string report(const Program &program, const std::string &what) {
  Program smaller = reduce(program);
  std::string now = check(smaller);
  return "seed " + std::to_string(program.seed) + " (tools/fuzz.sh --seed " +
         std::to_string(program.seed) + " --programs 1): " + what + "\nreduced from " +
         std::to_string(program.steps.size()) + " to " + std::to_string(smaller.steps.size()) +
         " steps: " + now + "\n" +
         (!check_functions(smaller).empty() ? function_to_cpp(smaller) : to_cpp(smaller));
}

} // namespace weft::fuzz
