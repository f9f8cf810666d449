// weft::trace, and running a weft::Program: a recorded function as a module of its own.
// program_file.cpp reads and writes programs.
#include <algorithm>
#include <cstring>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "compiler/link/SizeRange.h"
#include "dialects/weft/ir/Attributes.h"
#include "dialects/weft/ir/SignatureAttributes.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/state/StateAttributes.h"
#include "frontend/compile/compile_slice.h"
#include "frontend/programs/batch_trace.h"
#include "frontend/programs/program_impl.h"
#include "frontend/programs/trace.h"
#include "frontend/recorder/programs/backends.h"
#include "frontend/recorder/programs/find_program.h"
#include "frontend/recorder/programs/program_cache.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/recorder/runs/invocation.h"
#include "mlir/IR/Verifier.h"
#include "runtime/core/caches.h"
#include "weft/config.h"
#include "weft/random.h"

namespace weft {
namespace recorder {
namespace {

const runtime::RegisteredCache
    registered("sized programs", "the Program's end; its least recently used beyond a bound",
               [] { return runtime::CacheUse{SizedProgram::count, -1, -1, -1}; });

// Names of storages, and of gradients by their leaf.
class Names {
public:
  Names(const TensorNames &names, uint8_t device) {
    for (const auto &[name, tensor] : names) {
      if (!tensor.defined())
        continue;
      storages_.try_emplace(tensor.impl()->storage(), name);
      if (const GradNode *leaf = tensor.impl()->leaf.get())
        gradients_.try_emplace(leaf, name + ".grad");
    }
    storages_.try_emplace(default_generator().state_storage(device_at(device)).impl()->storage(),
                          "generator");
  }

  const std::string *find(const TouchedStorage &touched) const {
    if (auto it = storages_.find(touched.tensor.impl()); it != storages_.end())
      return &it->second;
    auto it = gradients_.find(touched.gradient_of.get());
    return it == gradients_.end() ? nullptr : &it->second;
  }

private:
  std::unordered_map<const TensorImpl *, std::string> storages_;
  std::unordered_map<const GradNode *, std::string> gradients_;
};

// Makes a program's module of the module of a recording's slice, whose arguments are leaves in the
// order of their first use.
class ProgramBuilder {
public:
  // batch: null where all sizes are fixed.
  ProgramBuilder(const Recording &recording, const BatchTrace *batch, ProgramImpl &program,
                 const TensorNames &names, Location location)
      : recording_(recording), program_(program), names_(names, recording.device()),
        location_(location), main_(program.module->lookupSymbol<mlir::func::FuncOp>("main")),
        body_(main_.getBody().front()), builder_(mlir::OpBuilder::atBlockBegin(&body_)),
        batch_(batch) {}

  void build() {
    const Slice &slice = recording_.slice;
    const unsigned leaves = body_.getNumArguments();
    for (size_t i = 0; i < recording_.placeholders.size(); ++i) {
      const Var &placeholder = recording_.placeholders[i];
      mlir::Value argument = values_[placeholder.value.get()] = add_argument(placeholder);
      if (batch_ && batch_->varies(i))
        argument.setType(batch_->named(argument.getType()));
    }
    // What the function writes is kept; what it only reads becomes constants.
    for (const TouchedStorage &touched : recording_.storages) {
      if (!touched.written)
        continue;
      states_.emplace_back(body_.getNumArguments() - leaves, &touched);
      values_[touched.stand_in.get()] = add_argument(touched.written, name_of(touched));
    }
    for (unsigned i = 0; i < leaves; ++i)
      body_.getArgument(i).replaceAllUsesWith(value_of(slice.leaves[i]));

    mlir::Operation *end = body_.getTerminator();
    for (size_t i = 0; i < slice.outputs.size(); ++i)
      values_[slice.outputs[i]] = end->getOperand(i);
    llvm::SmallVector<mlir::Value> results;
    std::vector<std::pair<unsigned, unsigned>> writes; // result, argument
    auto add_write = [&](const Var &x, unsigned argument) {
      writes.emplace_back(results.size(), argument);
      results.push_back(value_of(x.value.get()));
    };
    for (const Var &output : recording_.outputs)
      results.push_back(value_of(output.value.get()));
    for (unsigned i = 0; i < recording_.written_arguments.size(); ++i)
      if (const Var &x = recording_.written_arguments[i])
        add_write(x, i);
    for (const auto &[argument, touched] : states_)
      add_write(touched->written, argument);
    end->setOperands(results);

    body_.eraseArguments(0, leaves);
    main_.setFunctionType(
        builder_.getFunctionType(body_.getArgumentTypes(), end->getOperandTypes()));
    main_.removeArgAttrsAttr();
    main_.removeResAttrsAttr();
    ir::SignatureAttributes attributes(main_);
    std::vector<std::string> names = state_names();
    for (size_t i = 0; i < states_.size(); ++i) {
      const auto &[argument, touched] = states_[i];
      attributes.argument(argument).set(ir::kStateAttr, builder_.getStringAttr(names[i]));
      attributes.argument(argument).set(ir::kInitialAttr, elements_of(touched->stand_in.get()));
    }
    for (auto [result, argument] : writes)
      attributes.result(result).set(ir::kWritesAttr, builder_.getI64IntegerAttr(argument));
  }

private:
  // By state: the name that was given it, first come, first served. Those that are left get a
  // number, and none that is another's.
  std::vector<std::string> state_names() const {
    std::vector<std::string> names(states_.size());
    std::unordered_set<std::string> taken;
    for (size_t i = 0; i < names.size(); ++i)
      if (const std::string *given = names_.find(*states_[i].second);
          given && taken.insert(*given).second)
        names[i] = *given;
    std::unordered_map<std::string, int> counts;
    for (size_t i = 0; i < names.size(); ++i) {
      if (!names[i].empty())
        continue;
      const std::string *given = names_.find(*states_[i].second);
      std::string base = given ? *given : "state";
      int &count = counts.try_emplace(base, given ? 1 : 0).first->second;
      do
        names[i] = base + "_" + std::to_string(count++);
      while (!taken.insert(names[i]).second);
    }
    return names;
  }

  // As the module calls it where the caller of trace() does not.
  mlir::Location name_of(const TouchedStorage &touched) {
    const std::string *given = names_.find(touched);
    const TensorName *own = touched.tensor.impl()->storage()->name.get();
    if (!given && !own)
      return builder_.getUnknownLoc();
    return mlir::NameLoc::get(builder_.getStringAttr(given ? *given : own->path()));
  }

  mlir::Value add_argument(const Var &like, std::optional<mlir::Location> location = {}) {
    auto type = mlir::RankedTensorType::get(like.dims(),
                                            ir::elementType(like.dtype(), program_.context.get()));
    return body_.addArgument(type, location.value_or(builder_.getUnknownLoc()));
  }

  mlir::ElementsAttr elements_of(Value *leaf) {
    ir::HostTensor host(leaf->type->dtype, leaf->type->dims);
    std::vector<char> room;
    const void *data = host_bytes(leaf, location_, room);
    if (leaf->type->bytes > 0)
      std::memcpy(host.bytes.data(), data, static_cast<size_t>(leaf->type->bytes));
    return host.toAttribute(builder_.getContext());
  }

  mlir::Value value_of(Value *value) {
    auto [it, fresh] = values_.try_emplace(value);
    if (!fresh)
      return it->second;
    auto constant = ir::ConstantOp::create(builder_, builder_.getUnknownLoc(), elements_of(value));
    auto storage = recording_.storage_of.find(value);
    if (storage != recording_.storage_of.end()) {
      constant->setLoc(name_of(recording_.storages[storage->second]));
      if (const std::string *name = names_.find(recording_.storages[storage->second]))
        constant->setAttr(ir::kParameterAttr, builder_.getStringAttr(*name));
    }
    return values_[value] = constant;
  }

  const Recording &recording_;
  ProgramImpl &program_;
  Names names_;
  Location location_;
  mlir::func::FuncOp main_;
  mlir::Block &body_;
  mlir::OpBuilder builder_;
  const BatchTrace *batch_;
  llvm::DenseMap<Value *, mlir::Value> values_;
  std::vector<std::pair<unsigned, const TouchedStorage *>> states_; // by @main's argument
};

// The module as it is compiled: without values, but with what may lie in the memory of what.
std::string module_to_compile(ProgramImpl &program, Location location) {
  std::lock_guard<std::mutex> lock(program.mutex);
  mlir::OwningOpRef<mlir::ModuleOp> module = program.module->clone();
  auto main = module->lookupSymbol<mlir::func::FuncOp>("main");
  main.removeResAttrsAttr();
  mlir::UnitAttr unit = mlir::UnitAttr::get(program.context.get());
  {
    ir::SignatureAttributes attributes(main);
    for (unsigned i = 0; i < main.getNumArguments(); ++i) {
      mlir::NamedAttrList &argument = attributes.argument(i);
      argument.erase(ir::kInitialAttr);
      if (!program.bound.sources[i].written)
        continue;
      argument.set(ir::kDonatableAttr, unit);
      if (program.bound.checks)
        argument.set(ir::kKeptAttr, unit);
    }
  }
  return bytecode_of(*module, location);
}

// How a run compiles: the options of now, and all that programs depend on besides their ops. Passes
// that were registered since the last run want to see the program, too.
struct CompileSetting {
  explicit CompileSetting(uint8_t device) {
    UnderLock lock;
    options = recorder().config;
    context = ProgramContext(options, device).salt();
  }
  Config options;
  uint64_t context = 0;
};

// Compiles the program where it is not, without the recorder's lock.
void ensure_compiled(ProgramImpl &program, const CompileSetting &setting, Location location) {
  std::lock_guard<std::mutex> single(program.compiling);
  if (program.compiled_for == setting.context) {
    UnderLock lock;
    ++recorder().statistics.replays;
    return;
  }
  std::string bytecode = module_to_compile(program, location);
  auto outcome = compile_slice(
      {bytecode, "program " + bytecode, config_for(setting.options, program.bound.device)});
  if (!outcome.ok())
    throw Error(kind_of(outcome.status(), ErrorKind::kCompile),
                "run: " + std::string(outcome.status().message()), location);
  if (program.is_sized) {
    program.module = mlir::OwningOpRef<mlir::ModuleOp>();
    program.context.reset();
  }
  UnderLock lock;
  BoundProgram &bound = program.bound;
  bound.program = outcome->program;
  program.compiled_for = setting.context;
  Evaluation &figures = bound.figures;
  figures = Evaluation();
  describe_program(*bound.program, figures);
  figures.inputs = static_cast<int64_t>(bound.sources.size());
  figures.outputs = static_cast<int64_t>(bound.targets.size());
  figures.difference = program.description;
  account(*outcome, figures);
}

// Where the batch of the program is a range, the size of it that the inputs have.
int64_t batch_of(const ProgramImpl &program, const std::vector<Tensor> &inputs, Location location) {
  auto first = static_cast<size_t>(program.batch.inputs.front());
  Session session("run", location);
  const TypeInfo &given = *checked(inputs[first], "inputs")->type, &most = *program.inputs[first];
  if (given.ndim() != most.ndim())
    fail(ErrorKind::kShape, "input " + std::to_string(first) + " is " + describe(given) +
                                "; the program takes " + describe(most) +
                                ", or a smaller leading dim");
  int64_t size = given.dims[0];
  if (size < program.batch.min || size > program.batch.max)
    fail(ErrorKind::kShape,
         "input " + std::to_string(first) + " is " + describe(given) + ": a batch of " +
             std::to_string(size) + " is out of range; it must be from " +
             std::to_string(program.batch.min) + " to " + std::to_string(program.batch.max));
  return size;
}

// The program for one size of the range: it keeps what the program keeps.
std::shared_ptr<ProgramImpl> at_batch(ProgramImpl &program, int64_t size,
                                      const CompileSetting &setting, Location location) {
  std::list<SizedProgram> dropped; // they go without the locks
  std::lock_guard<std::mutex> single(program.compiling);
  std::list<SizedProgram> &all = program.sized;
  auto known = std::ranges::find_if(all, [&](const SizedProgram &each) {
    return each.size == size && each.context == setting.context;
  });
  if (known != all.end()) {
    all.splice(all.begin(), all, known);
    return known->program;
  }
  std::shared_ptr<ProgramImpl> sized = make_program();
  sized->is_sized = true;
  sized->bound.device = program.bound.device;
  parse_module(*sized, bytecode_without_values(program, location), "the program", location);
  if (absl::Status status = compiler::narrow(*sized->module, size, size); !status.ok())
    throw Error(ErrorKind::kCompile, "run: " + std::string(status.message()), location);
  describe_main(*sized, "the program", location, &program);
  sized->description += ", at a batch of " + std::to_string(size) + " of " +
                        std::to_string(program.batch.min) + " to " +
                        std::to_string(program.batch.max);
  all.emplace_front(size, setting.context, sized);
  // Each has what the function captured as constants of its own. So few stay whatever they hold:
  // to make one again costs more than a run.
  constexpr int64_t kAnyBytes = 4;
  UnderLock lock;
  auto past = std::next(all.begin());
  for (int64_t kept = 2, bytes = 0; past != all.end(); ++past, ++kept) {
    if (const auto &compiled = past->program->bound.program)
      bytes += compiled->bytes;
    if (kept > setting.options.jit_signatures ||
        (kept > kAnyBytes && bytes > setting.options.cache_bytes))
      break;
  }
  dropped.splice(dropped.end(), all, past, all.end());
  return sized;
}

} // namespace

Program trace(const ErasedFunction &function, const std::vector<Tensor> &inputs,
              const TensorNames &names, const BatchRange &batch, Location location) {
  location = CallerScope::resolve(location);
  std::vector<ArgumentType> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor &input = inputs[i];
    if (!input.defined())
      throw Error(ErrorKind::kState,
                  "trace: input " + std::to_string(i) + " is an undefined tensor: " + kWhyUndefined,
                  location);
    // The function may differentiate by its arguments, as it does when it is called.
    recorder::Session session("trace", location);
    const recorder::TypeInfo *type = recorder::current_type(input, "input");
    if (type->part)
      recorder::fail(ErrorKind::kState,
                     "input " + std::to_string(i) + " is " + recorder::describe(*type) +
                         ", and a program holds no exchange between ranks; call the function as it "
                         "is, or give it distributed::whole(x)");
    types.push_back({type, input.requires_grad()});
  }
  std::optional<BatchTrace> sizes;
  std::optional<Recording> plain;
  if (batch.min == 0 && batch.max == 0 && batch.inputs.empty())
    plain.emplace(record("trace", function, types, location));
  else
    sizes.emplace(function, types, batch, location);
  const Recording &recording = plain ? *plain : sizes->recording();
  for (size_t i = 0; i < recording.outputs.size(); ++i)
    if (!recording.outputs[i])
      throw Error(ErrorKind::kState,
                  "trace: result " + std::to_string(i) +
                      " of the function is an undefined tensor, and a program returns tensors: "
                      "leave it out, or give it a value",
                  location);
  if (recording.changes_leaves)
    throw Error(ErrorKind::kState,
                "trace: the function changes which tensors from outside require grad, which is no "
                "part of a program; call set_requires_grad() before, or detach() inside",
                location);
  if (!recording.several_devices.empty())
    throw Error(ErrorKind::kDevice,
                "trace: a program runs on one device, but " + recording.several_devices +
                    "; trace what each device does by itself",
                location);
  std::string bytecode;
  {
    UnderLock lock;
    bytecode = write_module(recording.slice);
  }
  std::shared_ptr<ProgramImpl> program = make_program();
  program->bound.device = recording.device();
  parse_module(*program, bytecode, "the recorded function", location);
  if (sizes)
    sizes->name_sizes(*program->module);
  {
    UnderLock lock;
    ProgramBuilder(recording, sizes ? &*sizes : nullptr, *program, names, location).build();
  }
  if (mlir::failed(mlir::verify(*program->module)))
    throw Error(ErrorKind::kCompile, "trace: the recorded function does not verify", location);
  if (sizes)
    sizes->check_smallest(*program->module);
  describe_main(*program, "the recorded function", location);
  return Program(program);
}

} // namespace recorder

//===-- Program -------------------------------------------------------------------------------===//

using recorder::checked_program;
using recorder::ProgramImpl;

std::vector<Tensor> Program::run(const std::vector<Tensor> &inputs, Location location) const {
  ProgramImpl &whole = checked_program(impl_, location);
  {
    recorder::Session session("run", location);
    // It is no part of what is recorded: it would run now, and its results would be constants.
    if (const recorder::Trace *trace = recorder::active_trace())
      recorder::fail(ErrorKind::kState,
                     std::string("weft::") + trace->what +
                         " records the function that this call is in, and a program is no part of "
                         "what is recorded; call the function that it was traced from, or run the "
                         "program before and pass its results as arguments");
    if (inputs.size() != whole.inputs.size())
      recorder::fail(ErrorKind::kValue, std::to_string(inputs.size()) +
                                            " inputs for a program that takes " +
                                            std::to_string(whole.inputs.size()));
  }
  const recorder::CompileSetting setting(whole.bound.device);
  std::shared_ptr<ProgramImpl> sized;
  if (!whole.batch.inputs.empty())
    sized =
        recorder::at_batch(whole, recorder::batch_of(whole, inputs, location), setting, location);
  ProgramImpl &program = sized ? *sized : whole;
  {
    recorder::Session session("run", location);
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!inputs[i].defined())
        recorder::fail(ErrorKind::kState,
                       "input " + std::to_string(i) +
                           " is an undefined tensor: " + recorder::kWhyUndefined);
      const recorder::TypeInfo &type = *recorder::current_type(inputs[i], "inputs"),
                               &takes = *program.inputs[i];
      if (type.device != takes.device)
        recorder::fail(ErrorKind::kDevice,
                       "input " + std::to_string(i) + " is " + recorder::placed(type) +
                           "; the program takes " + recorder::placed(takes) +
                           ": move the input with to(device), or trace or load the program under "
                           "a DeviceScope of the input's device");
      if (&type != &takes)
        recorder::fail(type.dims != takes.dims ? ErrorKind::kShape : ErrorKind::kDType,
                       "input " + std::to_string(i) + " is " + recorder::describe(type) +
                           "; the program takes " + recorder::describe(takes));
    }
    if (has_aliases(program.bound, inputs))
      recorder::fail(ErrorKind::kValue,
                     "the program writes an input that shares elements with another input, or with "
                     "what it keeps; pass a clone()");
  }
  recorder::ensure_compiled(program, setting, CallerScope::resolve(location));
  recorder::Session session("run", location);
  recorder::describe_request({CutReason::kJit, location}, program.bound.figures);
  return *recorder::call(program.bound, inputs, location, [] { return true; });
}

MemoryEstimate Program::memory(Location location) const {
  ProgramImpl &whole = checked_program(impl_, location);
  location = CallerScope::resolve(location);
  const recorder::CompileSetting setting(whole.bound.device);
  std::shared_ptr<ProgramImpl> largest;
  if (!whole.batch.inputs.empty())
    largest = recorder::at_batch(whole, whole.batch.max, setting, location);
  ProgramImpl &program = largest ? *largest : whole;
  recorder::ensure_compiled(program, setting, location);
  MemoryEstimate estimate;
  recorder::UnderLock lock;
  for (const recorder::TypeRef &input : program.inputs)
    estimate.inputs += input->bytes;
  if (!program.bound.program)
    return estimate;
  const runtime::Executable &executable = *program.bound.program->executable;
  int64_t given = 0;
  for (size_t i = 0; i < executable.input_specs().size(); ++i)
    given += program.bound.sources[i].kind == recorder::Source::Kind::kArgument
                 ? 0
                 : executable.input_specs()[i].bytes;
  const compiler::PlanReport &plan = program.bound.program->report->plan;
  estimate.state = given + plan.constantBytes;
  for (const runtime::OutputSpec &output : executable.output_specs())
    if (output.donated_input < 0 && output.alias_input < 0 && output.alias_output < 0)
      estimate.outputs += output.bytes;
  estimate.arena = executable.arena_bytes();
  estimate.recomputations = plan.recomputations;
  estimate.stored_bytes = plan.storedBytes;
  recorder::HeldMemory held = recorder::held_memory(plan, estimate.outputs + estimate.arena);
  estimate.holders = std::move(held.holders);
  estimate.live_bytes = std::move(held.live_bytes);
  return estimate;
}

BatchRange Program::batch(Location location) const {
  return checked_program(impl_, location).batch;
}

std::vector<std::pair<std::string, Tensor>> Program::state(Location location) const {
  return checked_program(impl_, location).state;
}

namespace {
template <typename T, typename F>
std::vector<T> each(const std::vector<recorder::TypeRef> &types, F f) {
  std::vector<T> result;
  for (const recorder::TypeRef &type : types)
    result.push_back(f(*type));
  return result;
}
} // namespace

std::vector<Shape> Program::input_shapes(Location location) const {
  return each<Shape>(checked_program(impl_, location).inputs, [](const auto &t) { return t.dims; });
}
std::vector<DType> Program::input_dtypes(Location location) const {
  return each<DType>(checked_program(impl_, location).inputs,
                     [](const auto &t) { return t.dtype; });
}
std::vector<Shape> Program::output_shapes(Location location) const {
  return each<Shape>(checked_program(impl_, location).outputs,
                     [](const auto &t) { return t.dims; });
}
std::vector<DType> Program::output_dtypes(Location location) const {
  return each<DType>(checked_program(impl_, location).outputs,
                     [](const auto &t) { return t.dtype; });
}

} // namespace weft
