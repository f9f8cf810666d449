#include "tests/fuzz/checked_backend.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>

#include "compiler/backend/Backend.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"
#include "runtime/executable/executable.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"
#include "tests/fuzz/random.h"
#include "tests/support/Compare.h"
#include "tests/support/ErrorBudget.h"
#include "tests/support/OpModule.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::fuzz {
namespace {

using ir::HostTensor;
using Tensors = std::vector<HostTensor>;

std::set<std::string> seen;

// A function that runs `op` alone.
tests::OpModule alone(mlir::Operation &op) {
  mlir::OpBuilder builder(op.getContext());
  tests::OpModule made;
  made.module = mlir::ModuleOp::create(builder, op.getLoc());
  builder.setInsertionPointToEnd(made.module->getBody());
  auto type = builder.getFunctionType(op.getOperandTypes(), op.getResultTypes());
  made.main = mlir::func::FuncOp::create(builder, op.getLoc(), "main", type);
  builder.setInsertionPointToStart(made.main.addEntryBlock());
  mlir::IRMapping mapping;
  made.op = builder.clone(op, mapping);
  made.op->setOperands(made.main.getArguments());
  mlir::func::ReturnOp::create(builder, op.getLoc(), made.op->getResults());
  return made;
}

// Ops that only decompositions make are run by the cpu where it decomposes the op.
void noteDecomposition(mlir::Operation &op) {
  auto rules = mlir::dyn_cast<ir::WeftOp>(op);
  if (!rules || rules.kind() != ir::Kind::Composite)
    return;
  tests::OpModule made = alone(op);
  mlir::OpBuilder builder(made.op);
  if (failed(mlir::cast<ir::WeftOp>(made.op).decompose(builder)))
    return;
  made.main.walk([](mlir::Operation *part) { seen.insert(part->getName().getStringRef().str()); });
}

// Composites (softmax, layer_norm ...) amplify what their operands are off, where a row is nearly
// constant or its largest terms cancel: a result is also right when it is the exact one of operands
// that differ by a few roundings, in float64 by as many as the reference's own sums are off. The
// bound is the largest change of each element over some such operands.
std::vector<double> bound_by_operands(tests::OpModule &made, const HostTensor &expected,
                                      size_t result) {
  // A row of two elements shows nothing where both move the same way, which is every other trial.
  constexpr int kTrials = 16;
  double roundings = 16;
  if (expected.dtype == DType::kFloat64)
    roundings = std::max(roundings, tests::termsOf(made));
  std::vector<double> bound(static_cast<size_t>(expected.size()), 0);
  Random random(1);
  for (int trial = 0; trial < kTrials; ++trial) {
    Tensors inputs = made.inputs;
    for (HostTensor &input : inputs) {
      if (!is_floating(input.dtype))
        continue;
      // 16-bit floats are off by a step: nothing less shows in them.
      double step = input.dtype == DType::kBFloat16 ? 0x1p-7
                    : input.dtype == DType::kFloat16
                        ? 0x1p-10
                        : roundings * (input.dtype == DType::kFloat64 ? 0x1p-53 : 0x1p-24);
      for (int64_t i = 0; i < input.size(); ++i)
        input.set(i, input.getDouble(i) * (1 + step * (random.chance(0.5) ? 1 : -1)));
    }
    std::string error;
    Tensors results = tests::evaluate(made.main, inputs, error);
    if (!error.empty())
      return {};
    for (int64_t i = 0; i < expected.size(); ++i) {
      double change = std::abs(results[result].getDouble(i) - expected.getDouble(i));
      if (std::isfinite(change))
        bound[static_cast<size_t>(i)] = std::max(bound[static_cast<size_t>(i)], 4 * change);
    }
  }
  return bound;
}

// What layer_norm's result may be off by since the mean is rounded before it is subtracted: by one
// rounding of the mean, in units of the deviation. Operands that are off move mean and elements
// alike, so that their bound shows nothing of it where a row has two elements.
double bound_by_mean(ir::LayerNormOp norm, const Tensors &inputs, const Tensors &expected,
                     int64_t k) {
  int64_t row = expected[0].size() / expected[1].size();
  double weight = norm.getWeight() ? std::abs(inputs[1].getDouble(k % row)) : 1;
  double rounding = expected[0].dtype == DType::kFloat64 ? 0x1p-53 : 0x1p-24;
  return weight * rounding * std::abs(expected[1].getDouble(k / row)) *
         expected[2].getDouble(k / row);
}

// Empty, or what is wrong with the op's results.
std::string check_op(mlir::Operation &op, const Tensors &operands, const Tensors &results) {
  tests::OpModule made = alone(op);
  if (seen.insert(op.getName().getStringRef().str()).second)
    noteDecomposition(op);
  made.inputs = operands;
  std::string error;
  Tensors expected = tests::evaluate(made.main, operands, error);
  if (!error.empty())
    return "reference evaluation: " + error;
  for (size_t i = 0; i < expected.size(); ++i) {
    DType dtype = expected[i].dtype;
    tests::Budget budget = tests::budgetOf(made, dtype, expected[i]);
    std::string different =
        tests::compareWithin(results[i], expected[i], budget.ulps, budget.bound);
    if (different.empty())
      continue;
    auto rules = mlir::dyn_cast<ir::WeftOp>(op);
    if (rules && rules.kind() == ir::Kind::Composite && is_floating(dtype)) {
      std::vector<double> bound = bound_by_operands(made, expected[i], i);
      for (size_t k = 0; k < bound.size(); ++k)
        if (!budget.bound.empty())
          bound[k] += budget.bound[budget.bound.size() == 1 ? 0 : k];
      if (auto norm = mlir::dyn_cast<ir::LayerNormOp>(op); norm && i == 0)
        for (size_t k = 0; k < bound.size(); ++k)
          bound[k] += bound_by_mean(norm, made.inputs, expected, static_cast<int64_t>(k));
      // A weight that is 0 in float32 may be 1e-50 in the reference's double: an infinity among the
      // values times the one is NaN, times the other an infinity.
      if (mlir::isa<ir::AttentionOp>(op) && i == 0 && dtype != DType::kFloat64)
        for (size_t k = 0; k < bound.size(); ++k)
          if (!std::isfinite(expected[i].getDouble(static_cast<int64_t>(k))))
            bound[k] = std::numeric_limits<double>::infinity();
      if (tests::compareWithin(results[i], expected[i], budget.ulps, bound).empty())
        continue;
    }
    std::string text;
    llvm::raw_string_ostream stream(text);
    op.print(stream);
    return "result " + std::to_string(i) + " " + different + "\n  of " + text;
  }
  return "";
}

class CheckedExecutable : public runtime::Executable {
public:
  static absl::StatusOr<std::shared_ptr<runtime::Executable>>
  create(mlir::ModuleOp module, const compiler::CompileOptions &options,
         compiler::CompileReport *report) {
    auto main = module.lookupSymbol<mlir::func::FuncOp>("main");
    auto isStatic = [](mlir::Type type) {
      return mlir::cast<mlir::RankedTensorType>(type).hasStaticShape();
    };
    if (!llvm::all_of(main.getArgumentTypes(), isStatic))
      return absl::UnimplementedError("values are checked in programs of one size");
    auto made = std::make_shared<CheckedExecutable>();
    std::string bytecode;
    llvm::raw_string_ostream stream(bytecode);
    if (failed(mlir::writeBytecodeToFile(module, stream)))
      return absl::InternalError("the module cannot be written as bytecode");
    mlir::DialectRegistry registry;
    registry.insert<ir::WeftDialect, mlir::func::FuncDialect>();
    made->context_ =
        std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
    made->context_->loadAllAvailableDialects();
    made->module_ =
        mlir::parseSourceString<mlir::ModuleOp>(bytecode, mlir::ParserConfig(made->context_.get()));
    made->main_ = made->module_->lookupSymbol<mlir::func::FuncOp>("main");

    // The same program for the cpu: nothing is donated, every value is a result.
    auto extended = module.lookupSymbol<mlir::func::FuncOp>("main");
    for (unsigned i = 0; i < extended.getNumArguments(); ++i)
      extended.setArgAttrs(i, llvm::ArrayRef<mlir::NamedAttribute>());
    mlir::Operation *end = extended.getBody().front().getTerminator();
    made->outputs_count_ = end->getNumOperands();
    llvm::SmallVector<mlir::Value> results(end->getOperands());
    for (mlir::Operation &op : extended.getBody().front().without_terminator())
      results.append(op.result_begin(), op.result_end());
    end->setOperands(results);
    extended.setType(mlir::FunctionType::get(module.getContext(), extended.getArgumentTypes(),
                                             mlir::ValueRange(results).getTypes()));
    absl::StatusOr<compiler::Backend *> cpu = compiler::findBackend("cpu-unfused");
    if (!cpu.ok())
      return cpu.status();
    auto executable = (*cpu)->compile(module, options, report);
    if (!executable.ok())
      return executable.status();
    made->executable_ = *std::move(executable);
    for (size_t i = 0; i < made->outputs_count_; ++i) {
      runtime::OutputSpec spec = made->executable_->output_specs()[i];
      spec.donated_input = spec.alias_input = spec.alias_output = -1;
      made->outputs_.push_back(spec);
    }
    return std::shared_ptr<runtime::Executable>(std::move(made));
  }

  std::span<const runtime::InputSpec> input_specs() const override {
    return executable_->input_specs();
  }
  std::span<const runtime::OutputSpec> output_specs() const override {
    return outputs_;
  }
  int64_t arena_bytes() const override {
    return executable_->arena_bytes();
  }
  bool is_serial() const override {
    return false;
  }
  absl::StatusOr<std::unique_ptr<runtime::RunResources>>
  acquire(const runtime::RunContext &context) override {
    return executable_->acquire(context);
  }

  absl::Status run(const runtime::RunContext &context, runtime::RunResources &resources,
                   std::span<runtime::Buffer *const> inputs,
                   std::span<runtime::Buffer *const> outputs) override {
    std::vector<std::shared_ptr<runtime::Buffer>> own;
    std::vector<runtime::Buffer *> all;
    for (const runtime::OutputSpec &spec : executable_->output_specs()) {
      int64_t tied = spec.alias_input >= 0 ? spec.alias_input : spec.donated_input;
      if (tied >= 0) {
        all.push_back(inputs[static_cast<size_t>(tied)]);
        continue;
      }
      if (spec.alias_output >= 0) {
        all.push_back(all[static_cast<size_t>(spec.alias_output)]);
        continue;
      }
      auto buffer = context.memory->allocate(spec.bytes, "checked values");
      if (!buffer.ok())
        return buffer.status();
      if (spec.bytes > 0)
        std::memset((*buffer)->data(), 0x5a,
                    static_cast<size_t>(spec.bytes)); // an element that is not written shows
      own.push_back(*std::move(buffer));
      all.push_back(own.back().get());
    }
    if (absl::Status status = executable_->run(context, resources, inputs, all); !status.ok())
      return status;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs_[i].bytes > 0)
        std::memcpy(outputs[i]->data(), all[i]->data(), static_cast<size_t>(outputs_[i].bytes));
    return compare(inputs, all);
  }

private:
  static HostTensor read(const runtime::Buffer &buffer, mlir::Type type) {
    HostTensor tensor = HostTensor::of(mlir::cast<mlir::RankedTensorType>(type));
    if (!tensor.bytes.empty())
      std::memcpy(tensor.bytes.data(), buffer.data(), tensor.bytes.size());
    return tensor;
  }

  absl::Status compare(std::span<runtime::Buffer *const> inputs,
                       const std::vector<runtime::Buffer *> &all) {
    llvm::DenseMap<mlir::Value, HostTensor> values;
    for (auto [argument, buffer] : llvm::zip(main_.getArguments(), inputs))
      values[argument] = read(*buffer, argument.getType());
    size_t at = outputs_count_;
    for (mlir::Operation &op : main_.getBody().front().without_terminator()) {
      Tensors operands, results;
      for (mlir::Value operand : op.getOperands())
        operands.push_back(values.at(operand));
      for (mlir::Value result : op.getResults()) {
        results.push_back(read(*all[at++], result.getType()));
        values[result] = results.back();
      }
      std::string wrong = check_op(op, operands, results);
      if (!wrong.empty())
        return absl::InternalError(wrong);
    }
    return absl::OkStatus();
  }

  std::unique_ptr<mlir::MLIRContext> context_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  mlir::func::FuncOp main_;
  std::shared_ptr<runtime::Executable> executable_;
  size_t outputs_count_ = 0;
  std::vector<runtime::OutputSpec> outputs_;
};

class CheckedBackend : public compiler::Backend {
public:
  llvm::StringRef name() const override {
    return kCheckedBackend;
  }
  llvm::StringRef device() const override {
    return "cpu";
  }
  void registerDialects(mlir::DialectRegistry &registry) const override {
    if (auto cpu = compiler::findBackend("cpu-unfused"); cpu.ok())
      (*cpu)->registerDialects(registry);
  }
  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  compile(mlir::ModuleOp module, const compiler::CompileOptions &options,
          compiler::CompileReport *report) override {
    return CheckedExecutable::create(module, options, report);
  }
  std::string targetKey(const compiler::CompileOptions &) const override {
    return "";
  }
  std::string whyNotCachable(const compiler::CompileOptions &) const override {
    return "it is for tests";
  }
};

const compiler::BackendRegistration registration(kCheckedBackend,
                                                 [] { return std::make_unique<CheckedBackend>(); });

} // namespace

const std::set<std::string> &checked_ops() {
  return seen;
}

} // namespace weft::fuzz
