#include "backends/cuda/compile/Simulator.h"

#include <ucontext.h>

#include <utility>

#include "backends/cuda/compile/RoundToBFloat16.h"
#include "compiler/codegen/Codegen.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/MemoryBuffer.h"
#include "runtime/core/float16.h"

namespace weft::backends::cuda {

using namespace mlir;

namespace {

constexpr int kWarpSize = 32;
constexpr size_t kStackBytes = 128 << 10;

// Where a stack was left. The first time is entered by ucontext; its swaps would ask the system for
// the mask of signals, each time.
struct Place {
  void *words[5]; // as __builtin_setjmp wants them
};

[[gnu::noinline]] void leave(Place &from, Place &to) {
  if (__builtin_setjmp(from.words) == 0)
    __builtin_longjmp(to.words, 1);
}

struct Thread {
  enum class State { kReady, kBarrier, kShuffle, kDone };
  Place place;
  bool started = false; // its stack waits at `place`, for the next block once it is done
  std::vector<char> stack;
  State state = State::kReady;
  int32_t index = 0;
  int32_t value = 0, distance = 0;
};

// The block that runs now.
struct Block {
  void (*entry)(void *const *) = nullptr;
  void *const *arguments = nullptr;
  int32_t index = 0;
  Place scheduler;
  std::vector<Thread> threads;
  Thread *current = nullptr;

  void wait(Thread::State state) {
    Thread *self = current;
    self->state = state;
    leave(self->place, scheduler);
  }
  std::string run(bool reversed);

private:
  void resume(Thread &thread);
  std::string runThreads(bool reversed);
};

Block *running = nullptr;

void threadMain() {
  for (;;) {
    running->entry(running->arguments);
    running->wait(Thread::State::kDone);
  }
}

[[gnu::noinline]] void start(Thread &thread, Place &from) {
  if (__builtin_setjmp(from.words) != 0)
    return;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = thread.stack.data();
  context.uc_stack.ss_size = thread.stack.size();
  context.uc_link = nullptr;
  makecontext(&context, threadMain, 0);
  setcontext(&context);
}

void Block::resume(Thread &thread) {
  current = &thread;
  if (std::exchange(thread.started, true))
    leave(scheduler, thread.place);
  else
    start(thread, scheduler);
}

std::string Block::run(bool reversed) {
  for (Thread &thread : threads)
    thread.state = Thread::State::kReady;
  std::string wrong = runThreads(reversed);
  if (!wrong.empty())
    for (Thread &thread : threads)
      thread.started = false; // it is somewhere inside the kernel
  return wrong;
}

std::string Block::runThreads(bool reversed) {
  int32_t count = threads.size();
  auto all = [&](int32_t from, int32_t to, Thread::State state) {
    for (int32_t i = from; i < to; ++i)
      if (threads[i].state != state)
        return false;
    return true;
  };
  while (!all(0, count, Thread::State::kDone)) {
    bool progress = false;
    for (int32_t k = 0; k < count; ++k) {
      Thread &thread = threads[reversed ? count - 1 - k : k];
      if (thread.state != Thread::State::kReady)
        continue;
      resume(thread);
      progress = true;
    }
    if (all(0, count, Thread::State::kBarrier)) {
      for (Thread &thread : threads)
        thread.state = Thread::State::kReady;
      progress = true;
    }
    for (int32_t warp = 0; warp < count; warp += kWarpSize) {
      if (!all(warp, warp + kWarpSize, Thread::State::kShuffle))
        continue;
      int32_t values[kWarpSize];
      for (int32_t i = 0; i < kWarpSize; ++i)
        values[i] = threads[warp + i].value;
      for (int32_t i = 0; i < kWarpSize; ++i) {
        if (threads[warp + i].distance != threads[warp].distance)
          return "the threads of a warp shuffle over different distances";
        threads[warp + i].value = values[i ^ threads[warp + i].distance];
        threads[warp + i].state = Thread::State::kReady;
      }
      progress = true;
    }
    if (!progress)
      return "some threads of a block or warp wait where others never come";
  }
  return "";
}

extern "C" int32_t weft_simulated_thread() {
  return running->current->index;
}
extern "C" int32_t weft_simulated_block() {
  return running->index;
}
extern "C" void weft_simulated_barrier() {
  running->wait(Thread::State::kBarrier);
}
extern "C" int32_t weft_simulated_shuffle(int32_t value, int32_t distance) {
  Thread *self = running->current;
  self->value = value;
  self->distance = distance;
  running->wait(Thread::State::kShuffle);
  return self->value;
}
// As PTX says of kRoundPair: NaN is 0x7fff.
extern "C" int32_t weft_simulated_round_pair(float low, float high) {
  auto half = [](float x) -> uint32_t {
    return x == x ? float_to_bfloat16(x) : 0x7fff;
  };
  return static_cast<int32_t>(half(high) << 16 | half(low));
}

// Calls in place of what only a GPU has, and functions of one signature around the entries.
void lowerForHost(ModuleOp module, ArrayRef<KernelEntry> entries) {
  OpBuilder b(module.getContext());
  Location loc = module.getLoc();
  auto i32 = b.getI32Type();
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  b.setInsertionPointToStart(module.getBody());
  auto declare = [&](StringRef name, Type result, ArrayRef<Type> arguments) {
    return LLVM::LLVMFuncOp::create(b, loc, name, LLVM::LLVMFunctionType::get(result, arguments));
  };
  auto nothing = LLVM::LLVMVoidType::get(b.getContext());
  auto thread = declare("weft_simulated_thread", i32, {}),
       block = declare("weft_simulated_block", i32, {});
  auto barrier = declare("weft_simulated_barrier", nothing, {}),
       shuffle = declare("weft_simulated_shuffle", i32, {i32, i32}),
       roundPair = declare("weft_simulated_round_pair", i32, {b.getF32Type(), b.getF32Type()});
  SmallVector<Operation *> replaced;
  module.walk([&](Operation *op) {
    b.setInsertionPoint(op);
    LLVM::CallOp call;
    if (isa<NVVM::ThreadIdXOp>(op))
      call = LLVM::CallOp::create(b, loc, thread, ValueRange{});
    else if (isa<NVVM::BlockIdXOp>(op))
      call = LLVM::CallOp::create(b, loc, block, ValueRange{});
    else if (isa<NVVM::Barrier0Op>(op))
      call = LLVM::CallOp::create(b, loc, barrier, ValueRange{});
    else if (auto shfl = dyn_cast<NVVM::ShflOp>(op))
      call = LLVM::CallOp::create(b, loc, shuffle, ValueRange{shfl.getVal(), shfl.getOffset()});
    else if (auto text = dyn_cast<LLVM::InlineAsmOp>(op); text && text.getAsmString() == kRoundPair)
      call = LLVM::CallOp::create(b, loc, roundPair, text.getOperands());
    else
      return;
    op->replaceAllUsesWith(call);
    replaced.push_back(op);
  });
  for (Operation *op : replaced)
    op->erase();
  for (const KernelEntry &entry : entries) {
    auto kernel = module.lookupSymbol<LLVM::LLVMFuncOp>(entry.symbol);
    kernel->removeAttr(NVVM::NVVMDialect::getKernelFuncAttrName());
    kernel->removeAttr(NVVM::NVVMDialect::getReqntidAttrName());
    b.setInsertionPointToEnd(module.getBody());
    auto outer = declare(entry.symbol + "_simulated", nothing, {pointer});
    b.setInsertionPointToStart(outer.addEntryBlock(b));
    SmallVector<Value> arguments;
    for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
      Value at = LLVM::GEPOp::create(b, loc, pointer, pointer, outer.getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
      arguments.push_back(
          LLVM::AddrSpaceCastOp::create(b, loc, type, LLVM::LoadOp::create(b, loc, pointer, at)));
    }
    LLVM::CallOp::create(b, loc, kernel, arguments);
    LLVM::ReturnOp::create(b, loc, ValueRange{});
  }
}

} // namespace

Simulator::~Simulator() = default;

std::unique_ptr<Simulator> Simulator::create(ModuleOp module, ArrayRef<KernelEntry> entries,
                                             std::string &error) {
  lowerForHost(module, entries);
  auto object = compiler::emitObject(module, compiler::TargetInfo::host());
  if (!object.ok()) {
    error = std::string(object.status().message());
    return nullptr;
  }
  auto fail = [&](llvm::Error e) {
    error = llvm::toString(std::move(e));
    return nullptr;
  };
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return fail(jit.takeError());
  auto symbol = [](auto *function) {
    return llvm::orc::ExecutorSymbolDef(llvm::orc::ExecutorAddr::fromPtr(function),
                                        llvm::JITSymbolFlags::Callable);
  };
  llvm::orc::SymbolMap symbols{
      {(*jit)->mangleAndIntern("weft_simulated_thread"), symbol(weft_simulated_thread)},
      {(*jit)->mangleAndIntern("weft_simulated_block"), symbol(weft_simulated_block)},
      {(*jit)->mangleAndIntern("weft_simulated_barrier"), symbol(weft_simulated_barrier)},
      {(*jit)->mangleAndIntern("weft_simulated_shuffle"), symbol(weft_simulated_shuffle)},
      {(*jit)->mangleAndIntern("weft_simulated_round_pair"), symbol(weft_simulated_round_pair)}};
  if (llvm::Error e =
          (*jit)->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))))
    return fail(std::move(e));
  if (llvm::Error e =
          (*jit)->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(*object, "simulated")))
    return fail(std::move(e));
  std::unique_ptr<Simulator> result(new Simulator());
  result->jit_ = std::move(*jit);
  result->entries_.assign(entries.begin(), entries.end());
  return result;
}

std::string Simulator::launch(const std::string &symbol, ArrayRef<void *> arguments,
                              bool reversed) {
  auto entry = llvm::find_if(entries_, [&](const KernelEntry &e) { return e.symbol == symbol; });
  if (entry == entries_.end())
    return "there is no kernel " + symbol;
  auto address = jit_->lookup(symbol + "_simulated");
  if (!address)
    return llvm::toString(address.takeError());
  static Block block; // its stacks serve all launches
  block.entry = address->toPtr<void (*)(void *const *)>();
  block.arguments = arguments.data();
  block.threads.resize(entry->threads);
  for (auto [i, thread] : llvm::enumerate(block.threads)) {
    thread.index = i;
    thread.stack.resize(kStackBytes);
  }
  running = &block;
  for (int64_t k = 0; k < entry->blocks; ++k) {
    block.index = reversed ? entry->blocks - 1 - k : k;
    if (std::string wrong = block.run(reversed); !wrong.empty())
      return symbol + ": " + wrong;
  }
  return "";
}

} // namespace weft::backends::cuda
