#include "compiler/schedule/TimedKernel.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "compiler/codegen/Choices.h"
#include "compiler/link/KernelCompiler.h"
#include "compiler/plan/KernelStructure.h"
#include "dialects/plan/ir/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "runtime/core/alignment.h"
#include "runtime/core/status.h"

namespace weft::compiler {

using namespace mlir;

namespace {

constexpr size_t kAlignment = runtime::kBufferAlignment;

char *aligned(std::vector<char> &bytes) {
  auto address = reinterpret_cast<uintptr_t>(bytes.data());
  return bytes.data() + (kAlignment - address % kAlignment) % kAlignment;
}

// Numbers from 0.5 to 1 in any float: the exponent of 0.5, and some bits behind it.
void fill(void *memory, Type element, int64_t bytes) {
  std::memset(memory, 0, static_cast<size_t>(bytes));
  auto floating = dyn_cast<FloatType>(element);
  if (!floating)
    return;
  APInt half = APFloat(floating.getFloatSemantics(), "0.5").bitcastToAPInt();
  int64_t width = floating.getWidth() / 8, mantissa = floating.getFPMantissaWidth() - 1;
  uint64_t state = 1;
  for (int64_t at = 0; at + width <= bytes; at += width) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    uint64_t bits = half.getZExtValue() | ((state >> 12) & ((uint64_t(1) << mantissa) - 1));
    std::memcpy(static_cast<char *>(memory) + at, &bits, static_cast<size_t>(width));
  }
}

} // namespace

void KernelMemory::Free::operator()(void *memory) const {
  std::free(memory);
}

int64_t KernelMemory::bytesOf(ir::FusionOp fusion) {
  int64_t bytes = 0;
  for (TypeRange types :
       {TypeRange(fusion->getOperandTypes()), TypeRange(fusion->getResultTypes())})
    for (Type type : types)
      bytes += plan::byteSize(cast<RankedTensorType>(type)).value_or(0);
  return bytes;
}

KernelMemory::KernelMemory(ir::FusionOp fusion) : inputs_(fusion->getNumOperands()) {
  auto add = [&](Type given) {
    auto type = cast<RankedTensorType>(given);
    int64_t bytes = plan::byteSize(type).value_or(0);
    size_t padded = (static_cast<size_t>(bytes) / kAlignment + 2) * kAlignment;
    memory_.emplace_back(std::aligned_alloc(kAlignment, padded));
    bytes_.push_back(bytes);
    fill(memory_.back().get(), type.getElementType(), bytes);
  };
  for (Type type : fusion->getOperandTypes())
    add(type);
  for (Type type : fusion->getResultTypes())
    add(type);
}

std::vector<void *> KernelMemory::buffers() const {
  std::vector<void *> all;
  for (const auto &one : memory_)
    all.push_back(one.get());
  return all;
}

std::vector<char> KernelMemory::results() const {
  std::vector<char> all;
  for (size_t i = inputs_; i < memory_.size(); ++i) {
    const char *from = static_cast<const char *>(memory_[i].get());
    all.insert(all.end(), from, from + bytes_[i]);
  }
  return all;
}

void KernelMemory::clearResults() {
  for (size_t i = inputs_; i < memory_.size(); ++i)
    std::memset(memory_[i].get(), 0, static_cast<size_t>(bytes_[i]));
}

absl::StatusOr<TimedKernel> TimedKernel::make(ir::FusionOp fusion, ArrayRef<ScheduleChoice> pins) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(fusion.getLoc());
  OpBuilder builder = OpBuilder::atBlockBegin(module->getBody());
  plan::KernelOp kernel = createKernel(builder, fusion, 0);
  for (auto inside : kernel.getBody().front().getOps<ir::FusionOp>())
    pin(inside, scheduleAttr(fusion.getContext(), pins));
  CompileOptions options;
  options.compileThreads = 1;
  std::vector<std::shared_ptr<const CompiledKernel>> made;
  auto infos = KernelCompiler::instance().compile(kernel, hostKernelMaker(TargetInfo::host()),
                                                  options, "", made);
  if (!infos[0].ok())
    return infos[0].status();
  TimedKernel timed;
  timed.info_ = *infos[0];
  SmallVector<std::string> symbols = {timed.info_.symbol};
  if (!timed.info_.finish.empty())
    symbols.push_back(timed.info_.finish);
  auto object = std::make_shared<const std::string>(made[0]->object);
  WEFT_ASSIGN_OR_RETURN(timed.code_, JitCode::link(object, symbols));
  auto find = [&](const std::string &symbol) {
    return reinterpret_cast<weft_kernel>(timed.code_->lookup(symbol));
  };
  timed.body_ = find(timed.info_.symbol);
  if (symbols.size() > 1)
    timed.finish_ = find(timed.info_.finish);
  timed.partials_.resize(static_cast<size_t>(timed.info_.partialsBytes) + 2 * kAlignment);
  timed.scratch_.resize(static_cast<size_t>(timed.info_.threadScratchBytes) + 2 * kAlignment);
  return timed;
}

absl::Status TimedKernel::run(KernelMemory &memory) {
  std::vector<void *> buffers = memory.buffers();
  if (info_.partialsBytes)
    buffers.push_back(aligned(partials_));
  weft_kernel_env env{sizeof(weft_kernel_env), 0, aligned(scratch_)};
  SmallVector<int64_t> ints = info_.ints();
  int32_t status = WEFT_KERNEL_OK;
  if (info_.count > 0)
    status = body_(&env, buffers.data(), ints.data(), nullptr, 0, info_.count);
  if (finish_ && status == WEFT_KERNEL_OK)
    status = finish_(&env, buffers.data(), ints.data(), nullptr, 0, info_.count);
  return status == WEFT_KERNEL_OK ? absl::OkStatus()
                                  : absl::OutOfRangeError("an index is out of range");
}

double TimedKernel::time(KernelMemory &memory, double nanoseconds) {
  using Clock = std::chrono::steady_clock;
  auto since = [](Clock::time_point start) {
    return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  };
  double least = 0;
  auto start = Clock::now();
  do {
    auto one = Clock::now();
    (void)run(memory);
    double took = since(one);
    least = least == 0 ? took : std::min(least, took);
  } while (since(start) < nanoseconds);
  return least;
}

} // namespace weft::compiler
