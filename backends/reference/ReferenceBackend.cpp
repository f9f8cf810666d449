// The reference backend: programs are interpreted on one thread, op by op.
#include <cstring>
#include <mutex>

#include "backends/reference/Interpreter.h"
#include "compiler/backend/Backend.h"
#include "compiler/backend/ContextPool.h"
#include "dialects/weft/ir/Bytecode.h"
#include "dialects/weft/ir/TypeAdvice.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Parser/Parser.h"
#include "runtime/core/caches.h"
#include "runtime/core/status.h"
#include "runtime/executable/executable.h"
#include "runtime/executable/run_failure.h"
#include "runtime/memory/buffer.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::backends::reference {

using namespace mlir;

namespace {

// Lives as long as the process: programs may outlive main().
compiler::ContextPool &pool() {
  static auto *contexts = new compiler::ContextPool(
      compiler::kMostIdleContexts, compiler::kMostPrograms, [](MLIRContext &context) {
        context.loadDialect<ir::WeftDialect, func::FuncDialect>();
      });
  return *contexts;
}

const runtime::RegisteredCache
    contexts("reference contexts",
             "each after so many programs, or a large one: a context never frees what it has seen",
             [] { return pool().use(); });

// A module of its own in a context that is its own while it lives, with what its evaluation says
// when it fails.
class ReferenceExecutable : public runtime::Executable {
public:
  static absl::StatusOr<std::shared_ptr<ReferenceExecutable>> create(std::string bytecode) {
    auto executable = std::make_shared<ReferenceExecutable>();
    executable->bytecode_ = std::move(bytecode);
    executable->context_ = pool().take();
    ++executable->context_->uses;
    MLIRContext &context = executable->context_->context;
    executable->handler_ = context.getDiagEngine().registerHandler(
        [raw = executable.get()](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
            return success();
          // The user's line as compilers print it.
          std::string where;
          // Within the name of a module.
          if (auto line = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>())
            where = (line.getFilename().getValue() + ":" + Twine(line.getLine())).str();
          if (raw->diagnostics_.empty())
            raw->first_location_ = where;
          else
            raw->diagnostics_ += "; " + (where.empty() ? where : where + ": ");
          raw->diagnostics_ += diagnostic.str();
          return success();
        });
    executable->module_ =
        parseSourceString<ModuleOp>(executable->bytecode_, ParserConfig(&context));
    if (!executable->module_)
      return absl::DataLossError("not a module of weft ops: " + executable->diagnostics_);
    executable->main_ = executable->module_->lookupSymbol<func::FuncOp>("main");
    if (!executable->main_)
      return absl::InvalidArgumentError("the module has no function @main");
    WEFT_RETURN_IF_ERROR(executable->describe());
    return executable;
  }

  ~ReferenceExecutable() override {
    if (!context_)
      return;
    module_ = nullptr;
    context_->context.getDiagEngine().eraseHandler(handler_);
    if (bytecode_.size() <= compiler::kMostBytecode)
      pool().giveBack(std::move(context_));
  }

  const std::string &bytecode() const {
    return bytecode_;
  }
  std::span<const runtime::InputSpec> input_specs() const override {
    return inputs_;
  }
  std::span<const runtime::OutputSpec> output_specs() const override {
    return outputs_;
  }
  int64_t arena_bytes() const override {
    return 0;
  }
  bool is_serial() const override {
    return true;
  }
  absl::StatusOr<std::unique_ptr<runtime::RunResources>>
  acquire(const runtime::RunContext &) override {
    return std::make_unique<runtime::RunResources>();
  }

  absl::Status run(const runtime::RunContext &, runtime::RunResources &,
                   std::span<runtime::Buffer *const> inputs,
                   std::span<runtime::Buffer *const> outputs) override {
    WEFT_RETURN_IF_ERROR(runtime::check_bindings(*this, inputs, outputs));
    // One run at a time: the context and the diagnostics are shared.
    std::lock_guard<std::mutex> lock(mutex_);
    SmallVector<ir::HostTensor> arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
      ir::HostTensor tensor(inputs_[i].dtype, inputs_[i].dims);
      if (inputs_[i].bytes > 0)
        std::memcpy(tensor.bytes.data(), inputs[i]->data(), static_cast<size_t>(inputs_[i].bytes));
      arguments.push_back(std::move(tensor));
    }
    diagnostics_.clear();
    first_location_.clear();
    auto results = interpret(main_, std::move(arguments));
    if (failed(results)) { // outputs are written below
      absl::Status failure = runtime::with_kept_inputs(
          absl::InternalError(diagnostics_.empty() ? "reference evaluation failed" : diagnostics_));
      return first_location_.empty() ? failure : runtime::with_location(failure, first_location_);
    }
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs_[i].bytes > 0)
        std::memcpy(outputs[i]->data(), (*results)[i].bytes.data(),
                    static_cast<size_t>(outputs_[i].bytes));
    return absl::OkStatus();
  }

private:
  template <typename Spec> static absl::StatusOr<Spec> spec_of(Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return absl::InvalidArgumentError("@main's types must be tensors of static shape");
    if (std::string advice = ir::elementAdvice(type); !advice.empty())
      return absl::InvalidArgumentError("@main has elements of another type than Weft's; " +
                                        advice);
    Spec spec;
    spec.dtype = ir::dtypeOf(tensor.getElementType());
    spec.dims.assign(tensor.getShape().begin(), tensor.getShape().end());
    spec.bytes = tensor.getNumElements() * byte_size(spec.dtype);
    return spec;
  }

  absl::Status describe() {
    for (Type type : main_.getArgumentTypes()) {
      WEFT_ASSIGN_OR_RETURN(auto spec, spec_of<runtime::InputSpec>(type));
      inputs_.push_back(spec);
    }
    for (Type type : main_.getResultTypes()) {
      WEFT_ASSIGN_OR_RETURN(auto spec, spec_of<runtime::OutputSpec>(type));
      outputs_.push_back(spec);
    }
    return absl::OkStatus();
  }

  std::string bytecode_;
  std::unique_ptr<compiler::ContextPool::Context> context_;
  DiagnosticEngine::HandlerID handler_ = 0;
  std::string diagnostics_;
  std::string first_location_; // of what they begin with, "train.cpp:31"
  OwningOpRef<ModuleOp> module_;
  func::FuncOp main_;
  std::vector<runtime::InputSpec> inputs_;
  std::vector<runtime::OutputSpec> outputs_;
  std::mutex mutex_;
};

class ReferenceBackend : public compiler::Backend {
public:
  StringRef name() const override {
    return "reference";
  }
  StringRef device() const override {
    return "cpu";
  }
  void registerDialects(DialectRegistry &registry) const override {
    registry.insert<ir::WeftDialect, func::FuncDialect>();
  }

  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  compile(ModuleOp module, const compiler::CompileOptions &,
          compiler::CompileReport *report) override {
    std::string bytecode;
    llvm::raw_string_ostream stream(bytecode);
    if (failed(writeBytecodeToFile(module, stream)))
      return absl::InternalError("the module cannot be written as bytecode");
    WEFT_ASSIGN_OR_RETURN(auto executable, ReferenceExecutable::create(std::move(bytecode)));
    if (report)
      report->codeBytes = static_cast<int64_t>(executable->bytecode().size());
    return std::shared_ptr<runtime::Executable>(std::move(executable));
  }

  // Bytecode runs on every machine; another version of the dialect refuses it when it is read.
  std::string targetKey(const compiler::CompileOptions &) const override {
    return "reference, bytecode " + std::to_string(ir::kBytecodeVersion);
  }

  std::optional<std::string> serialize(const runtime::Executable &executable) const override {
    auto *own = dynamic_cast<const ReferenceExecutable *>(&executable);
    return own ? std::optional<std::string>(own->bytecode()) : std::nullopt;
  }

  absl::StatusOr<std::shared_ptr<runtime::Executable>> load(ArrayRef<char> blob) const override {
    WEFT_ASSIGN_OR_RETURN(auto executable,
                          ReferenceExecutable::create(std::string(blob.data(), blob.size())));
    return std::shared_ptr<runtime::Executable>(std::move(executable));
  }
};

const compiler::BackendRegistration registration("reference", [] {
  return std::make_unique<ReferenceBackend>();
});

} // namespace
} // namespace weft::backends::reference
