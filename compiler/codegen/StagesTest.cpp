// What the stages of a kernel must look like: vectors where data is contiguous, masks in tails, no
// calls, no contraction.
#include "compiler/codegen/KernelTester.h"

#include "mlir/Parser/Parser.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Stages {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::unique_ptr<TestKernel> kernel;
};

std::unique_ptr<Stages> build(const std::string &text, const std::string &cpu = "") {
  auto stages = std::make_unique<Stages>();
  registerCodegenDialects(stages->context);
  stages->module = mlir::parseSourceString<mlir::ModuleOp>(text, &stages->context);
  ir::FusionOp fusion;
  if (stages->module)
    stages->module->walk([&](ir::FusionOp op) { fusion = op; });
  std::string error;
  TargetInfo target = TargetInfo::host();
  if (!cpu.empty()) {
    auto named = TargetInfo::named(cpu);
    EXPECT_TRUE(named.ok());
    target = *named;
  }
  if (fusion)
    stages->kernel = TestKernel::build(fusion, error, /*dump=*/true, target);
  EXPECT_TRUE(stages->kernel) << error;
  return stages;
}

constexpr const char *kElementwise = R"(
  func.func @main(%p: tensor<100xf32>, %q: tensor<f32>) {
    %r = weft.fusion(%a = %p : tensor<100xf32>, %b = %q : tensor<f32>) -> (tensor<100xf32>) {
      %0 = weft.broadcast %b : tensor<f32> to tensor<100xf32>
      %1 = weft.mul %a, %0 : tensor<100xf32>
      %2 = weft.add %1, %0 : tensor<100xf32>
      %3 = weft.exp %2 : tensor<100xf32>
      weft.yield %3 : tensor<100xf32>
    }
    return
  })";

TEST(Stages, ElementwiseIsVectorsAndOneMaskedTail) {
  auto stages = build(kElementwise);
  ASSERT_TRUE(stages->kernel);
  EXPECT_THAT(stages->kernel->dump("linalg"), HasSubstr("linalg.generic"));
  std::string loops = stages->kernel->dump("loops");
  EXPECT_THAT(loops, HasSubstr("vector.load"));
  EXPECT_THAT(loops, HasSubstr("vector.maskedload"));
  EXPECT_THAT(loops, HasSubstr("vector.maskedstore"));
  EXPECT_THAT(loops, HasSubstr("math.exp"));
  EXPECT_THAT(loops, Not(HasSubstr("vector.gather")));
  EXPECT_THAT(stages->kernel->dump("math"), Not(HasSubstr("math.exp")));
}

TEST(Stages, NoCallsAndNoImplicitContraction) {
  auto stages = build(kElementwise);
  ASSERT_TRUE(stages->kernel);
  std::string ll = stages->kernel->dump("ll");
  EXPECT_THAT(ll, Not(HasSubstr("@expf")));
  EXPECT_THAT(ll, Not(HasSubstr("llvm.exp")));
  // a * b + b stays a multiplication and an addition.
  EXPECT_THAT(ll, HasSubstr("fmul <16 x float>"));
  EXPECT_THAT(ll, HasSubstr("fadd <16 x float>"));
  for (const char *flag : {"fast ", "contract", "reassoc", "nnan"})
    EXPECT_THAT(ll, Not(HasSubstr(flag))) << flag;
}

TEST(Stages, TargetsChooseRegistersOnly) {
  auto avx2 = build(kElementwise, "x86-64-v3");
  ASSERT_TRUE(avx2->kernel);
  EXPECT_THAT(avx2->kernel->dump("s"), HasSubstr("ymm"));
  EXPECT_THAT(avx2->kernel->dump("s"), Not(HasSubstr("zmm")));
  EXPECT_FALSE(TargetInfo::named("no-such-cpu").ok());
}

TEST(Stages, AScalarSharesNothingAndARowOfTheSameShapeDoes) {
  auto stages = build(kElementwise);
  ASSERT_TRUE(stages->kernel);
  ASSERT_EQ(stages->kernel->info.inPlace.size(), 1u);
  EXPECT_EQ(stages->kernel->info.inPlace[0], (std::pair<int64_t, int64_t>(0, 0)));
}

// A row's reads wait for memory in its first sweep alone; sweeps of the rows before ask for them.
TEST(Stages, KernelsThatSweepRowsSeveralTimesAskForWhatComes) {
  auto rows = build(R"(
  func.func @main(%p: tensor<64x256xf32>) {
    %r = weft.fusion(%a = %p : tensor<64x256xf32>) -> (tensor<64x256xf32>) {
      %m = weft.reduce_max %a, dims = [1] : tensor<64x256xf32>
      %m1 = weft.reshape %m : tensor<64xf32> to tensor<64x1xf32>
      %m2 = weft.broadcast %m1 : tensor<64x1xf32> to tensor<64x256xf32>
      %d = weft.sub %a, %m2 : tensor<64x256xf32>
      %e = weft.exp %d : tensor<64x256xf32>
      weft.yield %e : tensor<64x256xf32>
    }
    return
  })");
  ASSERT_TRUE(rows->kernel);
  EXPECT_THAT(rows->kernel->dump("loops"), HasSubstr("read, locality<3>"));
  EXPECT_THAT(rows->kernel->dump("loops"), HasSubstr("write, locality<3>"));
  // Differences to a row's maximum are at most 0, which makes exp cheaper.
  EXPECT_THAT(rows->kernel->dump("loops"), HasSubstr("weft.nonpositive"));
  auto elementwise = build(kElementwise);
  ASSERT_TRUE(elementwise->kernel);
  EXPECT_THAT(elementwise->kernel->dump("loops"), Not(HasSubstr("memref.prefetch")));
  EXPECT_THAT(elementwise->kernel->dump("loops"), Not(HasSubstr("weft.nonpositive")));
}

void expectTilesInRegisters(const TestKernel &kernel) {
  EXPECT_EQ(kernel.info.threadScratchBytes, 0);
  std::string loops = kernel.dump("loops");
  EXPECT_THAT(loops, HasSubstr("vector.shuffle"));
  EXPECT_THAT(loops, Not(HasSubstr("vector.gather")));
}

// Tiles are transposed and stored from registers, and the next ones asked for.
TEST(Stages, TransposesStayInRegisters) {
  auto stages = build(R"(
  func.func @main(%p: tensor<64x96xf32>) {
    %r = weft.fusion(%a = %p : tensor<64x96xf32>) -> (tensor<96x64xf32>) {
      %t = weft.transpose %a, [1, 0] : tensor<64x96xf32>
      weft.yield %t : tensor<96x64xf32>
    }
    return
  })");
  ASSERT_TRUE(stages->kernel);
  expectTilesInRegisters(*stages->kernel);
  EXPECT_THAT(stages->kernel->dump("loops"), HasSubstr("memref.prefetch"));
}

// So are those of a part: an image that is turned by 90 degrees is neither gathered nor scattered.
TEST(Stages, TransposesOfPartsStayInRegisters) {
  auto stages = build(R"(
  func.func @main(%p: tensor<64x96xf32>) {
    %r = weft.fusion(%a = %p : tensor<64x96xf32>) -> (tensor<96x64xf32>) {
      %f = weft.slice %a[[0, 95] : [64, -1] : [1, -1]] : tensor<64x96xf32>
      %t = weft.transpose %f, [1, 0] : tensor<64x96xf32>
      weft.yield %t : tensor<96x64xf32>
    }
    return
  })");
  ASSERT_TRUE(stages->kernel);
  expectTilesInRegisters(*stages->kernel);
  EXPECT_THAT(stages->kernel->dump("loops"), Not(HasSubstr("vector.scatter")));
}

// Neither are sums over the pixels of an image whose channels were moved last, nor those of a few
// columns over many rows, where a lane is a chain of rows.
TEST(Stages, SumsOfTilesAreShuffled) {
  for (const char *text : {R"(
  func.func @main(%p: tensor<4x40x300xf32>) {
    %r = weft.fusion(%a = %p : tensor<4x40x300xf32>) -> (tensor<4x40xf32>) {
      %0 = weft.transpose %a, [0, 2, 1] : tensor<4x40x300xf32>
      %1 = weft.reduce_sum %0, dims = [1] : tensor<4x300x40xf32>
      weft.yield %1 : tensor<4x40xf32>
    }
    return
  })",
                           R"(
  func.func @main(%p: tensor<40000x3xf32>) {
    %r = weft.fusion(%a = %p : tensor<40000x3xf32>) -> (tensor<3xf32>) {
      %0 = weft.exp %a : tensor<40000x3xf32>
      %1 = weft.reduce_sum %0, dims = [0] : tensor<40000x3xf32>
      weft.yield %1 : tensor<3xf32>
    }
    return
  })"}) {
    auto stages = build(text);
    ASSERT_TRUE(stages->kernel);
    std::string loops = stages->kernel->dump("loops");
    EXPECT_THAT(loops, HasSubstr("vector.shuffle"));
    EXPECT_THAT(loops, Not(HasSubstr("vector.gather")));
  }
}

// Every other element of a stack is picked by a shuffle.
TEST(Stages, StacksAreShuffled) {
  auto stages = build(R"(
  func.func @main(%p: tensor<64x96x1xf32>, %q: tensor<64x96x1xf32>) {
    %r = weft.fusion(%a = %p : tensor<64x96x1xf32>, %b = %q : tensor<64x96x1xf32>) -> (tensor<64x96x2xf32>) {
      %c = weft.concat %a, %b dim = 2 : tensor<64x96x1xf32>, tensor<64x96x1xf32>
      weft.yield %c : tensor<64x96x2xf32>
    }
    return
  })");
  ASSERT_TRUE(stages->kernel);
  EXPECT_THAT(stages->kernel->dump("loops"), HasSubstr("vector.shuffle"));
  EXPECT_THAT(stages->kernel->dump("loops"), Not(HasSubstr("vector.gather")));
}

// A diagonal: each vector meets one written element at most, which is a scalar.
TEST(Stages, SparseWritesAreSelected) {
  auto stages = build(R"(
  func.func @main(%p: tensor<100xf32>) {
    %r = weft.fusion(%a = %p : tensor<100xf32>) -> (tensor<10000xf32>) {
      %c = weft.constant dense<0.0> : tensor<10000xf32>
      %t = weft.insert_slice %a into %c[[0] : [101]] : tensor<100xf32> into tensor<10000xf32>
      weft.yield %t : tensor<10000xf32>
    }
    return
  })");
  ASSERT_TRUE(stages->kernel);
  std::string loops = stages->kernel->dump("loops");
  EXPECT_THAT(loops, Not(HasSubstr("vector.gather")));
  EXPECT_THAT(loops, Not(HasSubstr("vector.maskedload")));
  std::string ll = stages->kernel->dump("ll");
  EXPECT_THAT(ll, HasSubstr("select <16 x i1>"));
  EXPECT_THAT(ll, Not(HasSubstr("phi <16 x float>")));
}

// Vectors between those of a large one are stored as they are.
TEST(Stages, FarWritesAreBranches) {
  auto stages = build(R"(
  func.func @main(%p: tensor<100xf32>) {
    %r = weft.fusion(%a = %p : tensor<100xf32>) -> (tensor<150000xf32>) {
      %c = weft.constant dense<0.0> : tensor<150000xf32>
      %t = weft.insert_slice %a into %c[[0] : [1501]] : tensor<100xf32> into tensor<150000xf32>
      weft.yield %t : tensor<150000xf32>
    }
    return
  })");
  ASSERT_TRUE(stages->kernel);
  EXPECT_THAT(stages->kernel->dump("loops"), HasSubstr("scf.if"));
}

// What only picks among numbers of bf16, or changes signs, has nothing to round.
TEST(Stages, ExactNarrowNumbersAreNotRounded) {
  auto stages = build(R"(
  func.func @main(%p: tensor<160xbf16>, %q: tensor<160xi1>) {
    %r = weft.fusion(%a = %p : tensor<160xbf16>, %c = %q : tensor<160xi1>) -> (tensor<160xbf16>) {
      %0 = weft.cast %a : tensor<160xbf16> to tensor<160xf32>
      %1 = weft.abs %0 : tensor<160xf32>
      %2 = weft.neg %1 : tensor<160xf32>
      %3 = weft.select %c, %2, %1 : tensor<160xf32>
      %4 = weft.cast %3 : tensor<160xf32> to tensor<160xbf16>
      weft.yield %4 : tensor<160xbf16>
    }
    return
  })");
  ASSERT_TRUE(stages->kernel);
  EXPECT_THAT(stages->kernel->dump("ll"), Not(HasSubstr("fcmp uno")));
}

// Vectors end where the rows of the result do; even and odd columns come from the same loads.
TEST(Stages, PoolingsReadWholeVectors) {
  auto stages = build(R"(
  func.func @main(%p: tensor<4x3x56x56xf32>) {
    %r = weft.fusion(%x = %p : tensor<4x3x56x56xf32>) -> (tensor<4x3x28x28xf32>) {
      %w = weft.windows %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, dilation = array<i64: 1, 1>} : tensor<4x3x56x56xf32>
      %s = weft.reduce_sum %w, dims = [2, 3] : tensor<4x3x2x2x28x28xf32>
      weft.yield %s : tensor<4x3x28x28xf32>
    }
    return
  })");
  ASSERT_TRUE(stages->kernel);
  EXPECT_THAT(stages->kernel->dump("loops"), Not(HasSubstr("vector.gather")));
  // Two rows of 56 elements in vectors of 16, from which both columns of the windows are picked.
  EXPECT_EQ(llvm::StringRef(stages->kernel->dump("ll")).count("= load <16 x float>"), 2u * 4);
}

TEST(Stages, RowsOfOneRunAreNoGathers) {
  auto stages = build(R"(
  func.func @main(%p: tensor<64x1000xf32>, %q: tensor<64x1xf32>, %w: tensor<1000xf32>) {
    %r = weft.fusion(%x = %p : tensor<64x1000xf32>, %y = %q : tensor<64x1xf32>, %z = %w : tensor<1000xf32>) -> (tensor<f32>) {
      %0 = weft.broadcast %y : tensor<64x1xf32> to tensor<64x1000xf32>
      %1 = weft.broadcast %z : tensor<1000xf32> to tensor<64x1000xf32>
      %2 = weft.sub %x, %0 : tensor<64x1000xf32>
      %3 = weft.mul %2, %1 : tensor<64x1000xf32>
      %4 = weft.reduce_sum %3, dims = [0, 1] : tensor<64x1000xf32>
      weft.yield %4 : tensor<f32>
    }
    return
  })");
  ASSERT_TRUE(stages->kernel);
  EXPECT_THAT(stages->kernel->dump("loops"), Not(HasSubstr("vector.gather")));
}

// So are a part of an image, and what a channel multiplies by: no lane divides for itself.
TEST(Stages, SumsOfPartsAreNoGathers) {
  for (const char *body :
       {"%0 = weft.slice %x[[0, 3, 3] : [6, 50, 62] : [1, 1, 1]] : tensor<6x53x65xf32>\n"
        "%1 = weft.reduce_sum %0, dims = [0, 1, 2] : tensor<6x47x59xf32>",
        "%b = weft.broadcast %c : tensor<3x1x1xf32> to tensor<3x53x65xf32>\n"
        "%s = weft.reshape %x : tensor<6x53x65xf32> to tensor<2x3x53x65xf32>\n"
        "%d = weft.broadcast %b : tensor<3x53x65xf32> to tensor<2x3x53x65xf32>\n"
        "%0 = weft.mul %s, %d : tensor<2x3x53x65xf32>\n"
        "%1 = weft.reduce_sum %0, dims = [0, 1, 2, 3] : tensor<2x3x53x65xf32>"}) {
    auto stages = build(std::string(R"(
  func.func @main(%p: tensor<6x53x65xf32>, %q: tensor<3x1x1xf32>) {
    %r = weft.fusion(%x = %p : tensor<6x53x65xf32>, %c = %q : tensor<3x1x1xf32>) -> (tensor<f32>) {
      )") + body + "\nweft.yield %1 : tensor<f32>\n}\nreturn\n}");
    ASSERT_TRUE(stages->kernel);
    std::string loops = stages->kernel->dump("loops");
    EXPECT_THAT(loops, Not(HasSubstr("vector.gather")));
    for (const char *division : {"divui", "remui"})
      EXPECT_THAT(loops, Not(testing::ContainsRegex(std::string(division) + "[^\n]*vector<")));
  }
}

// Of rows that are narrower than a vector each lane divides for itself: in 32 bits, where they do.
TEST(Stages, LanesOfNarrowRowsDivideIn32Bits) {
  auto loops = [](const std::string &rows) {
    auto stages = build("func.func @main(%p: tensor<" + rows + R"(x9xf32>) {
    %r = weft.fusion(%x = %p : tensor<)" + rows + R"(x9xf32>) -> (tensor<f32>) {
      %0 = weft.slice %x[[0, 1] : [)" + rows + R"(, 8] : [1, 1]] : tensor<)" + rows + R"(x9xf32>
      %1 = weft.reduce_sum %0, dims = [0, 1] : tensor<)" + rows + R"(x7xf32>
      weft.yield %1 : tensor<f32>
    }
    return
  })");
    return stages->kernel ? stages->kernel->dump("loops") : std::string();
  };
  auto divides = [](const std::string &type) {
    return testing::ContainsRegex("(div|rem)ui[^\n]*vector<16x" + type + ">");
  };
  EXPECT_THAT(loops("1000"), testing::AllOf(divides("i32"), Not(divides("index"))));
  EXPECT_THAT(loops("310000000"), divides("index")); // but for the last block
}

TEST(Stages, SlicesOfMiddleDimsAreContiguous) {
  auto stages = build(R"(
  func.func @main(%p: tensor<64x40xf32>) {
    %r = weft.fusion(%x = %p : tensor<64x40xf32>) -> (tensor<62x38xf32>) {
      %0 = weft.slice %x[[1, 1] : [63, 39] : [1, 1]] : tensor<64x40xf32>
      %1 = weft.neg %0 : tensor<62x38xf32>
      weft.yield %1 : tensor<62x38xf32>
    }
    return
  })");
  ASSERT_TRUE(stages->kernel);
  EXPECT_THAT(stages->kernel->dump("loops"), Not(HasSubstr("vector.gather")));
  EXPECT_EQ(stages->kernel->info.count, 62);
}

// As many rows and vectors as a machine has registers for: none of the sums goes through memory
// while the depth goes by.
TEST(Stages, SumsOfProductsStayInRegisters) {
  const char *text = R"(
  func.func @main(%p: tensor<96x520xf64>, %q: tensor<520x96xf64>) {
    %r = weft.fusion(%x = %p : tensor<96x520xf64>, %y = %q : tensor<520x96xf64>) -> (tensor<96x96xf64>) {
      %z = weft.matmul %x, %y : tensor<96x520xf64>, tensor<520x96xf64>
      weft.yield %z : tensor<96x96xf64>
    }
    return
  })";
  struct Machine {
    const char *cpu, *registers;
    unsigned sums;
  };
  for (Machine machine : {Machine{"x86-64-v3", "ymm", 12}, {"x86-64-v4", "zmm", 24}}) {
    auto stages = build(text, machine.cpu);
    ASSERT_TRUE(stages->kernel);
    std::string assembly = stages->kernel->dump("s");
    llvm::SmallVector<llvm::StringRef> lines;
    llvm::StringRef(assembly).split(lines, '\n');
    unsigned multiplyAdds = 0, spilled = 0;
    for (llvm::StringRef line : lines) {
      if (!line.contains(machine.registers))
        continue;
      multiplyAdds += line.contains("vfmadd");
      spilled += line.contains("(%rsp)");
    }
    EXPECT_GE(multiplyAdds, machine.sums) << machine.cpu;
    EXPECT_EQ(spilled, 0u) << machine.cpu;
  }
}

} // namespace
} // namespace weft::compiler
