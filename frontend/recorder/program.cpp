// weft::trace, and running a weft::Program: a recorded function as a module of its own.
// program_file.cpp reads and writes programs.
#include "compiler/pipeline/PassHooks.h"
#include "dialects/weft/ir/Attributes.h"
#include "frontend/recorder/compile_slice.h"
#include "frontend/recorder/find_program.h"
#include "frontend/recorder/launcher.h"
#include "frontend/recorder/program_impl.h"
#include "frontend/recorder/trace.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

namespace weft {
namespace recorder {
namespace {

mlir::Value constant_of(Value *leaf, mlir::OpBuilder &builder, Location location) {
  ir::HostTensor host(leaf->type->dtype, leaf->type->dims);
  const void *data = wait_for(leaf, location);
  if (leaf->type->bytes > 0)
    std::memcpy(host.bytes.data(), data, static_cast<size_t>(leaf->type->bytes));
  return ir::ConstantOp::create(builder, builder.getUnknownLoc(),
                                host.toAttribute(builder.getContext()));
}

} // namespace

Program trace(const ErasedFunction &function, const std::vector<Tensor> &inputs,
              const TensorNames &names, Location location) {
  location = CallerScope::resolve(location);
  std::vector<const TypeInfo *> types;
  for (const Tensor &input : inputs) {
    if (!input.defined())
      throw Error(ErrorKind::kState, "trace: an input is an undefined tensor", location);
    types.push_back(input.impl()->type);
  }
  TraceResult traced = record_trace("trace", function, types, /*effects=*/false, location);
  std::lock_guard<RecorderMutex> lock(recorder_mutex());
  const Slice &slice = traced.slice;
  std::shared_ptr<ProgramImpl> program =
      parse_program(write_module(slice), "the recorded function", location);

  auto main = program->module->lookupSymbol<mlir::func::FuncOp>("main");
  mlir::Block &body = main.getBody().front();
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(&body);
  // The function's inputs are the arguments, in order; what it captured becomes constants.
  llvm::DenseMap<Value *, mlir::Value> values;
  unsigned old_arguments = body.getNumArguments();
  for (const Var &placeholder : traced.placeholders)
    values[placeholder.value.get()] = body.addArgument(
        ir::withElementType(mlir::RankedTensorType::get(placeholder.dims(), builder.getF32Type()),
                            ir::elementType(placeholder.dtype(), program->context.get())),
        builder.getUnknownLoc());
  std::unordered_map<TensorImpl *, const std::string *> named;
  for (const auto &[name, tensor] : names)
    if (tensor.defined())
      named.try_emplace(tensor.impl()->storage(), &name);
  auto value_of = [&](Value *leaf) {
    auto [it, fresh] = values.try_emplace(leaf);
    if (!fresh)
      return it->second;
    it->second = constant_of(leaf, builder, location);
    auto storage = traced.captured.find(leaf);
    auto name = storage == traced.captured.end() ? named.end() : named.find(storage->second.impl());
    if (name != named.end())
      it->second.getDefiningOp()->setAttr(ir::kParameterAttr, builder.getStringAttr(*name->second));
    return it->second;
  };
  for (unsigned i = 0; i < old_arguments; ++i)
    body.getArgument(i).replaceAllUsesWith(value_of(slice.leaves[i]));
  mlir::Operation *end = body.getTerminator();
  llvm::DenseMap<Value *, mlir::Value> computed;
  for (size_t i = 0; i < slice.outputs.size(); ++i)
    computed[slice.outputs[i]] = end->getOperand(i);
  llvm::SmallVector<mlir::Value> results;
  for (const Var &output : traced.outputs) {
    auto it = computed.find(output.value.get());
    results.push_back(it != computed.end() ? it->second : value_of(output.value.get()));
  }
  end->setOperands(results);
  body.eraseArguments(0, old_arguments);
  main.setFunctionType(builder.getFunctionType(body.getArgumentTypes(), end->getOperandTypes()));
  main.removeArgAttrsAttr();
  program->inputs = types;
  program->outputs.clear();
  for (const Var &output : traced.outputs)
    program->outputs.push_back(output.value->type);
  if (mlir::failed(mlir::verify(*program->module)))
    throw Error(ErrorKind::kCompile, "trace: the recorded function does not verify", location);
  return Program(program);
}

} // namespace recorder

//===-- Program -------------------------------------------------------------------------------===//

using recorder::checked_program;
using recorder::ProgramImpl;

std::vector<Tensor> Program::run(const std::vector<Tensor> &inputs, Location location) const {
  ProgramImpl &program = checked_program(impl_, location);
  recorder::Session session("run", location);
  if (inputs.size() != program.inputs.size())
    recorder::fail(ErrorKind::kValue, std::to_string(inputs.size()) +
                                          " inputs for a program that takes " +
                                          std::to_string(program.inputs.size()));
  std::vector<recorder::Var> vars;
  std::vector<recorder::Value *> roots;
  for (size_t i = 0; i < inputs.size(); ++i) {
    vars.push_back(recorder::read(inputs[i], "inputs"));
    if (vars.back().value->type != program.inputs[i])
      recorder::fail(ErrorKind::kShape,
                     "input " + std::to_string(i) + " is " + recorder::describe(vars.back()) +
                         "; the program takes " + recorder::describe(*program.inputs[i]));
    roots.push_back(vars.back().value.get());
  }
  recorder::submit(roots, {CutReason::kJit, location});
  auto record = std::make_shared<recorder::EvaluationRecord>();
  recorder::Recorder &r = recorder::recorder();
  std::shared_ptr<recorder::CompiledProgram> compiled = program.compiled;
  record->data.outcome = CacheOutcome::kMemoryHit;
  // Passes that were registered since the last run want to see the program, too.
  std::string compiled_for =
      r.config.backend + " " + std::to_string(compiler::registeredPassesGeneration());
  if (!compiled || program.compiled_for != compiled_for) {
    std::string bytecode = recorder::bytecode_of(program);
    auto outcome = recorder::compile_slice({bytecode, "program " + bytecode, r.config});
    if (!outcome.ok())
      recorder::fail(ErrorKind::kCompile, std::string(outcome.status().message()));
    compiled = outcome->program;
    program.compiled = compiled;
    program.compiled_for = compiled_for;
    record->data.outcome = outcome->from;
    record->data.compile_ms = outcome->milliseconds;
    record->data.difference = "a loaded or traced program";
    ++(outcome->from == CacheOutcome::kDiskHit ? r.statistics.disk_hits : r.statistics.compiles);
  } else {
    ++r.statistics.replays;
  }
  recorder::Launch launch;
  launch.executable = compiled->executable;
  for (recorder::Var &var : vars)
    launch.inputs.push_back(recorder::leaf_buffer(var.value.get()));
  recorder::describe_run(recorder::Slice(), *compiled, {CutReason::kJit, location}, record->data);
  record->data.inputs = static_cast<int64_t>(program.inputs.size());
  record->data.outputs = static_cast<int64_t>(program.outputs.size());
  record->data.number = ++r.statistics.evaluations;
  ++r.statistics.cuts[static_cast<int>(CutReason::kJit)];
  record->print = r.config.explain;
  record->report = compiled->report;
  if (absl::Status status = recorder::run(launch, record); !status.ok())
    recorder::fail(status.code() == absl::StatusCode::kResourceExhausted ? ErrorKind::kMemory
                                                                         : ErrorKind::kRun,
                   std::string(status.message()));
  recorder::keep(record);
  std::vector<Tensor> results;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    // Outputs that share memory with an input or each other are never written in place by later
    // programs.
    const runtime::OutputSpec &spec = compiled->executable->output_specs()[i];
    bool shared = spec.alias_input >= 0 || spec.alias_output >= 0;
    if (spec.alias_output >= 0)
      results[spec.alias_output].impl()->var.value->cell->borrowed = true;
    if (spec.alias_input >= 0)
      if (recorder::Cell *cell = vars[spec.alias_input].value->cell)
        cell->borrowed = true;
    recorder::Var value = recorder::make_leaf(program.outputs[i], launch.outputs[i], shared);
    value.value->evaluation = record;
    results.push_back(recorder::wrap_quietly(std::move(value)));
  }
  return results;
}

namespace {
template <typename T, typename F>
std::vector<T> each(const std::vector<const recorder::TypeInfo *> &types, F f) {
  std::vector<T> result;
  for (const recorder::TypeInfo *type : types)
    result.push_back(f(*type));
  return result;
}
} // namespace

std::vector<Shape> Program::input_shapes() const {
  return each<Shape>(checked_program(impl_).inputs, [](const auto &t) { return t.dims; });
}
std::vector<DType> Program::input_dtypes() const {
  return each<DType>(checked_program(impl_).inputs, [](const auto &t) { return t.dtype; });
}
std::vector<Shape> Program::output_shapes() const {
  return each<Shape>(checked_program(impl_).outputs, [](const auto &t) { return t.dims; });
}
std::vector<DType> Program::output_dtypes() const {
  return each<DType>(checked_program(impl_).outputs, [](const auto &t) { return t.dtype; });
}

} // namespace weft
