#include "compiler/codegen/KernelTester.h"

#include <cstdlib>
#include <cstring>

#include "mlir/IR/Diagnostics.h"

namespace weft::compiler {

using ir::HostTensor;

std::string TestKernel::dump(llvm::StringRef stage) const {
  for (auto &[name, text] : dumps)
    if (name == stage)
      return text;
  return "";
}

std::unique_ptr<TestKernel> TestKernel::build(ir::FusionOp fusion, std::string &error, bool dump,
                                              const TargetInfo &target) {
  mlir::MLIRContext *context = fusion.getContext();
  registerCodegenDialects(*context);
  mlir::ScopedDiagnosticHandler collect(context, [&](mlir::Diagnostic &diagnostic) {
    error += diagnostic.str() + "\n";
    return mlir::success();
  });
  auto kernel = std::make_unique<TestKernel>();
  CodegenOptions options;
  options.verify = true;
  if (dump)
    options.dump = [&](llvm::StringRef stage, llvm::StringRef text) {
      kernel->dumps.push_back({stage.str(), text.str()});
    };
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(fusion.getLoc());
  auto info = buildKernel(fusion, "kernel", *module, target, options);
  if (mlir::failed(info)) {
    if (error.empty())
      error = "failed without a diagnostic";
    return nullptr;
  }
  kernel->info = *info;
  auto object = emitObject(*module, target, options);
  if (!object.ok()) {
    error += std::string(object.status().message());
    return nullptr;
  }
  std::vector<std::string> symbols = {kernel->info.symbol};
  if (!kernel->info.finish.empty())
    symbols.push_back(kernel->info.finish);
  auto code = JitCode::link({std::make_shared<const std::string>(*std::move(object))}, symbols);
  if (!code.ok()) {
    error += std::string(code.status().message());
    return nullptr;
  }
  kernel->code_ = *std::move(code);
  auto lookup = [&](const std::string &name) {
    return reinterpret_cast<weft_kernel>(kernel->code_->lookup(name));
  };
  kernel->body = lookup(kernel->info.symbol);
  if (!kernel->info.finish.empty())
    kernel->finish = lookup(kernel->info.finish);
  kernel->inputs_ = fusion.getInputs().size();
  for (mlir::Type type : fusion.getResultTypes())
    kernel->outputs_.push_back(mlir::cast<mlir::RankedTensorType>(type));
  return kernel;
}

int32_t TestKernel::call(llvm::ArrayRef<void *> buffers, int64_t parts) {
  auto aligned = [](int64_t bytes) {
    void *memory = std::aligned_alloc(64, (bytes + 127) / 64 * 64);
    std::memset(memory, 0xAB, bytes); // what a kernel must not rely on
    return std::unique_ptr<void, void (*)(void *)>(memory, std::free);
  };
  std::vector<void *> all(buffers.begin(), buffers.end());
  auto partials = aligned(info.partialsBytes);
  if (info.partialsBytes)
    all.push_back(partials.get());
  llvm::SmallVector<int64_t> ints = info.ints();
  int32_t worst = WEFT_KERNEL_OK;
  for (int64_t part = 0; part < parts; ++part) {
    auto scratch = aligned(info.threadScratchBytes);
    weft_kernel_env env{sizeof(weft_kernel_env), static_cast<uint32_t>(part), scratch.get()};
    int64_t begin = info.count * part / parts, end = info.count * (part + 1) / parts;
    if (begin < end)
      worst = std::max(worst, body(&env, all.data(), ints.data(), nullptr, begin, end));
  }
  auto scratch = aligned(info.threadScratchBytes);
  weft_kernel_env env{sizeof(weft_kernel_env), 0, scratch.get()};
  if (finish && worst == WEFT_KERNEL_OK)
    worst = finish(&env, all.data(), ints.data(), nullptr, 0, 1);
  return worst;
}

int32_t TestKernel::run(llvm::ArrayRef<HostTensor> inputs, std::vector<HostTensor> &outputs,
                        int64_t parts, llvm::ArrayRef<std::pair<int64_t, int64_t>> shared) {
  constexpr int64_t kGuard = 64;
  struct Memory {
    std::vector<std::byte> bytes;
    int64_t size = 0, offset = 0;
    void *data() {
      return bytes.data() + offset;
    }
  };
  auto make = [](int64_t size, int64_t elementBytes) {
    Memory memory;
    memory.bytes.assign(size + 3 * kGuard, std::byte(0xCD));
    // Aligned to its element and to nothing more, as buffers are that users bind.
    auto address = reinterpret_cast<uintptr_t>(memory.bytes.data());
    memory.offset = (address + kGuard + 63) / 64 * 64 - address + elementBytes;
    memory.size = size;
    return memory;
  };
  std::vector<Memory> memory;
  for (const HostTensor &input : inputs) {
    memory.push_back(make(input.bytes.size(), byte_size(input.dtype)));
    if (!input.bytes.empty())
      std::memcpy(memory.back().data(), input.bytes.data(), input.bytes.size());
  }
  std::vector<size_t> outputAt;
  for (auto [i, type] : llvm::enumerate(outputs_)) {
    HostTensor zeros = HostTensor::of(type);
    size_t at = memory.size();
    for (auto [output, input] : shared)
      if (output == static_cast<int64_t>(i))
        at = input;
    if (at == memory.size())
      memory.push_back(make(zeros.bytes.size(), byte_size(zeros.dtype)));
    outputAt.push_back(at);
  }
  std::vector<void *> buffers;
  for (size_t i = 0; i < inputs.size(); ++i)
    buffers.push_back(memory[i].data());
  for (size_t at : outputAt)
    buffers.push_back(memory[at].data());
  int32_t code = call(buffers, parts);
  for (Memory &m : memory)
    for (size_t i = 0; i < m.bytes.size(); ++i)
      if ((i < static_cast<size_t>(m.offset) || i >= static_cast<size_t>(m.offset + m.size)) &&
          m.bytes[i] != std::byte(0xCD))
        return -1;
  outputs.clear();
  for (auto [i, type] : llvm::enumerate(outputs_)) {
    HostTensor result = HostTensor::of(type);
    if (!result.bytes.empty())
      std::memcpy(result.bytes.data(), memory[outputAt[i]].data(), result.bytes.size());
    outputs.push_back(std::move(result));
  }
  return code;
}

} // namespace weft::compiler
