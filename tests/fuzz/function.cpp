#include "tests/fuzz/function.h"

#include <algorithm>
#include <atomic>

#include "tests/fuzz/machine.h"
#include "tests/support/Compare.h"

namespace weft::fuzz {
namespace {

bool wants_gradient(const Step &step) {
  return step.call == "input" && step.numbers[0][5] != 0;
}

// What decides about an input: its own numbers and shape.
Random random_of(const Program &program, const Step &step) {
  uint64_t mixed = program.seed;
  for (const std::vector<int64_t> &group : step.numbers)
    for (int64_t number : group)
      mixed = Random(mixed ^ static_cast<uint64_t>(number)).next();
  return Random(mixed);
}

// What can be seen of one way to run the function, in order.
struct Seen {
  std::string what;
  bool defined = false; // a gradient that is not there is not a gradient of zeros
  ir::HostTensor value = ir::HostTensor(DType::kFloat32, {0});
};
struct Observed {
  std::string error; // at the call that failed
  int calls = 0;     // that succeeded
  std::vector<Seen> seen;
};

// kCalledAfresh: without the gradients and the history of the calls before, of which a Program
// keeps none.
enum class How { kCalled, kCalledAfresh, kJitted, kTraced };

class Observer {
public:
  explicit Observer(const Program &program) : program_(program), form_(form_of(program)) {}

  Observed observe(How how) {
    Observed observed;
    manual_seed(program_.seed);
    make_inputs();
    auto function = [this](const std::vector<Tensor> &arguments) {
      return run(arguments);
    };
    try {
      auto jitted = jit(function);
      weft::Program traced;
      if (how == How::kTraced)
        traced = trace(function, arguments());
      for (int call = 0; call < 2; ++call) {
        if (call == 1 && form_.other_values)
          renew_arguments();
        if (call == 1 && how == How::kCalledAfresh)
          forget();
        bool called = how == How::kCalled || how == How::kCalledAfresh;
        std::vector<Tensor> results = called                ? function(arguments())
                                      : how == How::kJitted ? jitted(arguments())
                                                            : traced.run(arguments());
        if (called) // which may share memory with what it was given; results do not
          for (Tensor &result : results)
            result = result.clone();
        if (call == 1) {
          for (const Tensor &result : results)
            if (how != How::kTraced && result.requires_grad())
              sum(result).backward({}, true);
          NoGrad no_grad;
          for (Tensor &result : results)
            if (result.dtype() != boolean)
              result.add_(1);
        }
        see(observed, "call " + std::to_string(call + 1), results, how);
        ++observed.calls;
      }
    } catch (const Error &error) {
      observed.error = std::string(name(error.kind())) + ": " + error.message();
    }
    inputs_.clear();
    return observed;
  }

  bool has_power() const { // of two tensors, or of one and a number
    return std::any_of(program_.steps.begin(), program_.steps.end(), [](const Step &step) {
      return step.call == "pow" || step.call == "pow scalar" || step.call == "scalar pow";
    });
  }
  bool has_history() const {
    return std::any_of(program_.steps.begin(), program_.steps.end(), wants_gradient);
  }
  bool passes_a_tensor_twice() const {
    return std::any_of(form_.same.begin(), form_.same.end(), [](int place) { return place >= 0; });
  }

private:
  void make_inputs() {
    inputs_.assign(program_.steps.size(), Tensor());
    for (size_t i = 0; i < inputs_.size(); ++i)
      if (is_input(program_.steps[i]))
        inputs_[i] = form_.same[i] >= 0 ? inputs_[static_cast<size_t>(form_.same[i])]
                                        : make_input(program_.steps[i]);
  }
  void forget() {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (wants_gradient(program_.steps[i]))
        inputs_[i].zero_grad();
      else if (inputs_[i].defined())
        inputs_[i] = form_.same[i] >= 0 ? inputs_[static_cast<size_t>(form_.same[i])]
                                        : inputs_[i].detach().clone();
    }
  }
  void renew_arguments() {
    for (int place : form_.arguments) {
      auto at = static_cast<size_t>(place);
      if (form_.same[at] >= 0) {
        inputs_[at] = inputs_[static_cast<size_t>(form_.same[at])];
        continue;
      }
      Step other = program_.steps[at];
      ++other.numbers[0][1]; // the seed of its values
      inputs_[at] = make_input(other);
    }
  }
  std::vector<Tensor> arguments() const {
    std::vector<Tensor> passed;
    for (int place : form_.arguments)
      passed.push_back(inputs_[static_cast<size_t>(place)]);
    return passed;
  }

  // The function: nothing in it asks for a value.
  std::vector<Tensor> run(const std::vector<Tensor> &arguments) const {
    Tensors inputs = inputs_;
    for (size_t i = 0; i < arguments.size(); ++i)
      inputs[static_cast<size_t>(form_.arguments[i])] = arguments[i];
    return Machine(/*dry=*/true, std::move(inputs)).run(program_);
  }

  // Of a trace: what it captured is its own state, as are gradients that it makes.
  void see(Observed &observed, const std::string &when, const std::vector<Tensor> &results,
           How how) {
    std::vector<bool> visible(inputs_.size(), how != How::kTraced);
    for (int place : form_.arguments)
      visible[static_cast<size_t>(place)] = true;
    std::vector<std::pair<std::string, Tensor>> all;
    for (size_t i = 0; i < results.size(); ++i)
      all.emplace_back(when + ", result x" + std::to_string(program_.outputs[i]), results[i]);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].defined() || !visible[i])
        continue;
      all.emplace_back(when + ", input x" + std::to_string(i), inputs_[i]);
      if (how != How::kTraced && wants_gradient(program_.steps[i]))
        all.emplace_back(when + ", gradient of x" + std::to_string(i), inputs_[i].grad());
    }
    std::vector<Tensor> defined;
    for (auto &[what, tensor] : all)
      if (tensor.defined())
        defined.push_back(tensor);
    eval(defined);
    for (auto &[what, tensor] : all)
      observed.seen.push_back(tensor.defined() ? Seen{what, true, host_tensor(tensor)}
                                               : Seen{what});
  }

  const Program &program_;
  FunctionForm form_;
  Tensors inputs_;
};

std::string compare(const Observed &expected, const Observed &actual) {
  for (size_t i = 0; i < expected.seen.size(); ++i) {
    const Seen &should = expected.seen[i];
    // Less is seen of a trace.
    auto is = std::find_if(actual.seen.begin(), actual.seen.end(),
                           [&](const Seen &seen) { return seen.what == should.what; });
    if (is == actual.seen.end()) {
      if (actual.calls >= expected.calls)
        continue;
      return actual.error;
    }
    if (is->defined != should.defined)
      return should.what + (is->defined ? " is there" : " is missing");
    if (!should.defined)
      continue;
    if (std::string different = tests::compareExact(is->value, should.value); !different.empty())
      return should.what + " " + different;
  }
  return "";
}

std::atomic<int64_t> checked{0}, refused{0};

} // namespace

FunctionForm form_of(const Program &program) {
  FunctionForm form;
  form.same.assign(program.steps.size(), -1);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step &step = program.steps[i];
    if (!is_input(step))
      continue;
    Random random = random_of(program, step);
    // A function of arguments that want gradients is called, not replayed.
    if (!random.chance(wants_gradient(step) ? 0.2 : 0.6))
      continue;
    form.arguments.push_back(static_cast<int>(i));
    if (!random.chance(0.25) || wants_gradient(step))
      continue;
    for (size_t k = 0; k < i; ++k) {
      const Step &other = program.steps[k];
      bool alike = other.call == step.call && other.numbers[0][0] == step.numbers[0][0] &&
                   other.numbers[1] == step.numbers[1] && !wants_gradient(other) &&
                   (step.call == "input" || other.numbers[0][2] == step.numbers[0][2]);
      if (alike && form.same[k] < 0) {
        form.same[i] = static_cast<int>(k);
        break;
      }
    }
  }
  form.other_values = Random(program.seed ^ 0x5eed).chance(0.5);
  return form;
}

static std::string check_functions(const Program &program, const std::string &backend) {
  use(backend, 2, false, 0, !may_fold_norms(program));
  Observer observer(program);
  Observed called = observer.observe(How::kCalled);
  std::string wrong;
  if (called.calls == 0) {
    ++refused; // what a first call leaves behind may be refused by a second, and is compared
  } else {
    ++checked;
    for (auto [how, text] : {std::pair(How::kJitted, "jitted"), {How::kTraced, "traced"}}) {
      // A Program refuses an input that it writes and that is given twice.
      if (how == How::kTraced && observer.passes_a_tensor_twice())
        continue;
      // Of a constant exponent the compiler makes products and roots, whose last digits are not
      // those of pow.
      if (how == How::kTraced && backend == "cpu" && observer.has_power())
        continue;
      Observed observed = observer.observe(how);
      bool afresh = how == How::kTraced && observer.has_history();
      if (std::string different =
              compare(afresh ? observer.observe(How::kCalledAfresh) : called, observed);
          !different.empty()) {
        wrong = std::string(text) + " on " + backend + ", unlike called: " + different;
        break;
      }
      if (called.error.empty() && !observed.error.empty()) {
        wrong = std::string(text) + " on " + backend + ": " + observed.error;
        break;
      }
    }
  }
  use("reference", 1, false);
  return wrong;
}

std::string check_functions(const Program &program) {
  // Compiled programs of a step more than the rest of the check costs.
  constexpr double kOnCpu = 0.1;
  std::string wrong = check_functions(program, "reference");
  if (wrong.empty() && Random(program.seed ^ 0xc9).chance(kOnCpu))
    wrong = check_functions(program, "cpu");
  return wrong;
}

FunctionCounts function_counts() {
  return {checked, refused};
}

} // namespace weft::fuzz
