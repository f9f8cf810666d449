#include "backends/cuda/compile/Simulator.h"

#include <ucontext.h>

#include <utility>

#include "backends/cuda/compile/KernelPlan.h"
#include "backends/cuda/compile/RoundToBFloat16.h"
#include "compiler/codegen/Codegen.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "runtime/core/float16.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/MemoryBuffer.h"

namespace weft::backends::cuda {

using namespace mlir;

namespace {

// What every GPU since sm_50 has.
constexpr int kWarpSize = 32;
constexpr int64_t kMostThreads = 1024, kMostBlocks = (int64_t{1} << 31) - 1,
                  kMostSharedBytes = 48 << 10;
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
  enum class State { kReady, kBarrier, kShuffle, kDone, kFailed };
  Place place;
  bool started = false; // its stack waits at `place`, for the next block once it is done
  std::vector<char> stack;
  State state = State::kReady;
  int32_t index = 0;
  int32_t value = 0, distance = 0;
  int32_t site = 0; // the barrier or shuffle where it waits
};

// The block that runs now.
struct Block {
  void (*entry)(void *const *) = nullptr;
  void *const *arguments = nullptr;
  int32_t index = 0;
  Place scheduler;
  std::vector<Thread> threads;
  Thread *current = nullptr;
  SimulatedMemory memory;

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
  memory.startBlock(index);
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
      if (thread.state == Thread::State::kFailed)
        return memory.wrong();
    }
    auto together = [&](int32_t from, int32_t to) {
      for (int32_t i = from; i < to; ++i)
        if (threads[i].site != threads[from].site)
          return false;
      return true;
    };
    if (all(0, count, Thread::State::kBarrier)) {
      if (!together(0, count))
        return "the threads of a block wait at different barriers";
      for (Thread &thread : threads)
        thread.state = Thread::State::kReady;
      memory.passBarrier();
      progress = true;
    }
    for (int32_t warp = 0; warp < count; warp += kWarpSize) {
      if (!all(warp, warp + kWarpSize, Thread::State::kShuffle))
        continue;
      if (!together(warp, warp + kWarpSize))
        return "the threads of a warp wait at different shuffles";
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
extern "C" void weft_simulated_barrier(int32_t site) {
  running->current->site = site;
  running->wait(Thread::State::kBarrier);
}
extern "C" int32_t weft_simulated_shuffle(int32_t value, int32_t distance, int32_t site) {
  Thread *self = running->current;
  self->site = site;
  self->value = value;
  self->distance = distance;
  running->wait(Thread::State::kShuffle);
  return self->value;
}
// `kind`: the alignment, four times; a store 2, shared memory 1.
extern "C" void weft_simulated_access(void *pointer, int32_t bytes, int32_t kind) {
  Access access{reinterpret_cast<uintptr_t>(pointer), bytes, kind >> 2, (kind & 2) != 0,
                (kind & 1) != 0};
  if (bytes == 0)
    return;
  if (!running->memory.see(access, static_cast<uint32_t>(running->current->index)))
    running->wait(Thread::State::kFailed);
}
// As PTX says of kRoundPair: NaN is 0x7fff.
extern "C" int32_t weft_simulated_round_pair(float low, float high) {
  auto half = [](float x) -> uint32_t {
    return x == x ? float_to_bfloat16(x) : 0x7fff;
  };
  return static_cast<int32_t>(half(high) << 16 | half(low));
}

// The functions of the simulator that code calls.
struct Callbacks {
  explicit Callbacks(ModuleOp module) : b(module.getBodyRegion()), loc(module.getLoc()) {
    Type i32 = b.getI32Type(), f32 = b.getF32Type(),
         nothing = LLVM::LLVMVoidType::get(b.getContext()),
         pointer = LLVM::LLVMPointerType::get(b.getContext());
    b.setInsertionPointToStart(module.getBody());
    thread = declare("weft_simulated_thread", i32, {});
    block = declare("weft_simulated_block", i32, {});
    barrier = declare("weft_simulated_barrier", nothing, {i32});
    shuffle = declare("weft_simulated_shuffle", i32, {i32, i32, i32});
    roundPair = declare("weft_simulated_round_pair", i32, {f32, f32});
    access = declare("weft_simulated_access", nothing, {pointer, i32, i32});
  }

  LLVM::LLVMFuncOp declare(StringRef name, Type result, ArrayRef<Type> arguments) {
    return LLVM::LLVMFuncOp::create(b, loc, name, LLVM::LLVMFunctionType::get(result, arguments));
  }
  LLVM::CallOp call(LLVM::LLVMFuncOp function, ValueRange arguments) {
    return LLVM::CallOp::create(b, loc, function, arguments);
  }
  Value constant(int64_t value) {
    return LLVM::ConstantOp::create(b, loc, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }

  OpBuilder b;
  Location loc;
  LLVM::LLVMFuncOp thread, block, barrier, shuffle, roundPair, access;
};

constexpr unsigned kSharedSpace = 3;

// The address space of an operand that leads to a GPU's memory; 0 where none does.
unsigned spaceOf(Value value) {
  auto pointer = dyn_cast<LLVM::LLVMPointerType>(value.getType());
  return pointer ? pointer.getAddressSpace() : 0;
}

// Shows what an op does in memory to the simulator, before it. False for one that touches a GPU's
// memory in a way that is not known here.
class Watch {
public:
  Watch(Callbacks &callbacks) : c_(callbacks), b_(callbacks.b) {}

  bool op(Operation *op) {
    if (auto load = dyn_cast<LLVM::LoadOp>(op))
      whole(load.getAddr(), load.getType(), load.getAlignment(), false);
    else if (auto store = dyn_cast<LLVM::StoreOp>(op))
      whole(store.getAddr(), store.getValue().getType(), store.getAlignment(), true);
    else if (auto load = dyn_cast<LLVM::MaskedLoadOp>(op))
      lanes(load.getData(), load.getType(), load.getMask(), false);
    else if (auto store = dyn_cast<LLVM::MaskedStoreOp>(op))
      lanes(store.getData(), store.getValue().getType(), store.getMask(), true);
    else
      return isPure(op) || llvm::none_of(op->getOperands(), spaceOf);
    return true;
  }

private:
  static int64_t bytesOf(Type element) {
    return (element.getIntOrFloatBitWidth() + 7) / 8;
  }
  static int64_t lanesOf(Type type) {
    auto vector = dyn_cast<VectorType>(type);
    return vector ? vector.getNumElements() : 1;
  }
  void show(Value pointer, Value bytes, int64_t alignment, bool isWrite) {
    int64_t kind = alignment << 2 | int64_t(isWrite) << 1 | (spaceOf(pointer) == kSharedSpace);
    auto plain = LLVM::LLVMPointerType::get(b_.getContext());
    c_.call(c_.access,
            {LLVM::AddrSpaceCastOp::create(b_, c_.loc, plain, pointer), bytes, c_.constant(kind)});
  }
  void whole(Value pointer, Type type, std::optional<uint64_t> alignment, bool isWrite) {
    if (spaceOf(pointer) == 0)
      return;
    int64_t unit = bytesOf(getElementTypeOrSelf(type));
    show(pointer, c_.constant(unit * lanesOf(type)), alignment.value_or(unit), isWrite);
  }
  // Each lane is an access of its own, of no bytes where the mask has it not.
  void lanes(Value pointer, Type type, Value mask, bool isWrite) {
    if (spaceOf(pointer) == 0)
      return;
    Type element = getElementTypeOrSelf(type);
    Value unit = c_.constant(bytesOf(element)), none = c_.constant(0);
    for (int64_t lane = 0; lane < lanesOf(type); ++lane) {
      Value is = LLVM::ExtractElementOp::create(b_, c_.loc, mask, c_.constant(lane)),
            at = LLVM::GEPOp::create(b_, c_.loc, pointer.getType(), element, pointer,
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(lane)});
      show(at, LLVM::SelectOp::create(b_, c_.loc, is, unit, none), bytesOf(element), isWrite);
    }
  }

  Callbacks &c_;
  OpBuilder &b_;
};

// Calls in place of what only a GPU has, and functions of one signature around the entries.
std::string lowerForHost(ModuleOp module, ArrayRef<KernelEntry> entries) {
  Callbacks callbacks(module);
  OpBuilder &b = callbacks.b;
  Location loc = callbacks.loc;
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  SmallVector<Operation *> replaced;
  int64_t sites = 0;
  std::string unknown;
  module.walk([&](Operation *op) {
    b.setInsertionPoint(op);
    LLVM::CallOp call;
    if (isa<NVVM::ThreadIdXOp>(op))
      call = callbacks.call(callbacks.thread, {});
    else if (isa<NVVM::BlockIdXOp>(op))
      call = callbacks.call(callbacks.block, {});
    else if (isa<NVVM::Barrier0Op>(op))
      call = callbacks.call(callbacks.barrier, callbacks.constant(sites++));
    else if (auto shfl = dyn_cast<NVVM::ShflOp>(op))
      call = callbacks.call(callbacks.shuffle,
                            {shfl.getVal(), shfl.getOffset(), callbacks.constant(sites++)});
    else if (auto text = dyn_cast<LLVM::InlineAsmOp>(op); text && text.getAsmString() == kRoundPair)
      call = callbacks.call(callbacks.roundPair, text.getOperands());
    else {
      if (!Watch(callbacks).op(op))
        unknown = op->getName().getStringRef();
      return;
    }
    op->replaceAllUsesWith(call);
    replaced.push_back(op);
  });
  if (!unknown.empty())
    return "the simulator does not know how " + unknown + " touches memory";
  for (Operation *op : replaced)
    op->erase();
  for (const KernelEntry &entry : entries) {
    auto kernel = module.lookupSymbol<LLVM::LLVMFuncOp>(entry.symbol);
    kernel->removeAttr(NVVM::NVVMDialect::getKernelFuncAttrName());
    kernel->removeAttr(NVVM::NVVMDialect::getReqntidAttrName());
    b.setInsertionPointToEnd(module.getBody());
    auto outer = callbacks.declare(entry.symbol + "_simulated",
                                   LLVM::LLVMVoidType::get(b.getContext()), {pointer});
    b.setInsertionPointToStart(outer.addEntryBlock(b));
    SmallVector<Value> arguments;
    for (auto [i, type] : llvm::enumerate(kernel.getArgumentTypes())) {
      Value at = LLVM::GEPOp::create(b, loc, pointer, pointer, outer.getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
      bool isPointer = isa<LLVM::LLVMPointerType>(type);
      Value value = LLVM::LoadOp::create(b, loc, isPointer ? pointer : type, at);
      arguments.push_back(isPointer ? LLVM::AddrSpaceCastOp::create(b, loc, type, value) : value);
    }
    LLVM::CallOp::create(b, loc, kernel, arguments);
    LLVM::ReturnOp::create(b, loc, ValueRange{});
  }
  return "";
}

// What no GPU takes.
std::string refusal(const KernelEntry &entry, int64_t sharedBytes) {
  if (entry.threads < 1 || entry.threads > kMostThreads || entry.threads % kWarpSize)
    return "blocks of " + std::to_string(entry.threads) +
           " threads, which are no warps or too many";
  if (entry.blocks < 0 || entry.blocks > kMostBlocks)
    return "a grid of " + std::to_string(entry.blocks) + " blocks";
  if (sharedBytes > kMostSharedBytes)
    return "blocks that share " + std::to_string(sharedBytes) + " bytes of memory";
  return "";
}

} // namespace

Simulator::~Simulator() = default;

std::unique_ptr<Simulator> Simulator::create(ModuleOp module, const GpuKernel &kernel,
                                             std::string &error) {
  std::unique_ptr<Simulator> result(new Simulator());
  result->kernel_ = kernel;
  for (const KernelEntry &entry : kernel.entries) {
    std::vector<Shared> &shared = result->shared_[entry.symbol];
    int64_t bytes = 0;
    for (auto global : module.getOps<LLVM::GlobalOp>()) {
      if (global.getAddrSpace() != kSharedSpace ||
          !global.getSymName().starts_with(entry.symbol + "_shared_"))
        continue;
      auto array = cast<LLVM::LLVMArrayType>(global.getGlobalType());
      int64_t unit = (array.getElementType().getIntOrFloatBitWidth() + 7) / 8;
      shared.push_back(
          {global.getSymName().str(), unit * static_cast<int64_t>(array.getNumElements()), unit});
      bytes += shared.back().bytes;
      global.setLinkage(LLVM::Linkage::External); // to be found
    }
    if (error = refusal(entry, bytes); !error.empty()) {
      error = entry.symbol + ": " + error;
      return nullptr;
    }
  }
  if (error = lowerForHost(module, kernel.entries); !error.empty())
    return nullptr;
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
      {(*jit)->mangleAndIntern("weft_simulated_access"), symbol(weft_simulated_access)},
      {(*jit)->mangleAndIntern("weft_simulated_round_pair"), symbol(weft_simulated_round_pair)}};
  if (llvm::Error e =
          (*jit)->getMainJITDylib().define(llvm::orc::absoluteSymbols(std::move(symbols))))
    return fail(std::move(e));
  if (llvm::Error e =
          (*jit)->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(*object, "simulated")))
    return fail(std::move(e));
  result->jit_ = std::move(*jit);
  return result;
}

std::string Simulator::findShared(const std::string &entry, std::vector<MemoryRange> &ranges) {
  for (const Shared &shared : shared_[entry]) {
    auto address = jit_->lookup(shared.symbol);
    if (!address)
      return llvm::toString(address.takeError());
    ranges.push_back({.begin = address->getValue(),
                      .bytes = shared.bytes,
                      .unit = shared.unit,
                      .isShared = true,
                      .isDefined = false,
                      .name = shared.symbol});
  }
  return "";
}

std::vector<MemoryRange> Simulator::operands(ArrayRef<void *> arguments, int64_t count,
                                             bool isFinish) const {
  std::vector<MemoryRange> ranges;
  size_t flag = kernel_.arguments.size() - 1;
  for (auto [i, argument] : llvm::enumerate(kernel_.arguments)) {
    // The finish reads what the body has left.
    ranges.push_back(
        {.begin = reinterpret_cast<uintptr_t>(arguments[i]),
         .bytes = argument.varies ? argument.bytes * count / kernel_.info.count : argument.bytes,
         .unit = argument.unit,
         .isCached = argument.isCached,
         .isWritten = !argument.isInput,
         .isDefined = argument.isInput || isFinish,
         .isFlag = i == flag,
         .name = "argument " + std::to_string(i)});
  }
  ranges[flag].name = "the flag of bad indices";
  ranges[flag - 1].name = "partial results";
  return ranges;
}

std::string Simulator::launch(const std::string &symbol, ArrayRef<void *> arguments) {
  auto entry =
      llvm::find_if(kernel_.entries, [&](const KernelEntry &e) { return e.symbol == symbol; });
  if (entry == kernel_.entries.end())
    return "there is no kernel " + symbol;
  bool varies = entry->per_block != kOneSize;
  if (arguments.size() != kernel_.arguments.size() + varies)
    return symbol + " takes another number of arguments";
  int64_t count = varies ? reinterpret_cast<intptr_t>(arguments.back()) : kernel_.info.count,
          blocks = entry->per_block > 0 ? ceilDivide(count, entry->per_block) : entry->blocks;
  if (count > kernel_.info.count || blocks > entry->blocks)
    return symbol + " is launched for more than its largest size";
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
  std::vector<MemoryRange> ranges = operands(arguments, count, entry != kernel_.entries.begin());
  std::string wrong = findShared(symbol, ranges);
  if (wrong.empty())
    wrong = block.memory.open(std::move(ranges));
  if (!wrong.empty())
    return symbol + ": " + wrong;
  running = &block;
  SimulatedMemory::Image before = block.memory.image(), after[2];
  for (bool reversed : {false, true}) {
    block.memory.set(before);
    block.memory.start();
    for (int64_t k = 0; wrong.empty() && k < blocks; ++k) {
      block.index = static_cast<int32_t>(reversed ? blocks - 1 - k : k);
      wrong = block.run(reversed);
    }
    after[reversed] = block.memory.image();
  }
  if (wrong.empty())
    wrong = block.memory.difference(after[0], after[1]);
  return wrong.empty() ? "" : symbol + ": " + wrong;
}

} // namespace weft::backends::cuda
