// weft::trace and weft::Program: a recorded function as a module of its own.
#include <fstream>
#include <iostream>
#include <sstream>

#include "dialects/weft/ir/TypeAdvice.h"
#include "frontend/recorder/compile_slice.h"
#include "frontend/recorder/find_program.h"
#include "frontend/recorder/launcher.h"
#include "frontend/recorder/program_impl.h"
#include "frontend/recorder/trace.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

namespace weft {
namespace recorder {
namespace {

// An empty program with a context of its own.
std::shared_ptr<ProgramImpl> make_program() {
  auto program = std::make_shared<ProgramImpl>();
  mlir::DialectRegistry registry;
  registry.insert<ir::WeftDialect, mlir::func::FuncDialect>();
  program->context = std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
  program->context->loadAllAvailableDialects();
  return program;
}

// Reads text or bytecode. Throws kFile with what the parser says.
std::shared_ptr<ProgramImpl> parse_program(const std::string &source, const std::string &name, Location location) {
  std::shared_ptr<ProgramImpl> program = make_program();
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler handler(program->context.get(), [&](mlir::Diagnostic &diagnostic) {
    llvm::raw_string_ostream stream(diagnostics);
    if (!diagnostics.empty()) stream << "; ";
    stream << diagnostic.getLocation() << ": " << diagnostic.str();
    if (std::string advice = ir::typeAdvice(diagnostic); !advice.empty()) stream << " (" << advice << ")";
    return mlir::success();
  });
  program->module = mlir::parseSourceString<mlir::ModuleOp>(source, mlir::ParserConfig(program->context.get()), name);
  if (!program->module) throw Error(ErrorKind::kFile, name + " is not a program of weft ops: " + diagnostics, location);
  auto main = program->module->lookupSymbol<mlir::func::FuncOp>("main");
  if (!main || !llvm::hasSingleElement(main.getBody()))
    throw Error(ErrorKind::kFile, name + " has no function @main with one block", location);
  auto describe = [&](mlir::Type type, std::vector<const TypeInfo *> &into) {
    auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      throw Error(ErrorKind::kFile, name + ": the types of @main must be tensors of static shape", location);
    std::lock_guard<RecorderMutex> lock(recorder_mutex());
    into.push_back(type_info(ir::dtypeOf(tensor.getElementType()), Shape(tensor.getShape().begin(), tensor.getShape().end())));
  };
  for (mlir::Type type : main.getArgumentTypes()) describe(type, program->inputs);
  for (mlir::Type type : main.getResultTypes()) describe(type, program->outputs);
  return program;
}

mlir::Value constant_of(Value *leaf, mlir::OpBuilder &builder, Location location) {
  ir::HostTensor host(leaf->type->dtype, leaf->type->dims);
  const void *data = wait_for(leaf, location);
  if (leaf->type->bytes > 0) std::memcpy(host.bytes.data(), data, static_cast<size_t>(leaf->type->bytes));
  return ir::ConstantOp::create(builder, builder.getUnknownLoc(), host.toAttribute(builder.getContext()));
}

} // namespace

Program trace(const ErasedFunction &function, const std::vector<Tensor> &inputs, const TensorNames &names, Location location) {
  location = CallerScope::resolve(location);
  std::vector<const TypeInfo *> types;
  for (const Tensor &input : inputs) {
    if (!input.defined()) throw Error(ErrorKind::kState, "trace: an input is an undefined tensor", location);
    types.push_back(input.impl()->type);
  }
  TraceResult traced = record_trace("trace", function, types, /*effects=*/false, location);
  std::lock_guard<RecorderMutex> lock(recorder_mutex());
  const Slice &slice = traced.slice;
  std::shared_ptr<ProgramImpl> program = parse_program(write_module(slice), "the recorded function", location);

  auto main = program->module->lookupSymbol<mlir::func::FuncOp>("main");
  mlir::Block &body = main.getBody().front();
  mlir::OpBuilder builder = mlir::OpBuilder::atBlockBegin(&body);
  // The function's inputs are the arguments, in order; what it captured becomes constants.
  llvm::DenseMap<Value *, mlir::Value> values;
  unsigned old_arguments = body.getNumArguments();
  for (const Var &placeholder : traced.placeholders)
    values[placeholder.value.get()] =
        body.addArgument(ir::withElementType(mlir::RankedTensorType::get(placeholder.dims(), builder.getF32Type()),
                                             ir::elementType(placeholder.dtype(), program->context.get())),
                         builder.getUnknownLoc());
  std::unordered_map<TensorImpl *, const std::string *> named;
  for (const auto &[name, tensor] : names)
    if (tensor.defined()) named.try_emplace(tensor.impl()->storage(), &name);
  auto value_of = [&](Value *leaf) {
    auto [it, fresh] = values.try_emplace(leaf);
    if (!fresh) return it->second;
    it->second = constant_of(leaf, builder, location);
    auto storage = traced.captured.find(leaf);
    auto name = storage == traced.captured.end() ? named.end() : named.find(storage->second.impl());
    if (name != named.end()) it->second.getDefiningOp()->setAttr(kParameterName, builder.getStringAttr(*name->second));
    return it->second;
  };
  for (unsigned i = 0; i < old_arguments; ++i) body.getArgument(i).replaceAllUsesWith(value_of(slice.leaves[i]));
  mlir::Operation *end = body.getTerminator();
  llvm::DenseMap<Value *, mlir::Value> computed;
  for (size_t i = 0; i < slice.outputs.size(); ++i) computed[slice.outputs[i]] = end->getOperand(i);
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
  for (const Var &output : traced.outputs) program->outputs.push_back(output.value->type);
  if (mlir::failed(mlir::verify(*program->module)))
    throw Error(ErrorKind::kCompile, "trace: the recorded function does not verify", location);
  return Program(program);
}

} // namespace recorder

//===-- Program -------------------------------------------------------------------------------===//

using recorder::ProgramImpl;

namespace {

ProgramImpl &checked(const std::shared_ptr<ProgramImpl> &impl, Location location = Location::current()) {
  if (!impl) throw Error(ErrorKind::kState, "an empty program: it was neither traced nor loaded", location);
  return *impl;
}

std::string text_of(ProgramImpl &program, bool locations, bool whole) {
  std::lock_guard<std::mutex> lock(program.mutex);
  mlir::OpPrintingFlags flags;
  if (locations) flags.enableDebugInfo(true, /*prettyForm=*/!whole);
  // Weights are not for reading.
  constexpr int64_t kShownElements = 16;
  if (!whole) flags.elideLargeElementsAttrs(kShownElements);
  std::string text;
  llvm::raw_string_ostream stream(text);
  program.module->print(stream, flags);
  return text + "\n";
}

} // namespace

void Program::print() const { print(std::cout); }
void Program::print(std::ostream &stream) const { stream << to_string(); }
std::string Program::to_string(bool locations) const { return text_of(checked(impl_), locations, false); }

void Program::save(const std::string &path, Location location) const {
  std::string text = text_of(checked(impl_, location), true, true);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw Error(ErrorKind::kFile, "cannot write " + path, CallerScope::resolve(location));
}

Program Program::parse(const std::string &text, Location location) {
  return Program(recorder::parse_program(text, "the text", CallerScope::resolve(location)));
}

Program Program::load(const std::string &path, Location location) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw Error(ErrorKind::kFile, "cannot read " + path, CallerScope::resolve(location));
  return Program(recorder::parse_program(text.str(), path, CallerScope::resolve(location)));
}

std::vector<Tensor> Program::run(const std::vector<Tensor> &inputs, Location location) const {
  ProgramImpl &program = checked(impl_, location);
  recorder::Session session("run", location);
  if (inputs.size() != program.inputs.size())
    recorder::fail(ErrorKind::kValue,
                   std::to_string(inputs.size()) + " inputs for a program that takes " + std::to_string(program.inputs.size()));
  std::vector<recorder::Var> vars;
  std::vector<recorder::Value *> roots;
  for (size_t i = 0; i < inputs.size(); ++i) {
    vars.push_back(recorder::read(inputs[i], "inputs"));
    if (vars.back().value->type != program.inputs[i])
      recorder::fail(ErrorKind::kShape, "input " + std::to_string(i) + " is " + recorder::describe(vars.back()) + "; the program takes " +
                                            recorder::describe(*program.inputs[i]));
    roots.push_back(vars.back().value.get());
  }
  recorder::submit(roots, {CutReason::kJit, location});
  auto record = std::make_shared<recorder::EvaluationRecord>();
  recorder::Recorder &r = recorder::recorder();
  std::shared_ptr<recorder::CompiledProgram> compiled = program.compiled;
  record->data.outcome = CacheOutcome::kMemoryHit;
  if (!compiled || program.compiled_for != r.config.backend) {
    std::string bytecode;
    {
      std::lock_guard<std::mutex> lock(program.mutex);
      llvm::raw_string_ostream stream(bytecode);
      if (mlir::failed(mlir::writeBytecodeToFile(*program.module, stream)))
        recorder::fail(ErrorKind::kCompile, "the program cannot be written as bytecode");
    }
    auto outcome = recorder::compile_slice({bytecode, "program " + bytecode, r.config});
    if (!outcome.ok()) recorder::fail(ErrorKind::kCompile, std::string(outcome.status().message()));
    compiled = outcome->program;
    program.compiled = compiled;
    program.compiled_for = r.config.backend;
    record->data.outcome = outcome->from;
    record->data.compile_ms = outcome->milliseconds;
    record->data.difference = "a loaded or traced program";
    ++(outcome->from == CacheOutcome::kDiskHit ? r.statistics.disk_hits : r.statistics.compiles);
  } else {
    ++r.statistics.replays;
  }
  recorder::Launch launch;
  launch.executable = compiled->executable;
  for (recorder::Var &var : vars) launch.inputs.push_back(recorder::leaf_buffer(var.value.get()));
  recorder::describe_run(recorder::Slice(), *compiled, {CutReason::kJit, location}, record->data);
  record->data.inputs = static_cast<int64_t>(program.inputs.size());
  record->data.outputs = static_cast<int64_t>(program.outputs.size());
  record->data.number = ++r.statistics.evaluations;
  ++r.statistics.cuts[static_cast<int>(CutReason::kJit)];
  record->print = r.config.explain;
  record->report = compiled->report;
  if (absl::Status status = recorder::run(launch, record); !status.ok())
    recorder::fail(status.code() == absl::StatusCode::kResourceExhausted ? ErrorKind::kMemory : ErrorKind::kRun,
                   std::string(status.message()));
  recorder::keep(record);
  std::vector<Tensor> results;
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    // Outputs that share memory with an input or each other are never written in place by later programs.
    const runtime::OutputSpec &spec = compiled->executable->output_specs()[i];
    bool shared = spec.alias_input >= 0 || spec.alias_output >= 0;
    if (spec.alias_output >= 0) results[spec.alias_output].impl()->var.value->cell->borrowed = true;
    if (spec.alias_input >= 0)
      if (recorder::Cell *cell = vars[spec.alias_input].value->cell) cell->borrowed = true;
    recorder::Var value = recorder::make_leaf(program.outputs[i], launch.outputs[i], shared);
    value.value->evaluation = record;
    results.push_back(recorder::wrap_quietly(std::move(value)));
  }
  return results;
}

namespace {
template <typename T, typename F> std::vector<T> each(const std::vector<const recorder::TypeInfo *> &types, F f) {
  std::vector<T> result;
  for (const recorder::TypeInfo *type : types) result.push_back(f(*type));
  return result;
}
} // namespace

std::vector<Shape> Program::input_shapes() const {
  return each<Shape>(checked(impl_).inputs, [](const auto &t) { return t.dims; });
}
std::vector<DType> Program::input_dtypes() const {
  return each<DType>(checked(impl_).inputs, [](const auto &t) { return t.dtype; });
}
std::vector<Shape> Program::output_shapes() const {
  return each<Shape>(checked(impl_).outputs, [](const auto &t) { return t.dims; });
}
std::vector<DType> Program::output_dtypes() const {
  return each<DType>(checked(impl_).outputs, [](const auto &t) { return t.dtype; });
}

} // namespace weft
