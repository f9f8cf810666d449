// Fusions of several ops: against reference evaluation, against their ops run one by one (bit for bit), over one and several ranges of
// pieces, and in place where the kernel allows it.
#include "compiler/codegen/FusionText.h"
#include "compiler/codegen/KernelTester.h"

#include <cmath>

#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"
#include "tests/support/Compare.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using ir::HostTensor;

// The fusion's results when each op is a kernel of its own.
std::vector<HostTensor> runOneByOne(ir::FusionOp fusion, llvm::ArrayRef<HostTensor> inputs) {
  llvm::DenseMap<mlir::Value, HostTensor> values;
  mlir::Block &body = fusion.getBody().front();
  for (auto [argument, input] : llvm::zip(body.getArguments(), inputs)) values[argument] = input;
  for (mlir::Operation &op : body.without_terminator()) {
    mlir::OpBuilder b(fusion);
    b.setInsertionPointAfter(fusion);
    // Operands are stand-ins of the right types: a kernel reads the fusion's body only.
    auto single = mlir::func::FuncOp::create(b, op.getLoc(), "single", b.getFunctionType(op.getOperandTypes(), {}));
    mlir::Block *entry = single.addEntryBlock();
    b.setInsertionPointToStart(entry);
    auto alone = ir::FusionOp::create(b, op.getLoc(), op.getResultTypes(), entry->getArguments());
    mlir::Block *inside =
        b.createBlock(&alone.getBody(), {}, op.getOperandTypes(), llvm::SmallVector<mlir::Location>(op.getNumOperands(), op.getLoc()));
    mlir::Operation *clone = b.clone(op);
    clone->setOperands(inside->getArguments());
    ir::YieldOp::create(b, op.getLoc(), clone->getResults());
    llvm::SmallVector<HostTensor> operands;
    for (mlir::Value operand : op.getOperands()) operands.push_back(values[operand]);
    std::string error;
    auto kernel = TestKernel::build(alone, error);
    EXPECT_TRUE(kernel) << error;
    if (!kernel) return {};
    std::vector<HostTensor> results;
    EXPECT_EQ(kernel->run(operands, results, 2), WEFT_KERNEL_OK);
    for (auto [result, value] : llvm::zip(op.getResults(), results)) values[result] = value;
    single.erase();
  }
  std::vector<HostTensor> yielded;
  for (mlir::Value value : body.getTerminator()->getOperands()) yielded.push_back(values[value]);
  return yielded;
}

// `error`: absolute and relative bound against reference evaluation, which works in f64.
void check(const std::string &signature, const std::string &body, const std::string &results, double error = 2e-5,
           std::vector<std::pair<int64_t, double>> special = {}) {
  SCOPED_TRACE(body);
  auto parsed = parseFusion(signature, body, results);
  if (!parsed->fusion) return;
  std::string message;
  auto kernel = TestKernel::build(parsed->fusion, message);
  ASSERT_TRUE(kernel) << message;
  llvm::SmallVector<HostTensor> inputs, expected;
  for (mlir::Type type : parsed->fusion.getInputs().getTypes()) inputs.push_back(sample(type, inputs.size() + 1));
  for (auto [at, value] : special) inputs[0].set(at, value);
  auto consumed = inputs;
  ASSERT_TRUE(mlir::succeeded(ir::evaluateBlock(parsed->fusion.getBody().front(), consumed, expected)));
  std::vector<HostTensor> one, several, apart = runOneByOne(parsed->fusion, inputs);
  ASSERT_EQ(apart.size(), expected.size());
  EXPECT_EQ(kernel->run(inputs, one, 1), WEFT_KERNEL_OK);
  EXPECT_EQ(kernel->run(inputs, several, 5), WEFT_KERNEL_OK);
  for (size_t i = 0; i < expected.size(); ++i) {
    std::vector<double> bounds;
    for (int64_t k = 0; k < expected[i].size(); ++k) bounds.push_back(error * (1 + std::abs(expected[i].getDouble(k))));
    EXPECT_EQ(tests::compareWithin(one[i], expected[i], 0, bounds), "") << "result " << i;
    EXPECT_EQ(tests::compareExact(several[i], one[i]), "") << "result " << i << ", several ranges of pieces";
    EXPECT_EQ(tests::compareExact(one[i], apart[i]), "") << "result " << i << ", op by op";
  }
  for (auto pair : kernel->info.inPlace) {
    std::vector<HostTensor> shared;
    EXPECT_EQ(kernel->run(inputs, shared, 3, pair), WEFT_KERNEL_OK);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(tests::compareExact(shared[i], one[i]), "")
          << "result " << i << ", result " << pair.first << " in place of operand " << pair.second;
  }
}

TEST(Fusions, Elementwise) {
  for (const char *n : {"1", "15", "16", "17", "100", "1024", "1025", "5000"}) {
    auto of = [&](const std::string &text) { return replaced(text, "N", n); };
    check(of("%a: tensor<Nxf32>, %b: tensor<Nxf32>, %s: tensor<f32>"), of(R"(
      %one = weft.constant dense<1.0> : tensor<Nxf32>
      %c = weft.broadcast %s : tensor<f32> to tensor<Nxf32>
      %0 = weft.mul %a, %b : tensor<Nxf32>
      %1 = weft.add %0, %one : tensor<Nxf32>
      %2 = weft.tanh %1 : tensor<Nxf32>
      %3 = weft.sub %a, %b : tensor<Nxf32>
      %4 = weft.sigmoid %3 : tensor<Nxf32>
      %5 = weft.mul %2, %4 : tensor<Nxf32>
      %6 = weft.add %5, %c : tensor<Nxf32>)"),
          of("%6: tensor<Nxf32>, %5: tensor<Nxf32>"));
  }
}

// What a function makes of a constant is what it makes of the same number from memory.
TEST(Fusions, FunctionsOfConstants) {
  for (const char *type : {"f32", "f64"})
    for (const char *first : {"exp", "log", "tanh", "erf", "sigmoid", "rsqrt", "gelu"}) {
      std::string body = std::string("%c = weft.constant dense<0.7153> : tensor<5xT>\n %0 = weft.") + first +
                         " %c : tensor<5xT>\n %1 = weft.tanh %0 : tensor<5xT>\n %2 = weft.erf %1 : tensor<5xT>\n"
                         "%3 = weft.exp %2 : tensor<5xT>\n %4 = weft.log %3 : tensor<5xT>\n %5 = weft.gelu %4 : tensor<5xT>\n"
                         "%6 = weft.add %5, %x : tensor<5xT>";
      check(replaced("%x: tensor<5xT>", "T", type), replaced(body, "T", type), replaced("%6: tensor<5xT>, %5: tensor<5xT>", "T", type));
    }
}

TEST(Fusions, Broadcasts) {
  check("%x: tensor<7x3x37xf32>, %y: tensor<37xf32>, %z: tensor<7x1x1xf32>", R"(
    %c = weft.broadcast %y : tensor<37xf32> to tensor<7x3x37xf32>
    %d = weft.broadcast %z : tensor<7x1x1xf32> to tensor<7x3x37xf32>
    %0 = weft.add %x, %c : tensor<7x3x37xf32>
    %1 = weft.mul %0, %d : tensor<7x3x37xf32>)",
        "%1: tensor<7x3x37xf32>");
  check("%x: tensor<6x20xf32>, %y: tensor<4x1xf32>", R"(
    %0 = weft.reshape %x : tensor<6x20xf32> to tensor<6x4x5xf32>
    %c = weft.broadcast %y : tensor<4x1xf32> to tensor<6x4x5xf32>
    %1 = weft.mul %0, %c : tensor<6x4x5xf32>
    %2 = weft.reshape %1 : tensor<6x4x5xf32> to tensor<24x5xf32>
    %3 = weft.reduce_sum %2, dims = [1] : tensor<24x5xf32>)",
        "%2: tensor<24x5xf32>, %3: tensor<24xf32>");
}

// Their domain does not depend on which of them comes first.
TEST(Fusions, SingleElementsOfSeveralRanks) {
  for (const char *outputs : {"%2: tensor<i32>, %4: tensor<1xf32>", "%4: tensor<1xf32>, %2: tensor<i32>"})
    check("%x: tensor<1x1x1xf32>, %i: tensor<i32>", R"(
      %0 = weft.index_select %x, %i, dim = 2 : tensor<1x1x1xf32>, tensor<i32>
      %1 = weft.sigmoid %0 : tensor<1x1xf32>
      %2 = weft.sign %i : tensor<i32>
      %3 = weft.reshape %1 : tensor<1x1xf32> to tensor<1xf32>
      %4 = weft.neg %3 : tensor<1xf32>)",
          outputs);
}

TEST(Fusions, Softmax) {
  for (auto [rows, n] : {std::pair{"5", "100"},
                         {"3", "1"},
                         {"2", "17"},
                         {"33", "64"},
                         {"4", "1000"},
                         {"2", "20000"},
                         {"1", "300"},
                         {"64", "50"},
                         {"75", "128"},
                         {"64", "10"},
                         {"70", "16"},
                         {"100", "2"},
                         {"130", "9"}}) {
    std::string body = R"(
      %m = weft.reduce_max %x, dims = [1] : tensor<RxNxf32>
      %m1 = weft.reshape %m : tensor<Rxf32> to tensor<Rx1xf32>
      %m2 = weft.broadcast %m1 : tensor<Rx1xf32> to tensor<RxNxf32>
      %d = weft.sub %x, %m2 : tensor<RxNxf32>
      %e = weft.exp %d : tensor<RxNxf32>
      %s = weft.reduce_sum %e, dims = [1] : tensor<RxNxf32>
      %s1 = weft.reshape %s : tensor<Rxf32> to tensor<Rx1xf32>
      %s2 = weft.broadcast %s1 : tensor<Rx1xf32> to tensor<RxNxf32>
      %q = weft.div %e, %s2 : tensor<RxNxf32>)";
    auto of = [&](const std::string &text) { return replaced(replaced(text, "R", rows), "N", n); };
    check(of("%x: tensor<RxNxf32>"), of(body), of("%q: tensor<RxNxf32>, %s: tensor<Rxf32>"));
    // A NaN or an infinity stays in its row.
    check(of("%x: tensor<RxNxf32>"), of(body), of("%q: tensor<RxNxf32>"), 2e-5, {{0, NAN}});
    check(of("%x: tensor<RxNxf32>"), of(body), of("%q: tensor<RxNxf32>"), 2e-5, {{0, -INFINITY}});
  }
}

// Rows of which several are done together: what is read at a place of its own in each row, a sum over all rows, integers, 16-bit floats.
TEST(Fusions, ShortRows) {
  for (const char *rows : {"64", "75", "200"}) {
    auto of = [&](const std::string &text) { return replaced(text, "R", rows); };
    for (const char *n : {"10", "50"}) {
      auto of = [&](const std::string &text) { return replaced(replaced(text, "R", rows), "N", n); };
      check(of("%x: tensor<RxNxf32>, %l: tensor<Rxi64>"), of(R"(
      %m = weft.reduce_max %x, dims = [1] : tensor<RxNxf32>
      %m1 = weft.reshape %m : tensor<Rxf32> to tensor<Rx1xf32>
      %m2 = weft.broadcast %m1 : tensor<Rx1xf32> to tensor<RxNxf32>
      %d = weft.sub %x, %m2 : tensor<RxNxf32>
      %e = weft.exp %d : tensor<RxNxf32>
      %s = weft.reduce_sum %e, dims = [1] : tensor<RxNxf32>
      %g = weft.log %s : tensor<Rxf32>
      %l1 = weft.reshape %l : tensor<Rxi64> to tensor<Rx1xi64>
      %t = weft.gather %x, %l1, dim = 1 : tensor<RxNxf32>, tensor<Rx1xi64>
      %t1 = weft.reshape %t : tensor<Rx1xf32> to tensor<Rxf32>
      %c = weft.sub %m, %t1 : tensor<Rxf32>
      %n = weft.add %g, %c : tensor<Rxf32>
      %y = weft.reduce_sum %n, dims = [0] : tensor<Rxf32>)"),
            of("%y: tensor<f32>, %n: tensor<Rxf32>"), 1e-3);
    }
    check(of("%x: tensor<Rx7xi32>"), of(R"(
      %k = weft.iota {dim = 1 : i64} : tensor<Rx7xi32>
      %p = weft.mul %x, %k : tensor<Rx7xi32>
      %s = weft.reduce_sum %p, dims = [1] : tensor<Rx7xi32>
      %s1 = weft.reshape %s : tensor<Rxi32> to tensor<Rx1xi32>
      %s2 = weft.broadcast %s1 : tensor<Rx1xi32> to tensor<Rx7xi32>
      %y = weft.sub %p, %s2 : tensor<Rx7xi32>)"),
          of("%y: tensor<Rx7xi32>, %s: tensor<Rxi32>, %p: tensor<Rx7xi32>"), 0);
    check(of("%x: tensor<Rx16xbf16>"), of(R"(
      %w = weft.cast %x : tensor<Rx16xbf16> to tensor<Rx16xf32>
      %m = weft.reduce_max %w, dims = [1] : tensor<Rx16xf32>
      %m1 = weft.reshape %m : tensor<Rxf32> to tensor<Rx1xf32>
      %m2 = weft.broadcast %m1 : tensor<Rx1xf32> to tensor<Rx16xf32>
      %d = weft.sub %w, %m2 : tensor<Rx16xf32>
      %y = weft.cast %d : tensor<Rx16xf32> to tensor<Rx16xbf16>)"),
          of("%y: tensor<Rx16xbf16>"), 1e-2);
  }
}

// 63 rows are done one by one, of 64 sixteen together: a row's bits do not depend on how many there are.
TEST(Fusions, RowsTogetherHaveTheBitsOfRowsByThemselves) {
  for (int n : {2, 3, 4, 7, 10, 16, 17, 50, 128}) {
    std::vector<HostTensor> results[2];
    HostTensor many;
    for (int rows : {64, 63}) {
      auto of = [&](const std::string &text) { return replaced(replaced(text, "R", std::to_string(rows)), "N", std::to_string(n)); };
      auto parsed = parseFusion(of("%x: tensor<RxNxf32>"), of(R"(
        %m = weft.reduce_max %x, dims = [1] : tensor<RxNxf32>
        %m1 = weft.reshape %m : tensor<Rxf32> to tensor<Rx1xf32>
        %m2 = weft.broadcast %m1 : tensor<Rx1xf32> to tensor<RxNxf32>
        %d = weft.sub %x, %m2 : tensor<RxNxf32>
        %e = weft.exp %d : tensor<RxNxf32>
        %s = weft.reduce_sum %e, dims = [1] : tensor<RxNxf32>
        %g = weft.log %s : tensor<Rxf32>)"),
                                of("%e: tensor<RxNxf32>, %g: tensor<Rxf32>"));
      std::string error;
      auto kernel = TestKernel::build(parsed->fusion, error);
      ASSERT_TRUE(kernel) << error;
      EXPECT_EQ(kernel->info.count, rows == 64 ? 4 : 63);
      HostTensor input = sample(parsed->fusion.getInputs()[0].getType(), 1);
      if (rows == 64) many = input;
      for (int64_t i = 0; i < input.size(); ++i) input.set(i, many.getDouble(i));
      EXPECT_EQ(kernel->run({input}, results[64 - rows]), WEFT_KERNEL_OK);
    }
    for (size_t r = 0; r < 2; ++r)
      for (int64_t i = 0; i < results[1][r].size(); ++i)
        ASSERT_EQ(results[0][r].getDouble(i), results[1][r].getDouble(i)) << "rows of " << n << ", result " << r << ", element " << i;
  }
}

TEST(Fusions, LayerNormBackward) {
  for (auto [rows, n] : {std::pair{"100", "64"}, {"7", "33"}, {"300", "128"}}) {
    auto of = [&](const std::string &text) { return replaced(replaced(text, "R", rows), "N", n); };
    check(of("%x: tensor<RxNxf32>, %g: tensor<RxNxf32>, %w: tensor<Nxf32>"), of(R"(
      %inv = weft.constant dense<0.015625> : tensor<Rxf32>
      %sum = weft.reduce_sum %x, dims = [1] : tensor<RxNxf32>
      %mean = weft.mul %sum, %inv : tensor<Rxf32>
      %mean1 = weft.reshape %mean : tensor<Rxf32> to tensor<Rx1xf32>
      %mean2 = weft.broadcast %mean1 : tensor<Rx1xf32> to tensor<RxNxf32>
      %c = weft.sub %x, %mean2 : tensor<RxNxf32>
      %sq = weft.mul %c, %c : tensor<RxNxf32>
      %v = weft.reduce_sum %sq, dims = [1] : tensor<RxNxf32>
      %var = weft.mul %v, %inv : tensor<Rxf32>
      %rstd = weft.rsqrt %var : tensor<Rxf32>
      %rstd1 = weft.reshape %rstd : tensor<Rxf32> to tensor<Rx1xf32>
      %rstd2 = weft.broadcast %rstd1 : tensor<Rx1xf32> to tensor<RxNxf32>
      %xhat = weft.mul %c, %rstd2 : tensor<RxNxf32>
      %w2 = weft.broadcast %w : tensor<Nxf32> to tensor<RxNxf32>
      %gw = weft.mul %g, %w2 : tensor<RxNxf32>
      %gx = weft.mul %g, %xhat : tensor<RxNxf32>
      %dw = weft.reduce_sum %gx, dims = [0] : tensor<RxNxf32>
      %db = weft.reduce_sum %g, dims = [0] : tensor<RxNxf32>
      %dot = weft.mul %gw, %xhat : tensor<RxNxf32>
      %sd = weft.reduce_sum %dot, dims = [1] : tensor<RxNxf32>
      %sd1 = weft.reshape %sd : tensor<Rxf32> to tensor<Rx1xf32>
      %sd2 = weft.broadcast %sd1 : tensor<Rx1xf32> to tensor<RxNxf32>
      %t = weft.mul %xhat, %sd2 : tensor<RxNxf32>
      %u = weft.sub %gw, %t : tensor<RxNxf32>
      %dx = weft.mul %u, %rstd2 : tensor<RxNxf32>)"),
          of("%dx: tensor<RxNxf32>, %dw: tensor<Nxf32>, %db: tensor<Nxf32>, %rstd: tensor<Rxf32>"), 1e-3);
  }
}

TEST(Fusions, ReductionsOverRowsAndEverything) {
  for (auto [rows, n] : {std::pair{"200", "37"}, {"5", "100"}, {"3000", "16"}, {"64", "130"}}) {
    auto of = [&](const std::string &text) { return replaced(replaced(text, "R", rows), "N", n); };
    check(of("%x: tensor<RxNxf32>"), of(R"(
      %e = weft.mul %x, %x : tensor<RxNxf32>
      %s = weft.reduce_sum %e, dims = [0] : tensor<RxNxf32>
      %m = weft.reduce_max %x, dims = [0] : tensor<RxNxf32>
      %n = weft.neg %s : tensor<Nxf32>)"),
          of("%e: tensor<RxNxf32>, %n: tensor<Nxf32>, %m: tensor<Nxf32>"), 1e-4);
    check(of("%x: tensor<RxNxf32>, %b: tensor<Nxf32>"), of(R"(
      %c = weft.broadcast %b : tensor<Nxf32> to tensor<RxNxf32>
      %e = weft.mul %x, %c : tensor<RxNxf32>
      %s = weft.reduce_sum %e, dims = [0, 1] : tensor<RxNxf32>
      %t = weft.add %s, %s : tensor<f32>)"),
          of("%t: tensor<f32>"), 1e-3);
    check(of("%x: tensor<RxNxf32>"), of(R"(
      %s = weft.reduce_max %x, dims = [1] : tensor<RxNxf32>
      %e = weft.exp %s : tensor<Rxf32>
      %t = weft.reduce_sum %e, dims = [0] : tensor<Rxf32>)"),
          of("%t: tensor<f32>, %e: tensor<Rxf32>"), 1e-3);
  }
  check("%x: tensor<100000xf32>", "%s = weft.reduce_sum %x, dims = [0] : tensor<100000xf32>", "%s: tensor<f32>", 1e-3);
  check("%x: tensor<100000xi64>", "%s = weft.reduce_sum %x, dims = [0] : tensor<100000xi64>", "%s: tensor<i64>", 0);
}

TEST(Fusions, ReductionsOverMiddleDims) {
  for (const char *dims : {"[1]", "[0, 2]", "[1, 3]", "[0, 2, 3]", "[2]", "[1, 2]"}) {
    for (const char *shape : {"3x4x5x70", "2x40x3x16", "5x6x7x8"}) {
      auto parsed = parseFusion(replaced("%x: tensor<Sxf32>", "S", shape), replaced("%y = weft.neg %x : tensor<Sxf32>", "S", shape),
                                replaced("%y: tensor<Sxf32>", "S", shape));
      llvm::SmallVector<int64_t> kept;
      auto type = mlir::cast<mlir::RankedTensorType>(parsed->fusion.getInputs()[0].getType());
      for (int64_t i = 0; i < 4; ++i)
        if (!llvm::StringRef(dims).contains(std::to_string(i))) kept.push_back(type.getDimSize(i));
      std::string result = "tensor<";
      for (int64_t size : kept) result += std::to_string(size) + "x";
      result += "f32>";
      std::string body = R"(
        %e = weft.mul %x, %x : tensor<Sxf32>
        %s = weft.reduce_sum %e, dims = D : tensor<Sxf32>
        %m = weft.reduce_max %e, dims = D : tensor<Sxf32>
        %t = weft.sub %s, %m : T)";
      check(replaced("%x: tensor<Sxf32>", "S", shape), replaced(replaced(replaced(body, "S", shape), "D", dims), ": T", ": " + result),
            "%t: " + result, 1e-4);
    }
  }
}

// batch_norm: rows that lie in several runs, which vectors fill, or not, or more than one block of a sum; what is expensive waits in
// scratch.
TEST(Fusions, RowsOfSeveralRuns) {
  struct Sizes {
    const char *n, *c, *h, *w;
    double inverse;
  };
  for (Sizes sizes : {Sizes{"3", "5", "4", "8", 96}, {"5", "3", "7", "7", 245}, {"2", "2", "3", "1", 6}, {"2", "3", "90", "100", 18000}}) {
    auto of = [&](const char *text) {
      std::string full = std::string(sizes.n) + "x" + sizes.c + "x" + sizes.h + "x" + sizes.w + "xf32";
      std::string with = replaced(replaced(text, "FULL", full), "ROW", std::string(sizes.c) + "xf32");
      return replaced(replaced(with, "ONES", std::string(sizes.c) + "x1x1xf32"), "INV", std::to_string(1 / sizes.inverse));
    };
    const char *centered = R"(
      %inv = weft.constant dense<INV> : tensor<ROW>
      %sum = weft.reduce_sum %e, dims = [0, 2, 3] : tensor<FULL>
      %mean = weft.mul %sum, %inv : tensor<ROW>
      %mean1 = weft.reshape %mean : tensor<ROW> to tensor<ONES>
      %mean2 = weft.broadcast %mean1 : tensor<ONES> to tensor<FULL>
      %c = weft.sub %e, %mean2 : tensor<FULL>
      %sq = weft.mul %c, %c : tensor<FULL>
      %v = weft.reduce_sum %sq, dims = [0, 2, 3] : tensor<FULL>
      %var = weft.mul %v, %inv : tensor<ROW>
      %rstd = weft.rsqrt %var : tensor<ROW>
      %rstd1 = weft.reshape %rstd : tensor<ROW> to tensor<ONES>
      %rstd2 = weft.broadcast %rstd1 : tensor<ONES> to tensor<FULL>
      %xh = weft.mul %c, %rstd2 : tensor<FULL>)";
    std::string forward = std::string("%e = weft.neg %x : tensor<FULL>") + centered;
    check(of("%x: tensor<FULL>"), of(forward.c_str()), of("%xh: tensor<FULL>, %mean: tensor<ROW>, %var: tensor<ROW>"), 2e-4);
    std::string expensive = std::string("%e = weft.exp %x : tensor<FULL>") + centered;
    check(of("%x: tensor<FULL>"), of(expensive.c_str()), of("%xh: tensor<FULL>"), 5e-4);
    std::string backward = std::string("%e = weft.neg %x : tensor<FULL>") + centered + R"(
      %db = weft.reduce_sum %g, dims = [0, 2, 3] : tensor<FULL>
      %gx = weft.mul %g, %xh : tensor<FULL>
      %dw = weft.reduce_sum %gx, dims = [0, 2, 3] : tensor<FULL>
      %dw1 = weft.reshape %dw : tensor<ROW> to tensor<ONES>
      %dw2 = weft.broadcast %dw1 : tensor<ONES> to tensor<FULL>
      %p = weft.mul %xh, %dw2 : tensor<FULL>
      %dx = weft.sub %g, %p : tensor<FULL>)";
    check(of("%x: tensor<FULL>, %g: tensor<FULL>"), of(backward.c_str()), of("%dx: tensor<FULL>, %dw: tensor<ROW>, %db: tensor<ROW>"),
          2e-3);
  }
}

// group_norm: rows are a sample's groups; what weight and bias get are sums over samples and pixels, channel by channel, whose runs fill
// vectors or not, or are more than one block of a sum. The last ones are instance_norm (rows are channels), one group (rows are samples), one
// sample (nothing of the outer dims is reduced).
TEST(Fusions, SumsOfPartsOfRows) {
  struct Sizes {
    int n, groups, channels, pixels;
  };
  for (Sizes sizes : {Sizes{3, 2, 4, 49}, {3, 2, 3, 5}, {70, 3, 2, 16}, {2, 2, 2, 9000}, {3, 5, 1, 33}, {5, 1, 6, 20}, {1, 3, 4, 40}}) {
    auto of = [&](const char *text) {
      std::string n = std::to_string(sizes.n), groups = std::to_string(sizes.groups), channels = std::to_string(sizes.groups * sizes.channels);
      std::string row = std::to_string(sizes.channels * sizes.pixels), pixels = std::to_string(sizes.pixels);
      std::string with = replaced(text, "FULL", n + "x" + channels + "x" + pixels + "xf32");
      with = replaced(replaced(with, "ROWS", n + "x" + groups + "x" + row + "xf32"), "ROW", n + "x" + groups + "xf32");
      with = replaced(replaced(with, "ONES", n + "x" + groups + "x1xf32"), "CHANNELS", channels + "xf32");
      with = replaced(with, "COLUMN", channels + "x1xf32");
      return replaced(with, "INV", std::to_string(1.0 / (sizes.channels * sizes.pixels)));
    };
    const char *body = R"(
      %inv = weft.constant dense<INV> : tensor<ROW>
      %r = weft.reshape %x : tensor<FULL> to tensor<ROWS>
      %e = weft.exp %r : tensor<ROWS>
      %sum = weft.reduce_sum %e, dims = [2] : tensor<ROWS>
      %mean = weft.mul %sum, %inv : tensor<ROW>
      %mean1 = weft.reshape %mean : tensor<ROW> to tensor<ONES>
      %mean2 = weft.broadcast %mean1 : tensor<ONES> to tensor<ROWS>
      %c = weft.sub %e, %mean2 : tensor<ROWS>
      %xh = weft.reshape %c : tensor<ROWS> to tensor<FULL>
      %gx = weft.mul %g, %xh : tensor<FULL>
      %dw = weft.reduce_sum %gx, dims = [0, 2] : tensor<FULL>
      %most = weft.reduce_max %g, dims = [0, 2] : tensor<FULL>
      %w1 = weft.reshape %w : tensor<CHANNELS> to tensor<COLUMN>
      %w2 = weft.broadcast %w1 : tensor<COLUMN> to tensor<FULL>
      %dx = weft.mul %gx, %w2 : tensor<FULL>
      %step = weft.sub %w, %dw : tensor<CHANNELS>)";
    check(of("%x: tensor<FULL>, %g: tensor<FULL>, %w: tensor<CHANNELS>"), of(body),
          of("%dx: tensor<FULL>, %step: tensor<CHANNELS>, %most: tensor<CHANNELS>, %mean: tensor<ROW>"), 2e-3);
  }
}

// The maxima over the windows of a normalised image, whose rows are channels (of several runs) or groups of them; with the image beside it,
// or a slice of it in another dim.
TEST(Fusions, WindowsOfNormalizedRows) {
  struct Sizes {
    int n, groups, channels, height, width, kernel, padding;
    bool batch; // statistics over samples as well
  };
  for (Sizes sizes : {Sizes{3, 5, 1, 12, 40, 3, 1, true}, {2, 3, 1, 6, 6, 2, 0, true}, {3, 2, 3, 7, 9, 3, 1, false}, {2, 1, 2, 8, 34, 2, 0, false}}) {
    int channels = sizes.groups * sizes.channels;
    auto images = [&](int height, int width, const char *element = "f32") {
      return "tensor<" + std::to_string(sizes.n) + "x" + std::to_string(sizes.groups) + "x" + std::to_string(sizes.channels) + "x" +
             std::to_string(height) + "x" + std::to_string(width) + "x" + element + ">";
    };
    int padded = 2 * sizes.padding, rows = (sizes.height + padded - sizes.kernel) / 2 + 1, columns = (sizes.width + padded - sizes.kernel) / 2 + 1;
    std::string image = images(sizes.height, sizes.width), pad = images(sizes.height + padded, sizes.width + padded), pooled = images(rows, columns);
    std::string n = sizes.batch ? "1" : std::to_string(sizes.n), groups = std::to_string(sizes.groups);
    std::string row = sizes.batch ? "tensor<" + groups + "xf32>" : "tensor<" + n + "x" + groups + "xf32>";
    std::string ones = "tensor<" + n + "x" + groups + "x1x1x1xf32>", dims = sizes.batch ? "[0, 2, 3, 4]" : "[2, 3, 4]";
    double count = static_cast<double>(sizes.channels * sizes.height * sizes.width) * (sizes.batch ? sizes.n : 1);
    std::string body = R"(
      %inv = weft.constant dense<INV> : ROW
      %sum = weft.reduce_sum %x, dims = DIMS : IMAGE
      %mean = weft.mul %sum, %inv : ROW
      %mean1 = weft.reshape %mean : ROW to ONES
      %mean2 = weft.broadcast %mean1 : ONES to IMAGE
      %c = weft.sub %x, %mean2 : IMAGE
      %sq = weft.mul %c, %c : IMAGE
      %v = weft.reduce_sum %sq, dims = DIMS : IMAGE
      %rstd = weft.rsqrt %v : ROW
      %rstd1 = weft.reshape %rstd : ROW to ONES
      %rstd2 = weft.broadcast %rstd1 : ONES to IMAGE
      %xh = weft.mul %c, %rstd2 : IMAGE
      %r = weft.relu %xh : IMAGE
)";
    std::string from = "%r";
    if (sizes.padding) {
      std::string one = std::to_string(sizes.padding);
      body += "%base = weft.constant dense<-1.0> : PAD\n%pad = weft.insert_slice %r into %base[[0, 0, 0, " + one + ", " + one +
              "] : [1, 1, 1, 1, 1]] : IMAGE into PAD\n";
      from = "%pad";
    }
    std::string last;
    for (int y = 0; y < sizes.kernel; ++y)
      for (int x = 0; x < sizes.kernel; ++x) {
        std::string number = std::to_string(y * sizes.kernel + x), tap = "%t" + number;
        body += tap + " = weft.slice " + from + "[[0, 0, 0, " + std::to_string(y) + ", " + std::to_string(x) + "] : [" + std::to_string(sizes.n) + ", " +
                groups + ", " + std::to_string(sizes.channels) + ", " + std::to_string(y + 2 * rows - 1) + ", " +
                std::to_string(x + 2 * columns - 1) + "] : [1, 1, 1, 2, 2]] : " + (sizes.padding ? "PAD" : "IMAGE") + "\n";
        if (!last.empty()) body += "%m" + number + " = weft.maximum " + last + ", " + tap + " : POOLED\n";
        last = last.empty() ? tap : "%m" + number;
      }
    auto of = [&](std::string text) {
      for (auto [what, by] : {std::pair<std::string, std::string>{"INV", std::to_string(1 / count)}, {"POOLED", pooled}, {"PAD", pad}, {"IMAGE", image},
                              {"ONES", ones}, {"ROW", row}, {"DIMS", dims}})
        text = replaced(text, what, by);
      return text;
    };
    SCOPED_TRACE(channels);
    check(of("%x: IMAGE"), of(body), of(last + ": POOLED, %mean: ROW"), 1e-4);
    check(of("%x: IMAGE"), of(body), of("%r: IMAGE, " + last + ": POOLED"), 1e-4);
  }
}

// A rotation of what a row's reduction has normalised: its halves change places within the row.
TEST(Fusions, RotationsOfNormalizedRows) {
  for (auto [half, whole] : {std::pair{"16", "32"}, {"5", "10"}, {"64", "128"}}) {
    auto of = [half = std::string(half), whole = std::string(whole)](const char *text) { return replaced(replaced(text, "HALF", half), "WHOLE", whole); };
    check(of("%x: tensor<6x3xWHOLExf32>, %c: tensor<6x1xWHOLExf32>"), of(R"(
      %sq = weft.mul %x, %x : tensor<6x3xWHOLExf32>
      %s = weft.reduce_sum %sq, dims = [2] : tensor<6x3xWHOLExf32>
      %r = weft.rsqrt %s : tensor<6x3xf32>
      %r1 = weft.reshape %r : tensor<6x3xf32> to tensor<6x3x1xf32>
      %r2 = weft.broadcast %r1 : tensor<6x3x1xf32> to tensor<6x3xWHOLExf32>
      %n = weft.mul %x, %r2 : tensor<6x3xWHOLExf32>
      %a = weft.slice %n[[0, 0, 0] : [6, 3, HALF] : [1, 1, 1]] : tensor<6x3xWHOLExf32>
      %b = weft.slice %n[[0, 0, HALF] : [6, 3, WHOLE] : [1, 1, 1]] : tensor<6x3xWHOLExf32>
      %m = weft.neg %b : tensor<6x3xHALFxf32>
      %t = weft.concat %m, %a dim = 2 : tensor<6x3xHALFxf32>, tensor<6x3xHALFxf32>
      %c2 = weft.broadcast %c : tensor<6x1xWHOLExf32> to tensor<6x3xWHOLExf32>
      %p = weft.mul %n, %c2 : tensor<6x3xWHOLExf32>
      %y = weft.add %p, %t : tensor<6x3xWHOLExf32>
      %total = weft.reduce_sum %y, dims = [2] : tensor<6x3xWHOLExf32>)"),
          of("%y: tensor<6x3xWHOLExf32>, %total: tensor<6x3xf32>, %a: tensor<6x3xHALFxf32>"), 1e-4);
  }
}

TEST(Fusions, Movement) {
  check("%x: tensor<6x5x19xf32>, %y: tensor<19x6x5xf32>", R"(
    %0 = weft.transpose %x, [2, 0, 1] : tensor<6x5x19xf32>
    %1 = weft.add %0, %y : tensor<19x6x5xf32>)",
        "%1: tensor<19x6x5xf32>");
  check("%x: tensor<6x5x19xf32>, %y: tensor<19x6x5xf32>", R"(
    %0 = weft.transpose %x, [2, 0, 1] : tensor<6x5x19xf32>
    %1 = weft.add %0, %y : tensor<19x6x5xf32>
    %2 = weft.exp %x : tensor<6x5x19xf32>)",
        "%1: tensor<19x6x5xf32>, %2: tensor<6x5x19xf32>");
  check("%x: tensor<4x6x32xf32>", R"(
    %e = weft.exp %x : tensor<4x6x32xf32>
    %0 = weft.slice %e[[1, 0, 30] : [4, 6, 1] : [2, 1, -3]] : tensor<4x6x32xf32>
    %1 = weft.neg %0 : tensor<2x6x10xf32>)",
        "%1: tensor<2x6x10xf32>");
  check("%x: tensor<4x30xf32>, %y: tensor<4x7xf32>, %z: tensor<4x50xf32>", R"(
    %0 = weft.concat %x, %y, %z dim = 1 : tensor<4x30xf32>, tensor<4x7xf32>, tensor<4x50xf32>
    %1 = weft.tanh %0 : tensor<4x87xf32>)",
        "%1: tensor<4x87xf32>");
  check("%x: tensor<4x30xf32>, %y: tensor<2x30xf32>", R"(
    %n = weft.neg %y : tensor<2x30xf32>
    %0 = weft.concat %x, %n dim = 0 : tensor<4x30xf32>, tensor<2x30xf32>
    %1 = weft.reduce_sum %0, dims = [1] : tensor<6x30xf32>)",
        "%0: tensor<6x30xf32>, %1: tensor<6xf32>");
  check("%x: tensor<9x40xf32>, %y: tensor<3x13xf32>", R"(
    %n = weft.neg %y : tensor<3x13xf32>
    %0 = weft.insert_slice %n into %x[[1, 38] : [3, -2]] : tensor<3x13xf32> into tensor<9x40xf32>
    %1 = weft.add %0, %x : tensor<9x40xf32>)",
        "%1: tensor<9x40xf32>");
}

// Vectors end where the rows of what they read do, and lanes a few elements apart are picked from whole vectors: for elements of each
// width, forwards and backwards, up to the last element of a buffer, in rows with and without a tail.
TEST(Fusions, StridedReads) {
  for (const char *element : {"f32", "f64", "bf16", "i8", "i1"})
    for (int width : {2, 35, 97})
      for (int step : {2, 3, 4, 5, -1, -2}) {
        int start = step > 0 ? 0 : width - 1, limit = step > 0 ? width : -1, taken = (width + std::abs(step) - 1) / std::abs(step);
        auto type = [&](int rows, int columns) {
          return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "x" + element + ">";
        };
        std::string from = type(7, width), to = type(6, taken);
        check("%x: " + from,
              "%0 = weft.slice %x[[1, " + std::to_string(start) + "] : [7, " + std::to_string(limit) + "] : [1, " + std::to_string(step) +
                  "]] : " + from,
              "%0: " + to, 0);
      }
}

// Windows of images, in loops and unrolled, beside each other and apart, with and without a border.
TEST(Fusions, WindowsOfImages) {
  struct Sizes {
    int size, kernel, stride;
  };
  for (Sizes sizes : {Sizes{56, 2, 2}, {14, 2, 2}, {9, 3, 2}, {35, 3, 3}, {33, 3, 1}, {40, 4, 4}, {23, 5, 5}}) {
    auto text = [](int n) { return std::to_string(n); };
    int pooled = (sizes.size - sizes.kernel) / sizes.stride + 1;
    auto of = [&](const std::string &code) {
      std::string image = "tensor<2x3x" + text(sizes.size) + "x" + text(sizes.size) + "xf32>";
      std::string small = "tensor<2x3x" + text(pooled) + "x" + text(pooled) + "xf32>";
      std::string windows =
          "tensor<2x3x" + text(sizes.kernel) + "x" + text(sizes.kernel) + "x" + text(pooled) + "x" + text(pooled) + "xf32>";
      return replaced(replaced(replaced(replaced(replaced(code, "IMAGE", image), "SMALL", small), "WINDOWS", windows), "KERNEL",
                               "array<i64: " + text(sizes.kernel) + ", " + text(sizes.kernel) + ">"),
                      "STRIDE", "array<i64: " + text(sizes.stride) + ", " + text(sizes.stride) + ">");
    };
    // What many windows share is no part of the kernel.
    std::string source = sizes.kernel <= 3 ? "%n = weft.neg %x : IMAGE" : "%n = weft.reshape %x : IMAGE to IMAGE";
    check(of("%x: IMAGE"), of(source + R"(
      %w = weft.windows %n {kernel = KERNEL, strides = STRIDE, dilation = array<i64: 1, 1>} : IMAGE
      %s = weft.reduce_sum %w, dims = [2, 3] : WINDOWS
      %m = weft.reduce_max %w, dims = [2, 3] : WINDOWS
      %t = weft.add %s, %m : SMALL)"),
          of("%t: SMALL"));
  }
}

// Windows that reach into a border of their own, whose lanes are masked: strided, backwards, and both.
TEST(Fusions, StridedReadsOfPaddedImages) {
  for (const char *step : {"1", "2", "3", "-1", "-2"}) {
    int taken = step[0] == '-' ? (step[1] == '1' ? 70 : 35) : (69 + (step[0] - '0')) / (step[0] - '0');
    auto of = [&](const std::string &text) {
      std::string ends = step[0] == '-' ? "[0, 69] : [9, -1]" : "[0, 0] : [9, 70]";
      return replaced(replaced(replaced(text, "ENDS", ends), "STEP", step), "TAKEN", std::to_string(taken));
    };
    check("%x: tensor<7x67xf32>", of(R"(
      %b = weft.constant dense<-3.5> : tensor<9x70xf32>
      %p = weft.insert_slice %x into %b[[1, 2] : [1, 1]] : tensor<7x67xf32> into tensor<9x70xf32>
      %0 = weft.slice %p[ENDS : [1, STEP]] : tensor<9x70xf32>
      %1 = weft.neg %0 : tensor<9xTAKENxf32>)"),
          of("%1: tensor<9xTAKENxf32>"), 0);
  }
}

// Blocks of tiles, whole and cut in both dims, for elements of 4 and 8 bytes, and for bools.
TEST(Fusions, TransposesInBlocks) {
  for (const char *element : {"f32", "i64"})
    for (auto [rows, columns] : {std::pair{64, 128}, {80, 64}, {150, 70}, {3, 200}, {200, 3}, {17, 31}}) {
      auto type = [&](int a, int b) { return "tensor<" + std::to_string(a) + "x" + std::to_string(b) + "x" + element + ">"; };
      std::string from = type(rows, columns), to = type(columns, rows);
      check("%x: " + from + ", %y: " + to, "%0 = weft.transpose %x, [1, 0] : " + from + "\n%1 = weft.maximum %0, %y : " + to, "%1: " + to,
            0);
    }
  check("%x: tensor<70x90xi1>, %y: tensor<90x70xi1>", R"(
    %0 = weft.transpose %x, [1, 0] : tensor<70x90xi1>
    %1 = weft.and %0, %y : tensor<90x70xi1>)",
        "%1: tensor<90x70xi1>", 0);
}

// Few long rows: the columns are cut into blocks, the last one shorter.
TEST(Fusions, SumsOverFewLongRows) {
  for (int n : {2047, 2048, 3000, 5 * 1024}) {
    std::string rows = "tensor<3x" + std::to_string(n) + "xf32>", row = "tensor<" + std::to_string(n) + "xf32>";
    check("%x: " + rows + ", %y: " + row,
          "%b = weft.broadcast %y : " + row + " to " + rows + "\n%0 = weft.mul %x, %b : " + rows +
              "\n%1 = weft.reduce_sum %0, dims = [0] : " + rows,
          "%0: " + rows + ", %1: " + row);
  }
  check("%x: tensor<40x50x60xf32>", "%0 = weft.reduce_sum %x, dims = [0] : tensor<40x50x60xf32>", "%0: tensor<50x60xf32>");
}

// A chain of writes is code of its length, not of its power of two; one that reads what it wrote is refused by name.
TEST(Fusions, ChainsOfWrites) {
  std::string independent, dependent;
  for (int i = 0; i < 20; ++i) {
    auto line = [&](const char *source) {
      return "%w" + std::to_string(i + 1) + " = weft.insert_slice " + source + " into %w" + std::to_string(i) + "[[" +
             std::to_string(i % 5) + ", " + std::to_string(i) + "] : [1, 1]] : tensor<2x9xf32> into tensor<7x40xf32>\n";
    };
    independent += line("%y");
    std::string slice = "%s" + std::to_string(i);
    dependent += slice + " = weft.slice %w" + std::to_string(i) + "[[0, 0] : [2, 9] : [1, 1]] : tensor<7x40xf32>\n" + line(slice.c_str());
  }
  check("%w0: tensor<7x40xf32>, %y: tensor<2x9xf32>", independent, "%w20: tensor<7x40xf32>", 0);
  auto parsed = parseFusion("%w0: tensor<7x40xf32>", dependent, "%w20: tensor<7x40xf32>");
  std::string error;
  EXPECT_FALSE(TestKernel::build(parsed->fusion, error));
  EXPECT_NE(error.find("computed again at too many positions"), std::string::npos) << error;
}

TEST(Fusions, Indexing) {
  check("%t: tensor<11x40xf32>, %i: tensor<2x3xi64>, %p: tensor<3x40xf32>", R"(
    %e = weft.exp %t : tensor<11x40xf32>
    %0 = weft.index_select %e, %i, dim = 0 : tensor<11x40xf32>, tensor<2x3xi64>
    %b = weft.broadcast %p : tensor<3x40xf32> to tensor<2x3x40xf32>
    %1 = weft.add %0, %b : tensor<2x3x40xf32>)",
        "%1: tensor<2x3x40xf32>");
  check("%x: tensor<9x33xf32>, %i: tensor<9x1xi32>", R"(
    %0 = weft.gather %x, %i, dim = 1 : tensor<9x33xf32>, tensor<9x1xi32>
    %1 = weft.reshape %0 : tensor<9x1xf32> to tensor<9xf32>
    %m = weft.reduce_max %x, dims = [1] : tensor<9x33xf32>
    %2 = weft.sub %m, %1 : tensor<9xf32>)",
        "%2: tensor<9xf32>");
  check("%z: tensor<f32>, %i: tensor<3x5xi64>, %s: tensor<3x5x130xf32>", R"(
    %b = weft.broadcast %z : tensor<f32> to tensor<7x130xf32>
    %n = weft.neg %s : tensor<3x5x130xf32>
    %0 = weft.index_add %b, %i, %n, dim = 0 : tensor<7x130xf32>, tensor<3x5xi64>, tensor<3x5x130xf32>)",
        "%0: tensor<7x130xf32>");
}

// Elements with a target each, more than one batch of them: along a dim of its own, beside columns that are all covered, or in part.
TEST(Fusions, ScattersInBatches) {
  auto add = [](const std::string &base, const std::string &source, int64_t dim) {
    auto of = [&](const std::string &text) { return replaced(replaced(text, "BASE", base), "SOURCE", source); };
    check(of("%z: tensor<BASExf32>, %i: tensor<SOURCExi64>, %s: tensor<SOURCExf32>"),
          of("%n = weft.neg %s : tensor<SOURCExf32>\n%0 = weft.scatter_add %z, %i, %n, dim = " + std::to_string(dim) +
             " : tensor<BASExf32>, tensor<SOURCExi64>, tensor<SOURCExf32>"),
          of("%0: tensor<BASExf32>"), 1e-3);
  };
  add("11", "1000", 0);
  add("11x130", "40x130", 0);
  add("11x300", "5x290", 0);
  add("6x11", "6x700", 1);
  add("3x11x4", "2x20x3", 1);
  // The last one wins.
  check("%z: tensor<11xi32>, %i: tensor<600xi64>, %s: tensor<600xi32>", R"(
    %0 = weft.index_put %z, %i, %s, dim = 0 : tensor<11xi32>, tensor<600xi64>, tensor<600xi32>)",
        "%0: tensor<11xi32>", 0);
}

// Rows of a scan sixteen together, and those that are left.
TEST(Fusions, ScansOfRows) {
  for (const char *shape : {"40x37", "16x16", "33x100", "3x40", "2x16x5"})
    for (const char *reverse : {"false", "true"})
      for (const char *element : {"f32", "i64"}) {
        auto of = [&](const std::string &text) { return replaced(replaced(text, "SHAPE", shape), "ELEMENT", element); };
        std::string dim = std::string(shape) == "2x16x5" ? "2" : "1";
        check(of("%x: tensor<SHAPExELEMENT>"),
              of("%n = weft.neg %x : tensor<SHAPExELEMENT>\n%0 = weft.cumsum %n, dim = " + dim + " {reverse = " + reverse +
                 "} : tensor<SHAPExELEMENT>"),
              of("%0: tensor<SHAPExELEMENT>"), 1e-4);
      }
}

TEST(Fusions, IndexOutOfRange) {
  auto parsed = parseFusion("%t: tensor<4x40xf32>, %i: tensor<20xi64>",
                            "%0 = weft.index_select %t, %i, dim = 0 : tensor<4x40xf32>, tensor<20xi64>", "%0: tensor<20x40xf32>");
  std::string error;
  auto kernel = TestKernel::build(parsed->fusion, error);
  ASSERT_TRUE(kernel) << error;
  llvm::SmallVector<HostTensor> inputs;
  for (mlir::Type type : parsed->fusion.getInputs().getTypes()) inputs.push_back(sample(type, 1));
  std::vector<HostTensor> results;
  inputs[1].setInt(19, -4);
  EXPECT_EQ(kernel->run(inputs, results), WEFT_KERNEL_OK);
  for (int64_t bad : {int64_t(4), int64_t(-5), std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
    inputs[1].setInt(19, bad);
    EXPECT_EQ(kernel->run(inputs, results), WEFT_KERNEL_INDEX_OUT_OF_RANGE) << bad;
  }
}

TEST(Fusions, RandomMasks) {
  for (const char *shape : {"4x64", "10x130", "3x7x5", "100000"}) {
    auto of = [&](const std::string &text) { return replaced(text, "S", shape); };
    check(of("%x: tensor<Sxf32>, %s: tensor<2xi64>"), of(R"(
      %r = weft.constant dense<0.1> : tensor<Sxf32>
      %z = weft.constant dense<0.0> : tensor<Sxf32>
      %u = weft.random_uniform %s {offset = 32 : i64} : tensor<Sxf32>
      %k = weft.compare ge %u, %r : tensor<Sxf32>
      %y = weft.select %k, %x, %z : tensor<Sxf32>)"),
          of("%y: tensor<Sxf32>, %k: tensor<Sxi1>"), 0);
  }
}

TEST(Fusions, CausalMaskAndIntegers) {
  check("%x: tensor<2x9x20xf32>", R"(
    %r = weft.iota {dim = 1 : i64} : tensor<2x9x20xi32>
    %c = weft.iota {dim = 2 : i64} : tensor<2x9x20xi32>
    %k = weft.compare le %c, %r : tensor<2x9x20xi32>
    %z = weft.constant dense<0xFF800000> : tensor<2x9x20xf32>
    %y = weft.select %k, %x, %z : tensor<2x9x20xf32>
    %m = weft.reduce_max %y, dims = [2] : tensor<2x9x20xf32>
    %i = weft.cast %k : tensor<2x9x20xi1> to tensor<2x9x20xi64>
    %n = weft.reduce_sum %i, dims = [2] : tensor<2x9x20xi64>)",
        "%y: tensor<2x9x20xf32>, %m: tensor<2x9xf32>, %n: tensor<2x9xi64>");
  check("%x: tensor<f64>, %y: tensor<f64>", R"(
    %0 = weft.pow %x, %y : tensor<f64>
    %1 = weft.compare eq %x, %y : tensor<f64>)",
        "%0: tensor<f64>, %1: tensor<i1>");
}

} // namespace
} // namespace weft::compiler
