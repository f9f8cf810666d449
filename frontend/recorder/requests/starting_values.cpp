#include "frontend/recorder/requests/starting_values.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "compiler/pipeline/PassHooks.h"
#include "dialects/weft/ir/BytecodeFile.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/reference/HostTensor.h"
#include "dialects/weft/rules/Composites.h"
#include "frontend/recorder/programs/backends.h"
#include "frontend/recorder/programs/find_program.h"
#include "frontend/recorder/requests/room.h"
#include "frontend/recorder/runs/invocation.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace weft::recorder {
namespace {

// More elements than any memory has: the programs are planned for them, and take no memory beside
// what they write. Where nothing is fused they would, one byte for each element at least.
constexpr int64_t kMostElements = int64_t(1) << 40;
constexpr int64_t kArenaForAllSizes = kMostElements;
// Of a constant, at a time: a part of the nearest cache.
constexpr int64_t kCopied = int64_t(8) << 10;

// A program from one row of memory to another, or to one from nothing.
struct FlatProgram {
  enum class Kind : uint8_t { kUniform, kNormal, kConvert };
  Kind kind;
  DType from, to; // from: what samples are computed in

  std::string what() const {
    return kind == Kind::kConvert ? std::string("converts ") + name(from) + " to " + name(to)
                                  : std::string("draws ") + name(to) +
                                        (kind == Kind::kUniform ? " uniformly" : " normally");
  }
};

// The ops that random.cpp records of a call, of a row of n elements, in bytecode.
std::string module_of(const FlatProgram &program) {
  mlir::MLIRContext *context = &recorder().ir->context();
  mlir::OpBuilder builder(context);
  mlir::Location unknown = builder.getUnknownLoc();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(unknown);
  mlir::StringAttr name = builder.getStringAttr("n");
  (*module)->setAttr("weft.sizes", builder.getDictionaryAttr(builder.getNamedAttr(
                                       name, builder.getDenseI64ArrayAttr({2, kMostElements}))));
  ir::Dims dims = {ir::namedDim(name, kMostElements)};
  mlir::Type from = ir::elementType(program.from, context),
             to = ir::elementType(program.to, context);
  mlir::RankedTensorType row = ir::tensorOf(dims, from), result = ir::tensorOf(dims, to),
                         number = mlir::RankedTensorType::get({}, from),
                         state = mlir::RankedTensorType::get({2}, builder.getI64Type());
  llvm::SmallVector<mlir::Type> inputs;
  if (program.kind == FlatProgram::Kind::kConvert)
    inputs = {row};
  else if (program.kind == FlatProgram::Kind::kUniform)
    inputs = {state, number, number};
  else
    inputs = {state, state, number, number};
  builder.setInsertionPointToEnd(module->getBody());
  auto main = mlir::func::FuncOp::create(builder, unknown, "main",
                                         builder.getFunctionType(inputs, {result}));
  mlir::Block *body = main.addEntryBlock();
  builder.setInsertionPointToEnd(body);
  auto argument = [&](unsigned i) {
    return ir::Val(builder, unknown, body->getArgument(i));
  };
  auto samples = [&](unsigned i) {
    return argument(i).at(ir::RandomUniformOp::create(builder, unknown, row, argument(i), 0));
  };
  unsigned last = static_cast<unsigned>(inputs.size()) - 1;
  ir::Val value = program.kind == FlatProgram::Kind::kConvert   ? argument(0)
                  : program.kind == FlatProgram::Kind::kUniform ? samples(0)
                                                                : normalOf(samples(0), samples(1));
  if (program.kind != FlatProgram::Kind::kConvert)
    value =
        value * ir::broadcastTo(argument(last - 1), dims) + ir::broadcastTo(argument(last), dims);
  mlir::func::ReturnOp::create(builder, unknown, ir::cast(value, to).value());
  return ir::writeBytecode(*module);
}

// From the caches or compiled; without code where the backend has none, which is remembered, too.
std::shared_ptr<CompiledProgram> find(const FlatProgram &flat, uint8_t device) {
  Recorder &r = recorder();
  ProgramContext context(r.config, device);
  ProgramKey key{.kind = ProgramKey::Kind::kFlat,
                 .salt = context.salt(),
                 .code = {uint32_t(flat.kind), uint32_t(flat.from), uint32_t(flat.to)}};
  if (const CachedProgram *known = program_cache().find(key))
    return known->program;
  std::string module = module_of(flat);
  CompileRequest request{module, module, config_for(r.config, device)};
  absl::StatusOr<CompileOutcome> outcome = absl::UnknownError("not compiled");
  {
    RecorderMutex::Pause pause(r.mutex);
    outcome = compile_slice(request);
    if (outcome.ok())
      if (auto sized = at_sizes(*outcome->program, {{"n", 2}}); !sized.ok())
        outcome = sized.status();
  }
  if (const CachedProgram *known = program_cache().find(key)) // another thread's
    return known->program;
  bool refused = absl::IsUnimplemented(outcome.status()) ||
                 (outcome.ok() && outcome->program->report->plan.arenaBytes >= kArenaForAllSizes);
  if (!refused)
    check(outcome.status(), kind_of(outcome.status(), ErrorKind::kCompile));
  auto program = refused ? std::make_shared<CompiledProgram>() : outcome->program;
  if (context.registrations == compiler::registrationsGeneration())
    program_cache().insert({{key}, context, program});
  if (refused)
    return program;
  count(*outcome);
  if (r.config.explain) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f ms", outcome->milliseconds);
    std::cerr << std::string("weft init ") + Session::location().file_name() + ":" +
                     std::to_string(Session::location().line()) + " | a program that " +
                     flat.what() + ", for all sizes: " +
                     (outcome->from == CacheOutcome::kDiskHit ? "disk hit in " : "compiled in ") +
                     text + "\n";
  }
  return program;
}

// A leaf of this type, in flight.
Var launch(const CompiledProgram &program, llvm::ArrayRef<Var> inputs, const TypeInfo &type,
           Location location) {
  auto sized = at_sizes(program, {{"n", type.elements}});
  check(sized.status(), kind_of(sized.status(), ErrorKind::kRun),
        "the tensor's first value cannot be made: ");
  FoundProgram found{.program = *std::move(sized), .device = type.device};
  Evaluation &figures = found.figures;
  figures.reason = CutReason::kInit;
  figures.file = location.file_name();
  figures.line = static_cast<int>(location.line());
  figures.inputs = std::ssize(inputs);
  figures.outputs = 1;
  figures.outcome = CacheOutcome::kMemoryHit;
  figures.symbolic = "n=" + std::to_string(type.elements);
  describe_program(*found.program, figures);
  Invocation run(found);
  for (const Var &input : inputs)
    run.bind(input.value);
  run.launch(Attempt::kLast, Session::location(), Guard::kLock, /*is_evaluation=*/false);
  Var leaf{new Value(&type)};
  run.publish(0, leaf.value);
  run.finish();
  return leaf;
}

Var make(const StartingValue &value, const TypeInfo &type) {
  if (value.kind == StartingValue::Kind::kConstant || type.elements == 0) {
    std::shared_ptr<runtime::Buffer> buffer =
        allocate_buffer(type.bytes, host_reads(type.device) ? type.device : 0);
    uint64_t bits = scalar_bits(Scalar(value.shift), type.dtype);
    auto *bytes = static_cast<char *>(buffer->data());
    int64_t done = std::min(type.bytes, byte_size(type.dtype));
    std::memcpy(bytes, &bits, static_cast<size_t>(done));
    // What is there is copied behind it, as far as it is still in the nearest cache.
    for (int64_t more; done < type.bytes; done += more) {
      more = std::min({done, type.bytes - done, kCopied});
      std::memcpy(bytes + done, bytes, static_cast<size_t>(more));
    }
    if (!host_reads(type.device))
      buffer = buffer_of(buffer->data(), type.bytes, type.device);
    return make_leaf(&type, std::move(buffer));
  }
  bool normal = value.kind == StartingValue::Kind::kNormal;
  std::array<int64_t, 2> state = value.state;
  llvm::SmallVector<Var, 4> inputs;
  auto add_state = [&] {
    inputs.push_back(make_leaf(type_info(DType::kInt64, {2}, type.device),
                               buffer_of(state.data(), sizeof state, type.device)));
  };
  add_state();
  if (normal) {
    state[1] += random_blocks(type.elements, false);
    add_state();
  }
  // x + -0.0 is x, which x + 0.0 is not where x is -0.0: as if nothing were added.
  for (double number : {value.scale, value.shift == 0 ? -0.0 : value.shift})
    inputs.push_back(make_scalar(Scalar(number), value.computed));
  return launch(*value.program, inputs, type, value.location);
}

} // namespace

int64_t random_blocks(int64_t elements, bool normal) {
  return (elements + kSamplesTogether - 1) / kSamplesTogether * 16 * (normal ? 2 : 1);
}

std::shared_ptr<const StartingValue> with_program(StartingValue value, const TypeInfo &type) {
  if (value.kind != StartingValue::Kind::kConstant) {
    if (type.elements > kMostElements)
      return nullptr;
    FlatProgram::Kind kind = value.kind == StartingValue::Kind::kUniform
                                 ? FlatProgram::Kind::kUniform
                                 : FlatProgram::Kind::kNormal;
    value.program = find({kind, value.computed, type.dtype}, type.device);
    if (!value.program->executable)
      return nullptr;
  }
  return std::make_shared<const StartingValue>(std::move(value));
}

Var in_memory(const StartingValue &value, const TypeInfo &type) {
  return make_with_room([&] { return make(value, type); });
}

Var converted(Value *leaf, DType dtype) {
  if (!leaf->cell || leaf->type->part || leaf->type->elements == 0 ||
      leaf->type->elements > kMostElements)
    return Var();
  ValueRef held(leaf);
  std::shared_ptr<CompiledProgram> program =
      find({FlatProgram::Kind::kConvert, leaf->type->dtype, dtype}, leaf->type->device);
  if (!program->executable)
    return Var();
  const TypeInfo &type = *type_info(dtype, leaf->type->dims, leaf->type->device);
  Var x{std::move(held)};
  return make_with_room([&] { return launch(*program, x, type, Session::location()); });
}

} // namespace weft::recorder
