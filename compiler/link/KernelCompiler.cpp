#include "compiler/link/KernelCompiler.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "compiler/backend/ContextPool.h"
#include "compiler/codegen/Choices.h"
#include "compiler/codegen/KernelPasses.h"
#include "compiler/link/KernelDump.h"
#include "compiler/link/Limits.h"
#include "compiler/plan/KernelStructure.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/SizeNames.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "runtime/core/caches.h"
#include "runtime/core/status.h"
#include "runtime/profile/profile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// One kernel on its way from the caller's context to a worker's: its name and the bytes of a module
// that holds the fusion, without locations, so that equal fusions have equal bytes.
struct Job {
  std::string name;
  std::string suffix;
  std::string bytecode;
  Operation *source;
};

Job makeJob(plan::KernelOp kernel) {
  MLIRContext *context = kernel.getContext();
  Location unknown = UnknownLoc::get(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(unknown);
  auto copy = cast<plan::KernelOp>(kernel->clone());
  module->getBody()->push_back(copy);
  copy.setSymName("kernel");
  module->walk([&](Operation *op) {
    op->setLoc(unknown);
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        argument.setLoc(unknown);
  });
  Job job{kernel.getSymName().str(), "kernel", "", kernel};
  for (auto fusion : copy.getBody().front().getOps<ir::FusionOp>())
    job.suffix = kernelNameSuffix(fusion);
  llvm::raw_string_ostream stream(job.bytecode);
  (void)writeBytecodeToFile(*module, stream);
  return job;
}

void prepareForKernels(MLIRContext &context) {
  context.loadDialect<ir::WeftDialect, plan::PlanDialect>();
  registerCodegenDialects(context);
  // Why a kernel cannot be made is a sentence for explain, not an op.
  context.printOpOnDiagnostic(false);
}

absl::StatusOr<std::shared_ptr<const CompiledKernel>>
compileJob(const Job &job, MLIRContext &context, const KernelMaker &maker, bool verify,
           const KernelDump &dump) {
  ir::DiagnosticCollector diagnostics(&context);
  auto fail = [&](const absl::Status &status) {
    return absl::Status(status.code(), diagnostics.failure(std::string(status.message())));
  };

  ParserConfig config(&context, /*verifyAfterParse=*/false);
  auto module = parseSourceString<ModuleOp>(job.bytecode, config);
  ir::FusionOp fusion;
  if (module)
    module->walk([&](ir::FusionOp op) { fusion = op; });
  if (!fusion)
    return fail(absl::InternalError("its fusion was lost on the way to codegen"));

  CodegenOptions options;
  options.verify = verify;
  options.dump = dump.hook();
  std::vector<std::string> remarks;
  options.remarks = &remarks;
  // The symbol follows from what the kernel computes, so that the same code has the same name in
  // every program and profile.
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(llvm::arrayRefFromStringRef(job.bytecode));
  std::string symbol =
      "weft" + job.suffix + "_" + llvm::utohexstr(hash.low64, /*LowerCase=*/true, 16);
  absl::StatusOr<CompiledKernel> made = maker.make(fusion, symbol, options);
  if (!made.ok())
    return fail(made.status());
  made->info.remarks = std::move(remarks);
  return std::make_shared<CompiledKernel>(*std::move(made));
}

} // namespace

struct KernelCompiler::Impl {
  using Result = std::shared_ptr<const CompiledKernel>;

  std::mutex mutex;
  std::unordered_map<std::string, Result> cache;
  int64_t cachedBytes = 0;
  ContextPool contexts{kMaxIdleContexts, kMaxKernelsPerContext, prepareForKernels};

  Result find(const std::string &key) {
    std::lock_guard<std::mutex> lock(mutex);
    auto it = cache.find(key);
    return it == cache.end() ? nullptr : it->second;
  }

  runtime::CacheUse kernelUse() {
    std::lock_guard<std::mutex> lock(mutex);
    return {int64_t(cache.size()), cachedBytes, -1, kMaxKernelCacheBytes};
  }

  void keep(const std::string &key, Result kernel) {
    std::lock_guard<std::mutex> lock(mutex);
    int64_t bytes = int64_t(key.size() + kernel->object.size());
    if (cachedBytes + bytes > kMaxKernelCacheBytes) {
      cache.clear();
      cachedBytes = 0;
    }
    if (cache.emplace(key, std::move(kernel)).second)
      cachedBytes += bytes;
  }
};

KernelMaker hostKernelMaker(const TargetInfo &target) {
  auto make = [target](ir::FusionOp fusion, StringRef symbol,
                       const CodegenOptions &options) -> absl::StatusOr<CompiledKernel> {
    OwningOpRef<ModuleOp> code = ModuleOp::create(UnknownLoc::get(fusion.getContext()));
    FailureOr<KernelInfo> info = buildKernel(fusion, symbol, *code, target, options);
    if (failed(info))
      return absl::InternalError("codegen failed");
    WEFT_ASSIGN_OR_RETURN(std::string object, emitObject(*code, target, options));
    return CompiledKernel{*info, std::move(object)};
  };
  return {.key = target.key(), .prepare = nullptr, .make = make};
}

static const runtime::RegisteredCache kernels("kernels", "all go when the next is beyond the bound",
                                              [] { return KernelCompiler::instance().use(); });
static const runtime::RegisteredCache
    contexts("codegen contexts",
             "each after so many kernels: a context never frees what it has seen",
             [] { return KernelCompiler::instance().contextUse(); });

KernelCompiler::KernelCompiler() : impl_(std::make_unique<Impl>()) {}
KernelCompiler::~KernelCompiler() = default;

KernelCompiler &KernelCompiler::instance() {
  static KernelCompiler *compiler = new KernelCompiler();
  return *compiler;
}

runtime::CacheUse KernelCompiler::use() const {
  return impl_->kernelUse();
}

runtime::CacheUse KernelCompiler::contextUse() const {
  return impl_->contexts.use();
}

std::vector<absl::StatusOr<KernelInfo>>
KernelCompiler::compile(ArrayRef<plan::KernelOp> kernels, const KernelMaker &maker,
                        const CompileOptions &options, StringRef dumpFolder,
                        std::vector<std::shared_ptr<const CompiledKernel>> &made) {
  std::vector<Job> jobs;
  std::vector<std::string> keys;
  std::vector<Impl::Result> results(kernels.size());
  std::vector<size_t> missing;
  uint64_t passes = registeredKernelPassesGeneration();
  for (plan::KernelOp kernel : kernels) {
    jobs.push_back(makeJob(kernel));
    keys.push_back(maker.key + (options.math == MathMode::Fast ? "|fast|" : "||") +
                   (passes ? std::to_string(passes) + "|" : "") + jobs.back().bytecode);
    // Dumps are made by compiling: what is cached has no stages left.
    if (dumpFolder.empty())
      results[jobs.size() - 1] = impl_->find(keys.back());
    if (!results[jobs.size() - 1])
      missing.push_back(jobs.size() - 1);
  }
  for (const Job &job : jobs)
    KernelDump(dumpFolder, job.name, maker.assembly).write(job.source);

  std::vector<absl::Status> failures(kernels.size());
  std::atomic<size_t> next{0};
  auto work = [&] {
    std::unique_ptr<ContextPool::Context> worker;
    for (size_t i = next++; i < missing.size(); i = next++) {
      if (!worker) {
        worker = impl_->contexts.take();
        if (maker.prepare)
          maker.prepare(worker->context);
      }
      size_t k = missing[i];
      runtime::profile::Span span(
          [&] { return runtime::profile::Label{runtime::profile::Kind::kCodegen, jobs[k].name}; });
      auto compiled = compileJob(jobs[k], worker->context, maker, options.verifyEachPhase,
                                 KernelDump(dumpFolder, jobs[k].name, maker.assembly));
      ++worker->uses;
      if (compiled.ok()) {
        results[k] = *compiled;
        // A pass that was registered meanwhile may have run.
        if (passes == registeredKernelPassesGeneration())
          impl_->keep(keys[k], results[k]);
      } else {
        failures[k] = compiled.status();
      }
      if (impl_->contexts.isUsedUp(*worker))
        worker.reset();
    }
    if (worker)
      impl_->contexts.giveBack(std::move(worker));
  };
  size_t threads = options.compileThreads > 0 ? options.compileThreads
                                              : std::max(1u, std::thread::hardware_concurrency());
  threads = std::min(threads, missing.size());
  std::vector<std::thread> others;
  for (size_t t = 1; t < threads; ++t)
    others.emplace_back(work);
  work();
  for (std::thread &thread : others)
    thread.join();

  std::vector<absl::StatusOr<KernelInfo>> infos;
  for (auto [result, failure] : llvm::zip(results, failures)) {
    if (result) {
      infos.push_back(result->info);
      made.push_back(std::move(result));
    } else {
      infos.push_back(std::move(failure));
    }
  }
  return infos;
}

void attachKernelInfo(plan::KernelOp kernel, const KernelInfo &info) {
  Builder builder(kernel.getContext());
  kernel.setSymbol(info.symbol);
  if (!info.finish.empty())
    kernel.setFinish(info.finish);
  kernel.setCount(info.count);
  kernel.setGrain(std::max<int64_t>(1, info.grain));
  kernel.setScratch(info.threadScratchBytes);
  kernel.setPartials(info.partialsBytes);
  ir::Dims sizes;
  for (const KernelInfo::Size &size : info.sizes)
    sizes.push_back(ir::namedDim(builder.getStringAttr(size.name), size.largest));
  if (!sizes.empty())
    kernel->setAttr(kSizedAttr, TypeAttr::get(ir::tensorOf(sizes, builder.getI1Type())));
  SmallVector<int64_t> pairs;
  for (auto [output, input] : info.inPlace)
    pairs.append({output, input});
  kernel.setInPlace(pairs);
  kernel.setFlopsAttr(builder.getF64FloatAttr(info.flops));
  kernel.setBytesAttr(builder.getF64FloatAttr(info.bytes));
  if (!info.schedule.empty())
    kernel->setAttr(kChosenAttr, scheduleAttr(kernel.getContext(), info.schedule));
}

} // namespace weft::compiler
