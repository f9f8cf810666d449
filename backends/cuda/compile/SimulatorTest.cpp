// What the simulator objects to, in kernels written for it: each does what a GPU would do wrongly,
// or only sometimes as it was meant, and a sibling that does it right passes.
#include "backends/cuda/compile/Simulator.h"

#include <array>

#include "compiler/codegen/Codegen.h"
#include "compiler/codegen/FusionText.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

namespace weft::backends::cuda {
namespace {

// What each thread does with %in and %out, 256 floats each, and %shared: %from, %to and %at are its
// elements of them, %beside that of its neighbour in %shared.
struct Kernel {
  std::string body;
  int64_t blocks = 1, threads = 64;
  int64_t sharedFloats = 64;
  bool isCached = true, isInPlace = false;
};

std::string simulate(const Kernel &kernel) {
  mlir::MLIRContext context;
  compiler::registerCodegenDialects(context);
  registerGpuDialects(context);
  std::string text = R"(
    llvm.mlir.global private @kernel_shared_0() {addr_space = 3 : i32, alignment = 16 : i64}
        : !llvm.array<FLOATS x f32> {
      %none = llvm.mlir.undef : !llvm.array<FLOATS x f32>
      llvm.return %none : !llvm.array<FLOATS x f32>
    }
    llvm.func @kernel(%in: !llvm.ptr<1>, %out: !llvm.ptr<1>, %partials: !llvm.ptr<1>,
                      %flag: !llvm.ptr<1>) {
      %t = nvvm.read.ptx.sreg.tid.x : i32
      %b = nvvm.read.ptx.sreg.ctaid.x : i32
      %c1 = llvm.mlir.constant(1 : i32) : i32
      %c64 = llvm.mlir.constant(64 : i32) : i32
      %zero = llvm.mlir.constant(0.0 : f32) : f32
      %mine = llvm.icmp "eq" %t, %c1 : i32
      %other = llvm.xor %t, %c1 : i32
      %row = llvm.mul %b, %c64 : i32
      %place = llvm.add %row, %t : i32
      %shared = llvm.mlir.addressof @kernel_shared_0 : !llvm.ptr<3>
      %at = llvm.getelementptr %shared[%t] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
      %beside = llvm.getelementptr %shared[%other] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
      %from = llvm.getelementptr %in[%place] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %to = llvm.getelementptr %out[%place] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      BODY
      llvm.return
    })";
  text = compiler::replaced(text, "FLOATS", std::to_string(kernel.sharedFloats));
  text = compiler::replaced(text, "BODY", kernel.body);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module)
    return "no module";
  GpuKernel made;
  made.entries = {{"kernel", kernel.blocks, kernel.threads}};
  alignas(16) std::array<float, 256> in{}, out{};
  float *result = kernel.isInPlace ? in.data() : out.data();
  int64_t bytes = sizeof(in);
  made.arguments = {{bytes, 4, true, kernel.isCached}, {bytes, 4}, {0}, {4, 4}};
  std::string error;
  std::unique_ptr<Simulator> simulator = Simulator::create(*module, made, error);
  if (!simulator)
    return error;
  int32_t flag = 0;
  return simulator->launch("kernel", {in.data(), result, nullptr, &flag});
}

std::string wrong(const Kernel &kernel) {
  std::string error = simulate(kernel);
  return error.substr(0, error.find(':', error.find(':') + 1));
}

constexpr const char *kCopy = R"(
  %x = llvm.load %from : !llvm.ptr<1> -> f32
  llvm.store %x, %to : f32, !llvm.ptr<1>)";

TEST(Simulator, AKernelThatIsRight) {
  EXPECT_EQ(simulate({kCopy, 4}), "");
  EXPECT_EQ(simulate({.body = kCopy, .blocks = 4, .isCached = false, .isInPlace = true}), "");
}

TEST(Simulator, MemoryOutsideOfOperands) {
  EXPECT_EQ(wrong({kCopy, 5}),
            "kernel: thread 0 of block 4 touches memory beside its operands");
}

TEST(Simulator, AVectorThatIsNotAligned) {
  auto load = [](const char *index, const char *alignment) {
    return Kernel{std::string("%i = llvm.mlir.constant(") + index + R"( : i32) : i32
      %p = llvm.getelementptr %in[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
      %v = llvm.load %p {alignment = )" + alignment + " : i64} : !llvm.ptr<1> -> vector<4xf32>"};
  };
  EXPECT_EQ(simulate(load("4", "4")), "");
  EXPECT_EQ(simulate(load("4", "16")), "");
  EXPECT_EQ(simulate(load("5", "4")), "");
  EXPECT_EQ(wrong(load("5", "16")),
            "kernel: thread 0 of block 0 touches memory that is not aligned as its instruction "
            "says");
}

TEST(Simulator, SharedMemoryWithoutABarrier) {
  auto exchange = [](const char *between) {
    return Kernel{std::string("llvm.store %zero, %at : f32, !llvm.ptr<3>\n") + between +
                  "\n%x = llvm.load %beside : !llvm.ptr<3> -> f32\n"
                  "llvm.store %x, %to : f32, !llvm.ptr<1>"};
  };
  EXPECT_EQ(simulate(exchange("nvvm.barrier0")), "");
  EXPECT_EQ(wrong(exchange("")), "kernel: thread 0 of block 0 reads what nobody wrote");
  // Of a warp as well: its threads go apart where the compiler or the GPU wants it.
  EXPECT_EQ(wrong({"llvm.store %zero, %at : f32, !llvm.ptr<3>\n"
                   "nvvm.barrier0\n"
                   "%x = llvm.load %beside : !llvm.ptr<3> -> f32\n"
                   "llvm.store %x, %at : f32, !llvm.ptr<3>"}),
            "kernel: thread 1 of block 0 reads what another thread writes");
  EXPECT_EQ(wrong({"llvm.store %zero, %at : f32, !llvm.ptr<3>\n"
                   "nvvm.barrier0\n"
                   "llvm.cond_br %mine, ^store, ^load\n"
                   "^load:\n%x = llvm.load %beside : !llvm.ptr<3> -> f32\nllvm.br ^end\n"
                   "^store:\nllvm.store %zero, %at : f32, !llvm.ptr<3>\nllvm.br ^end\n^end:"}),
            "kernel: thread 1 of block 0 writes what another thread reads");
  // The next block finds nothing of this one's.
  EXPECT_EQ(wrong({.body = "%first = llvm.icmp \"eq\" %b, %row : i32\n"
                           "llvm.cond_br %first, ^store, ^end\n"
                           "^store:\nllvm.store %zero, %at : f32, !llvm.ptr<3>\nllvm.br ^end\n"
                           "^end:\n%x = llvm.load %at : !llvm.ptr<3> -> f32",
                   .blocks = 2}),
            "kernel: thread 0 of block 1 reads what nobody wrote");
}

TEST(Simulator, WhatOtherBlocksWrite) {
  std::string same = "%i = llvm.getelementptr %out[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32\n"
                     "llvm.store %zero, %i : f32, !llvm.ptr<1>\n";
  EXPECT_EQ(simulate({same}), "");
  EXPECT_EQ(wrong({same, 2}), "kernel: thread 0 of block 1 writes what another thread writes");
  // In place: a block reads what another one has overwritten.
  EXPECT_EQ(wrong({.body = "%x = llvm.getelementptr %in[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, "
                           "f32\n%v = llvm.load %x : !llvm.ptr<1> -> f32\n"
                           "llvm.store %v, %to : f32, !llvm.ptr<1>",
                   .blocks = 2,
                   .isCached = false,
                   .isInPlace = true}),
            "kernel: threads leave something else at byte 256 of argument 1 where they run in "
            "another order; thread 63 of block 0 writes what another thread reads");
  // What it finds there may be dropped.
  EXPECT_EQ(simulate({.body = "%x = llvm.getelementptr %in[%t] : (!llvm.ptr<1>, i32) -> "
                              "!llvm.ptr<1>, f32\n%v = llvm.load %x : !llvm.ptr<1> -> f32\n"
                              "%is = llvm.icmp \"eq\" %b, %row : i32\n"
                              "%kept = llvm.select %is, %v, %zero : i1, f32\n"
                              "llvm.store %kept, %to : f32, !llvm.ptr<1>",
                      .blocks = 2,
                      .isCached = false,
                      .isInPlace = true}),
            "");
}

TEST(Simulator, ACachedOperandThatIsWritten) {
  EXPECT_EQ(simulate({.body = kCopy, .isInPlace = true}),
            "kernel: argument 1 is written where argument 0 lies, which is read through a cache "
            "that sees no writes of its launch");
}

TEST(Simulator, BarriersAndShufflesThatNotAllReach) {
  EXPECT_EQ(simulate({"llvm.cond_br %mine, ^a, ^b\n^a:\nnvvm.barrier0\nllvm.br ^b\n^b:"}),
            "kernel: some threads of a block or warp wait where others never come");
  EXPECT_EQ(simulate({"llvm.cond_br %mine, ^a, ^b\n^a:\nnvvm.barrier0\nllvm.br ^c\n"
                      "^b:\nnvvm.barrier0\nllvm.br ^c\n^c:"}),
            "kernel: the threads of a block wait at different barriers");
  std::string shuffle = "= nvvm.shfl.sync bfly %all, %t, %c1, %clamp : i32 -> i32\n";
  std::string constants = "%all = llvm.mlir.constant(-1 : i32) : i32\n"
                          "%clamp = llvm.mlir.constant(31 : i32) : i32\n";
  EXPECT_EQ(simulate({constants + "%s " + shuffle}), "");
  EXPECT_EQ(simulate({constants + "llvm.cond_br %mine, ^a, ^b\n^a:\n%s " + shuffle +
                      "llvm.br ^c\n^b:\n%u " + shuffle + "llvm.br ^c\n^c:"}),
            "kernel: the threads of a warp wait at different shuffles");
}

TEST(Simulator, BlocksThatNoGpuTakes) {
  EXPECT_EQ(simulate({.body = "", .threads = 2048}),
            "kernel: blocks of 2048 threads, which are no warps or too many");
  EXPECT_EQ(simulate({.body = "", .threads = 48}),
            "kernel: blocks of 48 threads, which are no warps or too many");
  EXPECT_EQ(simulate({.body = "", .sharedFloats = 12 << 10}), "");
  EXPECT_EQ(simulate({.body = "", .sharedFloats = (12 << 10) + 1}),
            "kernel: blocks that share 49156 bytes of memory");
  EXPECT_EQ(simulate({.body = "", .blocks = int64_t{1} << 31}),
            "kernel: a grid of 2147483648 blocks");
}

TEST(Simulator, MemoryThatItDoesNotSee) {
  EXPECT_EQ(simulate({"%v = llvm.atomicrmw fadd %to, %zero monotonic : !llvm.ptr<1>, f32"}),
            "the simulator does not know how llvm.atomicrmw touches memory");
}

} // namespace
} // namespace weft::backends::cuda
