#include "tests/fuzz/machine.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>

#include "tests/support/Compare.h"
#include "tests/support/guarded_allocator.h"

namespace weft::fuzz {

void use(const std::string &backend, int threads, bool eager, int64_t memory_limit, bool prepare) {
  Config options = config();
  options.backend = backend;
  options.num_threads = threads;
  options.eager = eager;
  options.memory_limit = memory_limit;
  options.prepare = prepare;
  set_config(options);
}

ir::HostTensor host_tensor(const Tensor &tensor) {
  ir::HostTensor copy(tensor.dtype(), tensor.shape());
  if (tensor.nbytes() > 0)
    std::memcpy(copy.bytes.data(), tensor.data_bytes(), static_cast<size_t>(tensor.nbytes()));
  return copy;
}

std::vector<std::vector<int>> last_uses(const Program &program) {
  std::vector<int> last(program.steps.size(), -1);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    last[i] = static_cast<int>(i);
    for (int arg : program.steps[i].args)
      last[static_cast<size_t>(arg)] = static_cast<int>(i);
  }
  for (int output : program.outputs)
    last[static_cast<size_t>(output)] = -1;
  std::vector<std::vector<int>> dying(program.steps.size());
  for (size_t i = 0; i < last.size(); ++i)
    if (last[i] >= 0)
      dying[static_cast<size_t>(last[i])].push_back(static_cast<int>(i));
  return dying;
}

// What explain says of a kernel that was split in an evaluation after this one; empty for none.
static std::string split_kernel(uint64_t after) {
  for (const Evaluation &evaluation : recent_evaluations())
    for (const std::string &note : evaluation.notes)
      if (evaluation.number > after && note.find("does-not-compile") != std::string::npos)
        return note;
  return "";
}

static uint64_t last_evaluation() {
  std::vector<Evaluation> evaluations = recent_evaluations();
  return evaluations.empty() ? 0 : evaluations.back().number;
}

void Machine::apply(const Step &step) {
  if (is_input(step)) {
    size_t place = values_.size();
    bool given = place < inputs_.size() && inputs_[place].defined();
    values_.push_back(given ? inputs_[place] : make_input(step));
    return;
  }
  const Call &call = calls().at(step.call);
  Tensors args;
  for (int place : step.args)
    args.push_back(values_[static_cast<size_t>(place)]);
  // A gradient is asked of the tensor that the program has, not of its copy, so what may give the
  // tensor itself stays where that is; and random numbers are those of one device's stream.
  static const std::set<std::string> stay = {"grad", "backward", "to", "eval"};
  const std::vector<Device> &devices = placement_.devices;
  size_t turn = devices.empty() || step.call == "dropout" ? 0 : values_.size() % devices.size();
  for (size_t i = 0; i < args.size(); ++i) {
    std::pair<size_t, size_t> operand(values_.size(), i);
    if (placement_.copied.contains(operand))
      args[i] = args[i].clone();
    if (devices.empty() || stay.contains(step.call) || args[i].device() == devices[turn])
      continue;
    args[i] = args[i].to(devices[turn]);
    moved_.insert(operand);
  }
  values_.push_back(dry_ && call.dry ? call.dry(args, step) : call.run(args, step));
}

Tensors Machine::run(const Program &program) {
  std::vector<std::vector<int>> dying = last_uses(program);
  for (size_t i = 0; i < program.steps.size(); ++i) {
    apply(program.steps[i]);
    for (int place : dying[i])
      values_[static_cast<size_t>(place)] = Tensor();
  }
  Tensors results;
  for (int place : program.outputs)
    results.push_back(values_[static_cast<size_t>(place)]);
  return results;
}

std::optional<Tensors> dry_values(const Program &program) {
  try {
    Machine machine(/*dry=*/true);
    for (const Step &step : program.steps)
      machine.apply(step);
    return machine.values();
  } catch (const Error &) {
    return std::nullopt;
  }
}

static bool writes(const Program &program) {
  return std::any_of(program.steps.begin(), program.steps.end(), [](const Step &step) {
    return !is_input(step) && calls().at(step.call).writes;
  });
}

// Whether one of `later` comes after a call.
static bool has_after(const Program &program, const std::string &call,
                      const std::set<std::string> &later) {
  bool called = false;
  for (const Step &step : program.steps) {
    called = called || step.call == call;
    if (called && later.contains(step.call))
      return true;
  }
  return false;
}

// Whether a product may read a permuted tensor: where it lies permuted, the product is summed up in
// another order than where it was copied to another device, row by row.
static bool has_permuted_products(const Program &program) {
  return has_after(program, "permute",
                   {"matmul", "linear", "attention", "conv2d", "conv_transpose2d"});
}

// Whether a product may read a matrix of 8 bits. Where it sees that, a kernel of Weft's multiplies;
// where the matrix was converted for another device, a library does, in another order.
static bool has_narrow_products(const Program &program) {
  std::optional<Tensors> values = dry_values(program);
  bool narrow = false;
  for (size_t i = 0; values && i < program.steps.size(); ++i) {
    const std::string &call = program.steps[i].call;
    if (narrow && (call == "matmul" || call == "linear"))
      return true;
    narrow = narrow || byte_size((*values)[i].dtype()) == 1;
  }
  return false;
}

bool may_fold_norms(const Program &program) {
  return has_after(program, "conv2d", {"batch_norm"});
}

// Of cpu:0. A program that writes beside a tensor may give the right values.
static tests::GuardedAllocator &guarded_memory() {
  static const std::shared_ptr<tests::GuardedAllocator> memory = [] {
    auto made = std::make_shared<tests::GuardedAllocator>();
    set_allocator(made, Device("cpu"));
    return made;
  }();
  return *memory;
}

Outcome run(const Program &program, const Tensors &inputs, const Placement &placement) {
  tests::GuardedAllocator &memory = guarded_memory();
  Outcome outcome;
  try {
    Machine machine(false, inputs, placement);
    Tensors results = machine.run(program);
    outcome.moved = machine.moved();
    eval(results);
    for (const Tensor &result : results)
      outcome.outputs.push_back(host_tensor(result));
  } catch (const Error &error) {
    outcome.error = std::string(name(error.kind())) + ": " + error.message();
  }
  if (std::string fault = memory.fault(); !fault.empty())
    outcome.error = "memory: " + fault;
  return outcome;
}

Outcome run(const Program &program, const Setup &setup, const Operands &copied) {
  uint64_t before = whole_kernels ? last_evaluation() : 0;
  bool stays = setup.devices.size() == 1 || writes(program) || has_permuted_products(program) ||
               has_narrow_products(program); // before the seed: it draws samples, too
  use(setup.backend, setup.threads, setup.eager, setup.memory_limit, !may_fold_norms(program));
  manual_seed(program.seed);
  Placement placement{{setup.devices.begin(), setup.devices.end()}, copied};
  DeviceScope scope(placement.devices[0]);
  if (stays)
    placement.devices.clear();
  Outcome outcome = run(program, {}, placement);
  if (whole_kernels && outcome.error.empty())
    outcome.error = split_kernel(before);
  use("reference", 1, false);
  return outcome;
}

std::string different_outcome(const Program &program, const Outcome &actual,
                              const Outcome &expected) {
  if (actual.error != expected.error)
    return "it ends with '" + actual.error + "', not '" + expected.error + "'";
  for (size_t i = 0; i < expected.outputs.size(); ++i)
    if (std::string different = tests::compareExact(actual.outputs[i], expected.outputs[i]);
        !different.empty())
      return "output x" + std::to_string(program.outputs[i]) + " " + different;
  return "";
}

Program generate(uint64_t seed) {
  use("reference", 1, false);
  Random random(seed);
  Program program;
  program.seed = seed;
  Machine machine(true);
  auto append = [&](Step step) {
    machine.apply(step);
    program.steps.push_back(std::move(step));
    return static_cast<int>(program.steps.size()) - 1;
  };
  Draw draw(random, machine.values(), append);

  // Few sizes, so that shapes meet, and kernels of single calls are compiled once for many
  // programs.
  static const std::vector<int64_t> extents = {1, 2, 3, 5, 8, 17, 33};
  int64_t rank = random.below(5);
  Shape shape;
  for (int64_t i = 0; i < rank; ++i)
    shape.push_back(random.of(extents));
  if (rank > 0 && random.chance(0.06))
    shape[static_cast<size_t>(random.below(rank))] = 0;
  if (random.chance(0.05))
    shape = {random.chance(0.5) ? 130 : 61, 257}; // several threads, rows no multiple of a vector
  static const std::vector<DType> dtypes = {float32, float32, float32, float32, float32, float64,
                                            float64, int32,   int64,   boolean, boolean, bfloat16,
                                            float16, int8,    int16,   uint8};
  static const std::vector<DType> mains = {float32, float32, float32, float32,  float32,
                                           float32, float64, float64, bfloat16, float16};
  DType main = random.of(mains);
  int64_t inputs = random.between(2, 4);
  for (int64_t i = 0; i < inputs; ++i) {
    Shape own(shape.begin() + (random.chance(0.25) && !shape.empty()
                                   ? random.below(static_cast<int64_t>(shape.size()))
                                   : 0),
              shape.end());
    for (int64_t &extent : own)
      if (random.chance(0.15))
        extent = 1;
    draw.numbers(i < 2 ? main : random.of(dtypes), own, -2, 2);
  }

  double total = 0;
  for (const auto &[name, call] : calls())
    total += call.weight;
  int64_t count = random.between(3, random.chance(0.1) ? 40 : 14);
  for (int64_t i = 0; i < count; ++i) {
    double at = total * static_cast<double>(random.below(1 << 20)) / (1 << 20);
    auto chosen = calls().begin();
    for (; std::next(chosen) != calls().end() && (at -= chosen->second.weight) >= 0; ++chosen) {}
    try {
      if (std::optional<Step> step = chosen->second.draw(draw)) {
        step->call = chosen->first;
        append(*std::move(step));
      }
    } catch (const Error &) {
      // The call refuses these arguments; the program goes on without it.
    }
  }
  int last = static_cast<int>(program.steps.size()) - 1;
  program.outputs = {last};
  for (int64_t i = random.below(4); i > 0; --i)
    program.outputs.push_back(static_cast<int>(random.below(last + 1)));
  std::sort(program.outputs.begin(), program.outputs.end());
  program.outputs.erase(std::unique(program.outputs.begin(), program.outputs.end()),
                        program.outputs.end());
  return program;
}

} // namespace weft::fuzz
