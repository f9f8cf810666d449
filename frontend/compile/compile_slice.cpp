#include "frontend/compile/compile_slice.h"

#include <chrono>
#include <map>
#include <mutex>

#include "compiler/backend/CallBackend.h"
#include "compiler/backend/ContextPool.h"
#include "dialects/weft/ir/DiagnosticCollector.h"
#include "dialects/weft/ir/Weft.h"
#include "frontend/compile/disk_cache.h"
#include "frontend/compile/symbolic_module.h"
#include "mlir/Parser/Parser.h"
#include "runtime/core/caches.h"
#include "runtime/core/ends.h"
#include "runtime/core/status.h"
#include "runtime/executable/executable.h"
#include "runtime/profile/profile.h"

namespace weft::recorder {
namespace {

using Clock = std::chrono::steady_clock;

// By backend. Backends stay registered.
class SliceContexts {
public:
  static SliceContexts &instance() {
    static auto *contexts = new SliceContexts;
    return *contexts;
  }
  compiler::ContextPool &of(compiler::Backend &backend) {
    std::lock_guard lock(mutex_);
    auto fill = [&backend](mlir::MLIRContext &context) {
      mlir::DialectRegistry registry;
      registry.insert<ir::WeftDialect>();
      backend.registerDialects(registry);
      context.appendDialectRegistry(registry);
      context.loadAllAvailableDialects();
    };
    return pools_
        .try_emplace(&backend, compiler::kMostIdleContexts, compiler::kMostPrograms, fill)
        .first->second;
  }
  runtime::CacheUse use() {
    std::lock_guard lock(mutex_);
    runtime::CacheUse all{0, -1, 0, -1};
    for (const auto &[backend, pool] : pools_) {
      runtime::CacheUse one = pool.use();
      all.entries += one.entries;
      all.max_entries += one.max_entries;
    }
    return all;
  }

private:
  std::mutex mutex_;
  std::map<compiler::Backend *, compiler::ContextPool> pools_;
};

const runtime::RegisteredCache
    contexts("compile contexts",
             "each after so many programs, or a large one: a context never frees what it has seen",
             [] { return SliceContexts::instance().use(); });

absl::StatusOr<std::shared_ptr<CompiledProgram>>
compile_in(mlir::MLIRContext &context, const CompileRequest &request, compiler::Backend &backend) {
  ir::DiagnosticCollector diagnostics(&context);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(
      request.bytecode, mlir::ParserConfig(&context, /*verifyAfterParse=*/false));
  if (!module)
    return absl::InternalError(diagnostics.failure("the slice cannot be read back"));
  if (request.symbolic)
    WEFT_RETURN_IF_ERROR(make_symbolic(*module, request.symbolic->general,
                                       request.symbolic->positions,
                                       /*writes_rows=*/backend.device() == "cpu"));
  auto program = std::make_shared<CompiledProgram>();
  auto executable =
      compiler::compileBy(backend, *module, compile_options(request.config), program->report.get());
  if (!executable.ok())
    return absl::Status(executable.status().code(),
                        diagnostics.added(std::string(executable.status().message())));
  program->executable = *std::move(executable);
  return program;
}

absl::StatusOr<std::shared_ptr<CompiledProgram>> compile(const CompileRequest &request,
                                                         compiler::Backend &backend) {
  compiler::ContextPool &pool = SliceContexts::instance().of(backend);
  std::unique_ptr<compiler::ContextPool::Context> context = pool.take();
  auto program = compile_in(context->context, request, backend);
  ++context->uses;
  // MLIR keeps caches for each thread, which go with it: made after them, this goes before.
  thread_local runtime::EndOfThread compiled;
  [[maybe_unused]] runtime::EndOfThread *made = &compiled;
  // Nothing is known of a context that an exception has left.
  bool is_whole =
      !absl::IsInternal(program.status()) && !absl::IsResourceExhausted(program.status());
  if (is_whole && request.bytecode.size() <= compiler::kMostBytecode)
    pool.giveBack(std::move(context));
  return program;
}

absl::StatusOr<CompileOutcome> load_or_compile(const CompileRequest &request) {
  if (const char *why = runtime::why_not_compute())
    return absl::FailedPreconditionError(why);
  auto start = Clock::now();
  using runtime::profile::Kind;
  runtime::profile::Span span(Kind::kFind, "load or compile");
  WEFT_ASSIGN_OR_RETURN(compiler::Backend * found, compiler::findBackend(request.config.backend));
  compiler::Backend &backend = *found;
  CompileOutcome outcome;
  DiskCache disk(request.config, backend);
  outcome.disk_cache = disk.why_off();
  const bool cached = outcome.disk_cache.empty();
  std::string key;
  if (cached) {
    key = disk.key(request.symbolic ? request.symbolic->content + request.symbolic->general.text()
                                    : request.content);
    runtime::profile::Span loading(Kind::kCache, "load from the disk cache");
    DiskCache::Lookup lookup = disk.load(key);
    outcome.corrupt = lookup.corrupt;
    outcome.program = std::move(lookup.program);
  }
  outcome.from = outcome.program ? CacheOutcome::kDiskHit : CacheOutcome::kCompiled;
  if (!outcome.program) {
    runtime::profile::Span compiling(Kind::kCompile, "compile");
    WEFT_ASSIGN_OR_RETURN(outcome.program, compile(request, backend));
    outcome.program->check_places = request.check_places;
    // Code and constants, with what loading them costs beside.
    constexpr int64_t kOverheadBytes = 16 << 10;
    const compiler::CompileReport &report = *outcome.program->report;
    outcome.program->bytes = kOverheadBytes + report.codeBytes + report.plan.constantBytes;
  }
  outcome.program->backend = backend.name().str();
  // Of a program from the disk, its file has them.
  if (compiler::PlanReport &plan = outcome.program->report->plan; plan.peakParts.empty()) {
    const runtime::MemoryReport &memory = outcome.program->executable->memory_report();
    for (const runtime::PeakHolder &holder : memory.peak_holders)
      plan.peakParts.push_back({holder.bytes, holder.what, holder.line, holder.module});
    plan.liveBytes = memory.live_bytes;
  }
  if (request.symbolic && !request.symbolic->general.sizes.empty()) {
    WEFT_ASSIGN_OR_RETURN(outcome.sized, at_sizes(*outcome.program, request.symbolic->general,
                                                  request.symbolic->sizes));
  }
  if (cached && outcome.from == CacheOutcome::kCompiled) {
    runtime::profile::Span storing(Kind::kCache, "store in the disk cache");
    if (absl::Status stored = disk.store(key, *outcome.program); !stored.ok())
      outcome.disk_cache = "off: " + std::string(stored.message());
  }
  outcome.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  return outcome;
}

} // namespace

compiler::CompileOptions compile_options(const Config &config) {
  compiler::CompileOptions options;
  options.dumpDir = config.dump_dir;
  options.prepare = config.prepare;
  options.memoryLimit = config.memory_limit;
  options.memoryFiles = may_use_files(config);
  options.schedules = cache_folder(config);
  options.tuneSeconds = config.tune ? double(config.tune_seconds) : 0;
  options.math = static_cast<compiler::MathMode>(config.math); // the same in the same order
  return options;
}

absl::StatusOr<std::shared_ptr<CompiledProgram>> at_sizes(const CompiledProgram &program,
                                                          const runtime::Sizes &sizes) {
  auto sized = std::make_shared<CompiledProgram>(program);
  WEFT_ASSIGN_OR_RETURN(sized->executable,
                        compiler::atSizes(program.backend, *program.executable, sizes));
  return sized;
}

absl::StatusOr<std::shared_ptr<CompiledProgram>>
at_sizes(const CompiledProgram &program, const Generalization &general, const Ints &sizes) {
  runtime::Sizes named;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (general.sizes[i].is_free())
      named.emplace_back(general.sizes[i].name, sizes[i]);
  return at_sizes(program, named);
}

absl::StatusOr<CompileOutcome> compile_slice(const CompileRequest &request) {
  return compiler::callBackend(request.config.backend, "loading or compiling a program",
                               [&] { return load_or_compile(request); });
}

} // namespace weft::recorder
