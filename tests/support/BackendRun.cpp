#include "tests/support/BackendRun.h"

#include <map>
#include <optional>

#include "dialects/weft/ir/Weft.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectRegistry.h"
#include "runtime/executor/device.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/system_allocator.h"
#include "llvm/TargetParser/Host.h"

namespace weft::tests {

using ir::HostTensor;

std::vector<Variant> variants() {
  std::vector<Variant> all;
  for (const std::string &name : compiler::backendNames()) {
    all.push_back({name, name});
    all.back().byTurns = llvm::StringRef(name).ends_with("unfused");
    if (llvm::StringRef(name).ends_with("simulated")) {
      all.back().views = all.back().threads = false;
      all.back().byTurns = true;
      all.back().mostNarrow = 4096;
    }
    // What interprets has no providers, and one variant of a backend without them is enough. What
    // simulates a device takes long, and only a few dtypes of a few ops are claimed.
    if (llvm::StringRef backend = name;
        name != "reference" && !backend.ends_with("unfused") && !backend.ends_with("simulated")) {
      all.push_back({name + " unclaimed", name});
      all.back().options.claim = false;
    }
  }
  // The machine's own features choose how vectors are lowered: the narrower lowering must be right
  // too, wherever the tests run.
  bool hasCpu = llvm::is_contained(compiler::backendNames(), "cpu");
  if (std::optional<std::string> narrow = narrowFeatures(); narrow && hasCpu) {
    all.push_back({"cpu 256-bit", "cpu"});
    all.back().options.claim = false;
    all.back().options.features = *narrow;
    all.back().byTurns = true;
  }
  return all;
}

std::optional<std::string> narrowFeatures() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto wide = features.find("avx512f");
  if (wide == features.end() || !wide->second)
    return std::nullopt;
  return "-avx512f";
}

void prepare(mlir::MLIRContext &context) {
  mlir::DialectRegistry registry;
  registry.insert<ir::WeftDialect, mlir::func::FuncDialect>();
  for (const std::string &name : compiler::backendNames())
    if (auto backend = compiler::findBackend(name); backend.ok())
      (*backend)->registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
}

absl::StatusOr<std::shared_ptr<runtime::Executable>>
compile(mlir::ModuleOp module, const Variant &variant, compiler::CompileReport *report) {
  absl::StatusOr<compiler::Backend *> backend = compiler::findBackend(variant.backend);
  if (!backend.ok())
    return backend.status();
  mlir::OwningOpRef<mlir::ModuleOp> copy = module.clone();
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler collect(module.getContext(), [&](mlir::Diagnostic &diagnostic) {
    diagnostics += "\n  " + diagnostic.str();
    return mlir::success();
  });
  auto executable = compiler::compileBy(**backend, *copy, variant.options, report);
  if (!executable.ok())
    return absl::Status(executable.status().code(),
                        std::string(executable.status().message()) + diagnostics);
  return executable;
}

// One host for each number of threads, each with a thread (and so a thread team) of its own.
static runtime::Device &hostOf(int threads) {
  static std::map<int, runtime::Device> hosts;
  auto found = hosts.find(threads);
  if (found != hosts.end())
    return found->second;
  runtime::DeviceKind kind;
  kind.name = "cpu";
  kind.allocator = [](int) {
    return std::make_shared<runtime::SystemAllocator>();
  };
  kind.threads = threads;
  return hosts.try_emplace(threads, kind, 0, 0).first->second;
}

static runtime::Device &deviceOf(const std::string &backend, int threads) {
  for (const char *number : {":1", ":0"})
    if (auto index = runtime::find_device(backend + number); index.ok())
      if (runtime::Device &device = runtime::device(*index); !device.is_host_memory())
        return device;
  return hostOf(threads);
}

absl::StatusOr<std::vector<HostTensor>> run(std::shared_ptr<runtime::Executable> executable,
                                            const std::vector<HostTensor> &inputs, int threads,
                                            const std::string &backend) {
  runtime::Device &device = deviceOf(backend, threads);
  runtime::Executor &executor = device.executor();
  std::vector<std::shared_ptr<runtime::Buffer>> in, out;
  for (const HostTensor &input : inputs) {
    auto buffer = executor.memory()->allocate(input.bytes.size(), "test");
    if (!buffer.ok())
      return buffer.status();
    if (absl::Status status =
            device.write((*buffer)->data(), input.bytes.data(), input.bytes.size());
        !status.ok())
      return status;
    in.push_back(*std::move(buffer));
  }
  for (const runtime::OutputSpec &spec : executable->output_specs()) {
    bool tied = spec.donated_input >= 0 || spec.alias_input >= 0 || spec.alias_output >= 0;
    std::shared_ptr<runtime::Buffer> buffer;
    if (!tied) {
      auto made = executor.memory()->allocate(spec.bytes, "test");
      if (!made.ok())
        return made.status();
      buffer = *std::move(made);
      std::vector<char> unwritten(spec.bytes, 0x5a); // an element that is not written shows
      if (absl::Status status = device.write(buffer->data(), unwritten.data(), spec.bytes);
          !status.ok())
        return status;
    }
    out.push_back(std::move(buffer));
  }
  if (absl::Status status = executor.submit(executable, in, out); !status.ok())
    return status;
  std::vector<HostTensor> results;
  for (size_t i = 0; i < out.size(); ++i) {
    if (absl::Status status = out[i]->wait(); !status.ok())
      return status;
    const runtime::OutputSpec &spec = executable->output_specs()[i];
    HostTensor tensor(spec.dtype, spec.dims);
    if (absl::Status status = device.read(tensor.bytes.data(), out[i]->data(), tensor.bytes.size());
        !status.ok())
      return status;
    results.push_back(std::move(tensor));
  }
  return results;
}

} // namespace weft::tests
