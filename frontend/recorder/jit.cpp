// weft::jit: one compiled program for each combination of input types, replayed on storages.
#include <algorithm>
#include <optional>

#include "frontend/recorder/find_program.h"
#include "frontend/recorder/launcher.h"
#include "frontend/recorder/stability.h"
#include "frontend/recorder/trace.h"
#include "frontend/recorder/undo.h"
#include "weft/autograd.h"
#include "weft/explain.h"

namespace weft::recorder {
namespace {

// Where an argument of the program comes from.
struct Source {
  enum class Kind : uint8_t { kInput, kStorage, kConstant };
  Kind kind;
  uint32_t input = 0;
  Tensor storage; // from before the recording: read again at each call
  std::shared_ptr<runtime::Buffer> constant;
  bool donated = false; // the storage is written: its old buffer may become the new one
  const TypeInfo *type = nullptr;
};

// Where a result of the program goes.
struct Target {
  std::vector<uint32_t> outputs; // results of the function
  std::vector<Tensor> storages;
  std::vector<GradRef> gradients;
  const TypeInfo *type = nullptr;
};

struct Replay {
  std::vector<const TypeInfo *> types;
  std::shared_ptr<CompiledProgram> program;
  std::vector<Source> sources;
  std::vector<Target> targets;
  // Results that are inputs or storages, unchanged.
  std::vector<std::pair<uint32_t, Source>> passed;
  uint32_t outputs = 0;
  std::vector<uint32_t> key;
  Evaluation figures;
  bool checks = false; // as of a slice
};

Source source_of(Value *leaf, const TraceResult &trace) {
  Source source;
  source.type = leaf->type;
  for (size_t i = 0; i < trace.placeholders.size(); ++i)
    if (trace.placeholders[i].value.get() == leaf) {
      source.kind = Source::Kind::kInput;
      source.input = static_cast<uint32_t>(i);
      return source;
    }
  if (auto it = trace.captured.find(leaf); it != trace.captured.end()) {
    source.kind = Source::Kind::kStorage;
    source.storage = it->second;
    return source;
  }
  source.kind = Source::Kind::kConstant;
  source.constant = leaf_buffer(leaf);
  return source;
}

// The leaf that a source stands for in this call.
Value *leaf_of(const Source &source, const std::vector<Var> &inputs, Location location) {
  const Var &from = source.kind == Source::Kind::kInput ? inputs[source.input]
                                                        : source.storage.impl()->storage()->var;
  Value *value = from.value.get();
  if (value->node) {
    ValueRef held(value);
    submit({&value, 1}, {CutReason::kJit, location});
    value = from.value.get(); // a storage may have a value of its own now
  }
  check_leaf(value, location);
  return value;
}

} // namespace

class JitImpl {
public:
  explicit JitImpl(ErasedFunction function) : function_(std::move(function)) {}

  std::vector<Tensor> call(const std::vector<Tensor> &arguments, Location location) {
    // The replayed program has no history: where some is wanted, the function itself is called.
    // Inside another trace it is a plain function too.
    bool direct = active_trace() != nullptr;
    std::vector<const TypeInfo *> types;
    types.reserve(arguments.size());
    std::optional<Session> session(std::in_place, "jit", location);
    for (const Tensor &argument : arguments) {
      types.push_back(checked(argument, "argument")->type);
      direct = direct || (grad_mode() && argument.requires_grad());
    }
    if (direct) {
      session.reset(); // the function's ops have names and lines of their own
      return function_(arguments);
    }
    std::shared_ptr<Replay> replay;
    auto known = std::find_if(replays_.begin(), replays_.end(),
                              [&](const auto &each) { return each->types == types; });
    if (known == replays_.end()) {
      replay = record(types, location);
      // The bound may have been lowered since the last call.
      while (!replays_.empty() &&
             static_cast<int64_t>(replays_.size()) >= recorder().config.jit_signatures)
        replays_.pop_back();
      replays_.insert(replays_.begin(), replay);
    } else {
      std::rotate(replays_.begin(), known, known + 1);
      replay = replays_.front();
      recorder().statistics.replays += replay->program != nullptr;
      if (recorder().config.jit_check) {
        TraceResult again = record_trace("jit", function_, types, /*effects=*/true, location);
        if (again.slice.key != replay->key)
          fail(ErrorKind::kState, "the function records another program than at its first call "
                                  "(WEFT_JIT_CHECK): a C++ value that it "
                                  "depends on has changed; pass it as a tensor");
      }
    }
    std::vector<Tensor> results = run(*replay, arguments, location);
    // From now on it is a hit.
    replay->figures.outcome = CacheOutcome::kMemoryHit;
    replay->figures.difference.clear();
    replay->figures.disk_cache.clear();
    replay->figures.compile_ms = 0;
    return results;
  }

private:
  std::shared_ptr<Replay> record(const std::vector<const TypeInfo *> &types, Location location) {
    TraceResult trace = record_trace("jit", function_, types, /*effects=*/true, location);
    auto replay = std::make_shared<Replay>();
    replay->types = types;
    replay->outputs = static_cast<uint32_t>(trace.outputs.size());
    replay->key = trace.slice.key;
    Slice &slice = trace.slice;
    replay->checks = slice.checks;
    for (Value *leaf : slice.leaves)
      replay->sources.push_back(source_of(leaf, trace));
    // A storage that is written gives up its old buffer, unless the old value is itself a result.
    size_t table = slice.key.size() - 3 - slice.outputs.size() - 2 * slice.leaves.size();
    for (size_t i = 0; i < slice.leaves.size(); ++i) {
      Source &source = replay->sources[i];
      bool donated = false;
      if (source.kind == Source::Kind::kStorage)
        for (auto &[tensor, value] : trace.written)
          donated = donated || (tensor.impl() == source.storage.impl() && value.value->node);
      for (const Var &output : trace.outputs)
        donated = donated && output.value.get() != slice.leaves[i];
      source.donated = donated;
      slice.donatable[i] = donated;
      slice.kept[i] = donated && slice.checks;
      slice.key[table + 2 * i + 1] = (donated ? kDonatableBit : 0) | (slice.kept[i] ? kKeptBit : 0);
    }
    std::vector<bool> same;
    for (const Source &source : replay->sources)
      same.push_back(source.kind == Source::Kind::kStorage && !source.donated);
    mark_stable_replayed(slice, same);
    std::unordered_map<Value *, size_t> index;
    for (Value *output : slice.outputs) {
      index[output] = replay->targets.size();
      replay->targets.emplace_back();
      replay->targets.back().type = output->type;
    }
    auto target = [&](const Var &x) -> Target * {
      auto it = index.find(x.value.get());
      return it == index.end() ? nullptr : &replay->targets[it->second];
    };
    for (uint32_t i = 0; i < trace.outputs.size(); ++i) {
      if (Target *t = target(trace.outputs[i]))
        t->outputs.push_back(i);
      else
        replay->passed.emplace_back(i, source_of(trace.outputs[i].value.get(), trace));
    }
    for (auto &[tensor, value] : trace.written) {
      Target *t = target(value);
      if (!t)
        fail(ErrorKind::kState, "the function makes a storage from before the same as another "
                                "tensor; write a computed value instead");
      t->storages.push_back(tensor);
    }
    for (auto &[leaf, value] : trace.gradients)
      if (Target *t = target(value))
        t->gradients.push_back(leaf);
    if (!slice.nodes.empty()) {
      replay->program = find_program(slice, {CutReason::kJit, location}, replay->figures);
      describe_run(slice, *replay->program, {CutReason::kJit, location}, replay->figures);
    }
    return replay;
  }

  std::vector<Tensor> run(const Replay &replay, const std::vector<Tensor> &arguments,
                          Location location) {
    Recorder &r = recorder();
    std::vector<Var> inputs;
    inputs.reserve(arguments.size());
    for (const Tensor &argument : arguments)
      inputs.push_back(read(argument, "argument"));
    std::vector<Tensor> results(replay.outputs);
    if (replay.program) {
      Launch launch;
      launch.executable = replay.program->executable;
      launch.inputs.reserve(replay.sources.size());
      auto record = std::make_shared<EvaluationRecord>();
      record->may_fail = replay.checks;
      for (const Source &source : replay.sources) {
        if (source.kind == Source::Kind::kConstant) {
          launch.inputs.push_back(source.constant);
          continue;
        }
        Value *leaf = leaf_of(source, inputs, location);
        record->may_fail = record->may_fail || is_unsettled(leaf);
        bool sole = !leaf->is_scalar && leaf->handles == 1 && leaf->uses == 0 &&
                    leaf->cell->owners == 1 && !leaf->cell->borrowed;
        if (source.donated && !sole) {
          // Somebody else still refers to the old value: the program writes a copy.
          const void *data = wait_for(leaf, location);
          std::shared_ptr<runtime::Buffer> copy = allocate_buffer(leaf->type->bytes);
          std::memcpy(copy->data(), data, static_cast<size_t>(leaf->type->bytes));
          launch.inputs.push_back(std::move(copy));
        } else {
          launch.inputs.push_back(leaf_buffer(leaf));
        }
      }
      record->data = replay.figures;
      record->data.number = ++r.statistics.evaluations;
      ++r.statistics.cuts[static_cast<int>(CutReason::kJit)];
      record->print = r.config.explain;
      record->report = replay.program->report;
      if (record->may_fail)
        for (const Target &target : replay.targets)
          for (const Tensor &storage : target.storages)
            prepare_undo(*storage.impl(), *record);
      if (absl::Status status = recorder::run(launch, record); !status.ok())
        fail(status.code() == absl::StatusCode::kResourceExhausted ? ErrorKind::kMemory
                                                                   : ErrorKind::kRun,
             "nothing was computed, and every tensor keeps its value: " +
                 std::string(status.message()));
      auto specs = replay.program->executable->output_specs();
      std::vector<Cell *> cells(specs.size());
      auto undone = record->undo.begin();
      for (size_t i = 0; i < specs.size(); ++i) {
        const Target &target = replay.targets[i];
        Var value = make_leaf(target.type, launch.outputs[i]);
        if (specs[i].alias_output >= 0)
          share(*value.value.get(), cells[specs[i].alias_output]);
        else if (specs[i].alias_input >= 0) {
          const Source &source = replay.sources[specs[i].alias_input];
          if (source.kind == Source::Kind::kConstant)
            value.value->cell->borrowed = true;
          else if (Value *leaf = leaf_of(source, inputs, location); leaf->cell)
            share(*value.value.get(), leaf->cell);
        }
        cells[i] = value.value->cell;
        value.value->evaluation = record;
        for (uint32_t output : target.outputs)
          results[output] = wrap_quietly(value);
        for (const Tensor &storage : target.storages) {
          Var mine = value;
          if (record->may_fail) { // a value of its own: it goes back, results do not
            mine = make_leaf(target.type, launch.outputs[i]);
            share(*mine.value.get(), cells[i]);
            mine.value->evaluation = record;
            undone->now = mine.value.get();
            ++undone++->now->weak;
          }
          forget_write(*storage.impl());
          storage.impl()->var.value = mine.value;
          ++storage.impl()->version;
        }
        for (const GradRef &leaf : target.gradients)
          leaf->grad = wrap_quietly(value);
      }
      keep_unsettled(record);
      keep(record);
    }
    for (const auto &[output, source] : replay.passed)
      results[output] = source.kind == Source::Kind::kConstant
                            ? wrap_quietly(make_leaf(source.type, source.constant, true))
                        : source.kind == Source::Kind::kInput ? arguments[source.input]
                                                              : source.storage;
    return results;
  }

  static void share(Value &value, Cell *cell) {
    release_cell(value.cell);
    value.cell = cell;
    ++cell->owners;
  }

  ErasedFunction function_;
  std::vector<std::shared_ptr<Replay>> replays_; // the last used first
};

std::shared_ptr<JitImpl> make_jit(ErasedFunction function) {
  return std::make_shared<JitImpl>(std::move(function));
}
std::vector<Tensor> call_jit(JitImpl &jit, const std::vector<Tensor> &inputs, Location location) {
  return jit.call(inputs, location);
}

} // namespace weft::recorder
