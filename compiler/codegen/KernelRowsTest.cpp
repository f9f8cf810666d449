// Fusions with reductions: of rows, over rows, of windows of rows, and scans.
#include "compiler/codegen/FusionCheck.h"
#include "compiler/codegen/FusionText.h"
#include "compiler/codegen/KernelTester.h"

#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using ir::HostTensor;

TEST(Rows, Softmax) {
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
    auto of = [&](const std::string &text) {
      return replaced(replaced(text, "R", rows), "N", n);
    };
    checkFusion(of("%x: tensor<RxNxf32>"), of(body), of("%q: tensor<RxNxf32>, %s: tensor<Rxf32>"));
    // A NaN or an infinity stays in its row.
    checkFusion(of("%x: tensor<RxNxf32>"), of(body), of("%q: tensor<RxNxf32>"), 2e-5, {{0, NAN}});
    checkFusion(of("%x: tensor<RxNxf32>"), of(body), of("%q: tensor<RxNxf32>"), 2e-5,
                {{0, -INFINITY}});
  }
}

// Rows of which several are done together: what is read at a place of its own in each row, a sum
// over all rows, integers, 16-bit floats.
TEST(Rows, ShortRows) {
  for (const char *rows : {"64", "75", "200"}) {
    auto of = [&](const std::string &text) {
      return replaced(text, "R", rows);
    };
    for (const char *n : {"10", "50"}) {
      auto of = [&](const std::string &text) {
        return replaced(replaced(text, "R", rows), "N", n);
      };
      checkFusion(of("%x: tensor<RxNxf32>, %l: tensor<Rxi64>"), of(R"(
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
    checkFusion(of("%x: tensor<Rx7xi32>"), of(R"(
      %k = weft.iota {dim = 1 : i64} : tensor<Rx7xi32>
      %p = weft.mul %x, %k : tensor<Rx7xi32>
      %s = weft.reduce_sum %p, dims = [1] : tensor<Rx7xi32>
      %s1 = weft.reshape %s : tensor<Rxi32> to tensor<Rx1xi32>
      %s2 = weft.broadcast %s1 : tensor<Rx1xi32> to tensor<Rx7xi32>
      %y = weft.sub %p, %s2 : tensor<Rx7xi32>)"),
                of("%y: tensor<Rx7xi32>, %s: tensor<Rxi32>, %p: tensor<Rx7xi32>"), 0);
    checkFusion(of("%x: tensor<Rx16xbf16>"), of(R"(
      %w = weft.cast %x : tensor<Rx16xbf16> to tensor<Rx16xf32>
      %m = weft.reduce_max %w, dims = [1] : tensor<Rx16xf32>
      %m1 = weft.reshape %m : tensor<Rxf32> to tensor<Rx1xf32>
      %m2 = weft.broadcast %m1 : tensor<Rx1xf32> to tensor<Rx16xf32>
      %d = weft.sub %w, %m2 : tensor<Rx16xf32>
      %y = weft.cast %d : tensor<Rx16xf32> to tensor<Rx16xbf16>)"),
                of("%y: tensor<Rx16xbf16>"), 1e-2);
  }
}

// Rows that lie across memory: sums and what is computed from them, rows and columns that do not
// fill tiles, several outer dims, runs that lie apart, bools beside floats, 16-bit floats.
TEST(Rows, Turned) {
  for (auto [rows, n] : {std::pair{"64", "100"}, {"17", "33"}, {"5", "40"}, {"200", "1200"},
                         {"130", "9"}, {"37", "16"}, {"4", "50"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(text, "R", rows), "N", n);
    };
    checkFusion(of("%x: tensor<NxRxf32>, %k: tensor<NxRxi1>, %b: tensor<RxNxf32>"), of(R"(
      %t = weft.transpose %x, [1, 0] : tensor<NxRxf32>
      %l = weft.transpose %k, [1, 0] : tensor<NxRxi1>
      %v = weft.select %l, %t, %b : tensor<RxNxf32>
      %m = weft.reduce_max %v, dims = [1] : tensor<RxNxf32>
      %m1 = weft.reshape %m : tensor<Rxf32> to tensor<Rx1xf32>
      %m2 = weft.broadcast %m1 : tensor<Rx1xf32> to tensor<RxNxf32>
      %d = weft.sub %v, %m2 : tensor<RxNxf32>
      %e = weft.exp %d : tensor<RxNxf32>
      %s = weft.reduce_sum %e, dims = [1] : tensor<RxNxf32>
      %s1 = weft.reshape %s : tensor<Rxf32> to tensor<Rx1xf32>
      %s2 = weft.broadcast %s1 : tensor<Rx1xf32> to tensor<RxNxf32>
      %q = weft.div %e, %s2 : tensor<RxNxf32>)"),
                of("%q: tensor<RxNxf32>, %s: tensor<Rxf32>"));
    checkFusion(of("%x: tensor<NxRxbf16>"), of(R"(
      %w = weft.cast %x : tensor<NxRxbf16> to tensor<NxRxf32>
      %t = weft.transpose %w, [1, 0] : tensor<NxRxf32>
      %s = weft.reduce_sum %t, dims = [1] : tensor<RxNxf32>)"),
                of("%s: tensor<Rxf32>"), 1e-3);
    checkFusion(of("%x: tensor<3x7xNxRxf32>"), of(R"(
      %t = weft.transpose %x, [0, 3, 1, 2] : tensor<3x7xNxRxf32>
      %s = weft.reduce_sum %t, dims = [3] : tensor<3xRx7xNxf32>)"),
                of("%s: tensor<3xRx7xf32>"), 1e-3);
  }
}

// Sums over the dim along which an input lies, where others and the result lie across it: lanes and
// steps that do not fill tiles, bools beside floats, maxima, several chunks, other widths.
TEST(Rows, TurnedNests) {
  for (auto [channels, pixels] : {std::pair{"64", "100"}, {"17", "33"}, {"5", "64"}, {"3", "16"},
                                  {"100", "31"}, {"20", "2113"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(text, "C", channels), "P", pixels);
    };
    checkFusion(of("%x: tensor<3xCxPxf32>, %k: tensor<3xCxPxi1>, %b: tensor<3xPxCxf32>"), of(R"(
      %t = weft.transpose %x, [0, 2, 1] : tensor<3xCxPxf32>
      %l = weft.transpose %k, [0, 2, 1] : tensor<3xCxPxi1>
      %v = weft.select %l, %t, %b : tensor<3xPxCxf32>
      %m = weft.reduce_max %v, dims = [1] : tensor<3xPxCxf32>
      %s = weft.reduce_sum %t, dims = [1] : tensor<3xPxCxf32>)"),
                of("%m: tensor<3xCxf32>, %s: tensor<3xCxf32>"), 1e-4);
    checkFusion(of("%x: tensor<3xCxPxbf16>"), of(R"(
      %w = weft.cast %x : tensor<3xCxPxbf16> to tensor<3xCxPxf64>
      %t = weft.transpose %w, [0, 2, 1] : tensor<3xCxPxf64>
      %s = weft.reduce_sum %t, dims = [1] : tensor<3xPxCxf64>)"),
                of("%s: tensor<3xCxf64>"), 1e-9);
  }
  // Two dims of an image, which another input joins or holds apart.
  for (const char *mask : {"4x9x7x1", "4x1x7x1"})
    checkFusion(replaced("%x: tensor<4x20x9x7xf64>, %k: tensor<Mxf64>", "M", mask),
                replaced(R"(
      %t = weft.transpose %x, [0, 2, 3, 1] : tensor<4x20x9x7xf64>
      %b = weft.broadcast %k : tensor<Mxf64> to tensor<4x9x7x20xf64>
      %p = weft.mul %t, %b : tensor<4x9x7x20xf64>
      %s = weft.reduce_sum %p, dims = [1, 2] : tensor<4x9x7x20xf64>)",
                         "M", mask),
                "%s: tensor<4x20xf64>", 1e-12);
}

// Rows that fill a part of a vector, so many that chains go side by side: rows that fill no tile,
// numbers of a row and of a column beside them, a function of each element, and the same beside
// what is stored, where each row is a vector.
TEST(Rows, SumsOfNarrowRows) {
  for (auto [rows, n] : {std::pair{"17000", "2"}, {"40011", "3"}, {"17000", "5"}, {"33500", "8"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(text, "R", rows), "N", n);
    };
    std::string body = of(R"(
      %v = weft.broadcast %w : tensor<Rx1xf32> to tensor<RxNxf32>
      %c = weft.broadcast %b : tensor<Nxf32> to tensor<RxNxf32>
      %p = weft.mul %x, %v : tensor<RxNxf32>
      %a = weft.add %p, %c : tensor<RxNxf32>
      %s = weft.reduce_sum %a, dims = [0] : tensor<RxNxf32>
      %m = weft.reduce_max %x, dims = [0] : tensor<RxNxf32>)"),
                signature = of("%x: tensor<RxNxf32>, %w: tensor<Rx1xf32>, %b: tensor<Nxf32>");
    checkFusion(signature, body, of("%s: tensor<Nxf32>, %m: tensor<Nxf32>"), 1e-4);
    checkFusion(signature, body, of("%p: tensor<RxNxf32>, %s: tensor<Nxf32>"), 1e-4);
    std::string wide = of(R"(
      %d = weft.cast %x : tensor<RxNxbf16> to tensor<RxNxf64>
      %e = weft.exp %d : tensor<RxNxf64>
      %s = weft.reduce_sum %e, dims = [0] : tensor<RxNxf64>)");
    checkFusion(of("%x: tensor<RxNxbf16>"), wide, of("%s: tensor<Nxf64>"), 1e-9);
    checkFusion(of("%x: tensor<RxNxbf16>"), wide, of("%d: tensor<RxNxf64>, %s: tensor<Nxf64>"),
                1e-9);
  }
}

// Points against points: the rows that are done together lie along two dims, the inner of which may
// end within a group, or groups with it. Points of 5 to 16 numbers are transposed.
TEST(Rows, ShortRowsOfTwoDims) {
  struct Case {
    const char *centres, *points, *numbers;
  };
  for (auto [n, m, k] : {Case{"6", "32", "3"}, {"5", "33", "3"}, {"70", "1", "3"}, {"40", "3", "3"},
                         {"3", "101", "3"}, {"4", "48", "5"}, {"3", "77", "8"}, {"5", "33", "16"},
                         {"3", "64", "16"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(replaced(text, "R", n), "M", m), "K", k);
    };
    checkFusion(of("%x: tensor<MxKxf32>, %c: tensor<Rx1xKxf32>, %w: tensor<Mxf32>"), of(R"(
      %a = weft.broadcast %x : tensor<MxKxf32> to tensor<RxMxKxf32>
      %b = weft.broadcast %c : tensor<Rx1xKxf32> to tensor<RxMxKxf32>
      %d = weft.sub %a, %b : tensor<RxMxKxf32>
      %q = weft.mul %d, %d : tensor<RxMxKxf32>
      %s = weft.reduce_sum %q, dims = [2] : tensor<RxMxKxf32>
      %r = weft.sqrt %s : tensor<RxMxf32>
      %f = weft.broadcast %w : tensor<Mxf32> to tensor<RxMxf32>
      %y = weft.mul %r, %f : tensor<RxMxf32>)"),
                of("%y: tensor<RxMxf32>, %s: tensor<RxMxf32>, %d: tensor<RxMxKxf32>"), 1e-5);
  }
}

// What is stored with its dims in another order reads the sums of the same rows.
TEST(Rows, ShortRowsStoredTransposed) {
  for (auto [a, b] : {std::pair{"17", "4"}, {"16", "4"}, {"5", "13"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(text, "A", a), "B", b);
    };
    checkFusion(of("%x: tensor<AxBx1x2xf32>"), of(R"(
      %s = weft.reduce_sum %x, dims = [3] : tensor<AxBx1x2xf32>
      %r = weft.reshape %s : tensor<AxBx1xf32> to tensor<AxBx1x1xf32>
      %f = weft.broadcast %r : tensor<AxBx1x1xf32> to tensor<AxBx1x2xf32>
      %d = weft.sub %x, %f : tensor<AxBx1x2xf32>
      %t = weft.transpose %d, [3, 2, 0, 1] : tensor<AxBx1x2xf32>)"),
                of("%d: tensor<AxBx1x2xf32>, %t: tensor<2x1xAxBxf32>"), 1e-5);
  }
}

// 63 rows are done one by one, of 64 sixteen together: a row's bits do not depend on how many there
// are.
TEST(Rows, RowsTogetherHaveTheBitsOfRowsByThemselves) {
  for (int n : {2, 3, 4, 7, 10, 16, 17, 50, 128}) {
    std::vector<HostTensor> results[2];
    HostTensor many;
    for (int rows : {64, 63}) {
      auto of = [&](const std::string &text) {
        return replaced(replaced(text, "R", std::to_string(rows)), "N", std::to_string(n));
      };
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
      if (rows == 64)
        many = input;
      for (int64_t i = 0; i < input.size(); ++i)
        input.set(i, many.getDouble(i));
      EXPECT_EQ(kernel->run({input}, results[64 - rows]), WEFT_KERNEL_OK);
    }
    for (size_t r = 0; r < 2; ++r)
      for (int64_t i = 0; i < results[1][r].size(); ++i)
        ASSERT_EQ(results[0][r].getDouble(i), results[1][r].getDouble(i))
            << "rows of " << n << ", result " << r << ", element " << i;
  }
}

TEST(Rows, LayerNormBackward) {
  for (auto [rows, n] : {std::pair{"100", "64"}, {"7", "33"}, {"300", "128"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(text, "R", rows), "N", n);
    };
    checkFusion(
        of("%x: tensor<RxNxf32>, %g: tensor<RxNxf32>, %w: tensor<Nxf32>"), of(R"(
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
        of("%dx: tensor<RxNxf32>, %dw: tensor<Nxf32>, %db: tensor<Nxf32>, %rstd: tensor<Rxf32>"),
        1e-3);
  }
}

TEST(Rows, ReductionsOverRowsAndEverything) {
  for (auto [rows, n] : {std::pair{"200", "37"}, {"5", "100"}, {"3000", "16"}, {"64", "130"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(text, "R", rows), "N", n);
    };
    checkFusion(of("%x: tensor<RxNxf32>"), of(R"(
      %e = weft.mul %x, %x : tensor<RxNxf32>
      %s = weft.reduce_sum %e, dims = [0] : tensor<RxNxf32>
      %m = weft.reduce_max %x, dims = [0] : tensor<RxNxf32>
      %n = weft.neg %s : tensor<Nxf32>)"),
                of("%e: tensor<RxNxf32>, %n: tensor<Nxf32>, %m: tensor<Nxf32>"), 1e-4);
    checkFusion(of("%x: tensor<RxNxf32>, %b: tensor<Nxf32>"), of(R"(
      %c = weft.broadcast %b : tensor<Nxf32> to tensor<RxNxf32>
      %e = weft.mul %x, %c : tensor<RxNxf32>
      %s = weft.reduce_sum %e, dims = [0, 1] : tensor<RxNxf32>
      %t = weft.add %s, %s : tensor<f32>)"),
                of("%t: tensor<f32>"), 1e-3);
    checkFusion(of("%x: tensor<RxNxf32>"), of(R"(
      %s = weft.reduce_max %x, dims = [1] : tensor<RxNxf32>
      %e = weft.exp %s : tensor<Rxf32>
      %t = weft.reduce_sum %e, dims = [0] : tensor<Rxf32>)"),
                of("%t: tensor<f32>, %e: tensor<Rxf32>"), 1e-3);
  }
  checkFusion("%x: tensor<100000xf32>", "%s = weft.reduce_sum %x, dims = [0] : tensor<100000xf32>",
              "%s: tensor<f32>", 1e-3);
  checkFusion("%x: tensor<100000xi64>", "%s = weft.reduce_sum %x, dims = [0] : tensor<100000xi64>",
              "%s: tensor<i64>", 0);
}

// In a kernel of [n, n], rows and columns read one vector of n: it lies along both.
TEST(Rows, SharedByRowsAndColumnsOfASquare) {
  for (int64_t n : {4, 7, 16, 40}) {
    auto of = [n](std::string text) {
      return replaced(replaced(std::move(text), "SQUARE", "tensor<NxNxf32>"), "N",
                      std::to_string(n));
    };
    std::string head = of("%x: SQUARE, %a: tensor<Nxf32>"), scaled = of(R"(
      %0 = weft.reduce_sum %x, dims = [1] : SQUARE
      %1 = weft.mul %0, %v : tensor<Nxf32>
      %2 = weft.reshape %1 : tensor<Nxf32> to tensor<Nx1xf32>
      %3 = weft.broadcast %2 : tensor<Nx1xf32> to SQUARE
      %4 = weft.mul %x, %3 : SQUARE
      %5 = weft.reduce_sum %4, dims = [0] : SQUARE
    )");
    // An input, something that is computed from one, and a constant; on either side.
    for (const char *vector : {"%v = weft.add %a, %a : tensor<Nxf32>",
                               "%v = weft.constant dense<0.25> : tensor<Nxf32>"})
      for (const char *last : {"%6 = weft.mul %5, %v : tensor<Nxf32>",
                               "%6 = weft.mul %v, %5 : tensor<Nxf32>"}) {
        checkFusion(head, of(vector) + scaled + of(last), of("%6: tensor<Nxf32>"), 2e-4);
        checkFusion(head, of(vector) + scaled + of(last),
                    of("%1: tensor<Nxf32>, %6: tensor<Nxf32>"), 2e-4);
      }
    // A norm of rows, scaled by columns, and the mean over rows: one constant, 1/n, for both.
    checkFusion(of("%x: SQUARE, %w: tensor<Nxf32>"), of(R"(
      %c = weft.constant dense<0.125> : tensor<Nxf32>
      %0 = weft.reduce_sum %x, dims = [1] : SQUARE
      %1 = weft.mul %0, %c : tensor<Nxf32>
      %2 = weft.reshape %1 : tensor<Nxf32> to tensor<Nx1xf32>
      %3 = weft.broadcast %2 : tensor<Nx1xf32> to SQUARE
      %4 = weft.sub %x, %3 : SQUARE
      %5 = weft.broadcast %w : tensor<Nxf32> to SQUARE
      %6 = weft.mul %4, %5 : SQUARE
      %7 = weft.add %6, %5 : SQUARE
      %8 = weft.reduce_sum %7, dims = [0] : SQUARE
      %9 = weft.mul %8, %c : tensor<Nxf32>)"),
                of("%9: tensor<Nxf32>"), 2e-4);
    checkFusion(head, replaced(scaled, "%v", "%a") + of("%6 = weft.mul %5, %a : tensor<Nxf32>"),
                of("%6: tensor<Nxf32>"), 2e-4);
  }
}

TEST(Rows, ReductionsOverMiddleDims) {
  for (const char *dims : {"[1]", "[0, 2]", "[1, 3]", "[0, 2, 3]", "[2]", "[1, 2]"}) {
    for (const char *shape : {"3x4x5x70", "2x40x3x16", "5x6x7x8"}) {
      auto parsed = parseFusion(replaced("%x: tensor<Sxf32>", "S", shape),
                                replaced("%y = weft.neg %x : tensor<Sxf32>", "S", shape),
                                replaced("%y: tensor<Sxf32>", "S", shape));
      llvm::SmallVector<int64_t> kept;
      auto type = mlir::cast<mlir::RankedTensorType>(parsed->fusion.getInputs()[0].getType());
      for (int64_t i = 0; i < 4; ++i)
        if (!llvm::StringRef(dims).contains(std::to_string(i)))
          kept.push_back(type.getDimSize(i));
      std::string result = "tensor<";
      for (int64_t size : kept)
        result += std::to_string(size) + "x";
      result += "f32>";
      std::string body = R"(
        %e = weft.mul %x, %x : tensor<Sxf32>
        %s = weft.reduce_sum %e, dims = D : tensor<Sxf32>
        %m = weft.reduce_max %e, dims = D : tensor<Sxf32>
        %t = weft.sub %s, %m : T)";
      checkFusion(replaced("%x: tensor<Sxf32>", "S", shape),
                  replaced(replaced(replaced(body, "S", shape), "D", dims), ": T", ": " + result),
                  "%t: " + result, 1e-4);
    }
  }
}

// batch_norm: rows that lie in several runs, which vectors fill, or not, or more than one block of
// a sum; what is expensive waits in scratch.
// The means of an average pooling where channels are innermost, as they are and with channels in
// front: channels fill blocks of vectors, or end in one.
TEST(Rows, MeansOverWindowsInTwoOrders) {
  for (const char *channels : {"8", "96", "128"}) {
    auto of = [&](const std::string &text) {
      return replaced(text, "C", channels);
    };
    checkFusion(of("%x: tensor<2x6x2x5x2xCxf32>, %b: tensor<Cxf32>"), of(R"(
      %0 = weft.reduce_sum %x, dims = [2, 4] : tensor<2x6x2x5x2xCxf32>
      %1 = weft.broadcast %b : tensor<Cxf32> to tensor<2x6x5xCxf32>
      %2 = weft.mul %0, %1 : tensor<2x6x5xCxf32>
      %3 = weft.transpose %2, [0, 3, 1, 2] : tensor<2x6x5xCxf32>
      %4 = weft.neg %3 : tensor<2xCx6x5xf32>
      %5 = weft.reshape %4 : tensor<2xCx6x5xf32> to tensor<2xCx30xf32>)"),
                of("%2: tensor<2x6x5xCxf32>, %4: tensor<2xCx6x5xf32>, %5: tensor<2xCx30xf32>"));
  }
}

TEST(Rows, RowsOfSeveralRuns) {
  struct Sizes {
    const char *n, *c, *h, *w;
    double inverse;
  };
  for (Sizes sizes : {Sizes{"3", "5", "4", "8", 96},
                      {"5", "3", "7", "7", 245},
                      {"2", "2", "3", "1", 6},
                      {"2", "3", "90", "100", 18000}}) {
    auto of = [&](const char *text) {
      std::string full =
          std::string(sizes.n) + "x" + sizes.c + "x" + sizes.h + "x" + sizes.w + "xf32";
      std::string with =
          replaced(replaced(text, "FULL", full), "ROW", std::string(sizes.c) + "xf32");
      return replaced(replaced(with, "ONES", std::string(sizes.c) + "x1x1xf32"), "INV",
                      std::to_string(1 / sizes.inverse));
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
    checkFusion(of("%x: tensor<FULL>"), of(forward.c_str()),
                of("%xh: tensor<FULL>, %mean: tensor<ROW>, %var: tensor<ROW>"), 2e-4);
    std::string expensive = std::string("%e = weft.exp %x : tensor<FULL>") + centered;
    checkFusion(of("%x: tensor<FULL>"), of(expensive.c_str()), of("%xh: tensor<FULL>"), 5e-4);
    std::string backward = std::string("%e = weft.neg %x : tensor<FULL>") + centered + R"(
      %db = weft.reduce_sum %g, dims = [0, 2, 3] : tensor<FULL>
      %gx = weft.mul %g, %xh : tensor<FULL>
      %dw = weft.reduce_sum %gx, dims = [0, 2, 3] : tensor<FULL>
      %dw1 = weft.reshape %dw : tensor<ROW> to tensor<ONES>
      %dw2 = weft.broadcast %dw1 : tensor<ONES> to tensor<FULL>
      %p = weft.mul %xh, %dw2 : tensor<FULL>
      %dx = weft.sub %g, %p : tensor<FULL>)";
    checkFusion(of("%x: tensor<FULL>, %g: tensor<FULL>"), of(backward.c_str()),
                of("%dx: tensor<FULL>, %dw: tensor<ROW>, %db: tensor<ROW>"), 2e-3);
  }
}

// group_norm: rows are a sample's groups; what weight and bias get are sums over samples and
// pixels, channel by channel, whose runs fill vectors or not, or are more than one block of a sum.
// The last ones are instance_norm (rows are channels), one group (rows are samples), one sample
// (nothing of the outer dims is reduced).
TEST(Rows, SumsOfPartsOfRows) {
  struct Sizes {
    int n, groups, channels, pixels;
  };
  for (Sizes sizes : {Sizes{3, 2, 4, 49},
                      {3, 2, 3, 5},
                      {70, 3, 2, 16},
                      {2, 2, 2, 9000},
                      {3, 5, 1, 33},
                      {5, 1, 6, 20},
                      {1, 3, 4, 40}}) {
    auto of = [&](const char *text) {
      std::string n = std::to_string(sizes.n), groups = std::to_string(sizes.groups),
                  channels = std::to_string(sizes.groups * sizes.channels);
      std::string row = std::to_string(sizes.channels * sizes.pixels),
                  pixels = std::to_string(sizes.pixels);
      std::string with = replaced(text, "FULL", n + "x" + channels + "x" + pixels + "xf32");
      with = replaced(replaced(with, "ROWS", n + "x" + groups + "x" + row + "xf32"), "ROW",
                      n + "x" + groups + "xf32");
      with = replaced(replaced(with, "ONES", n + "x" + groups + "x1xf32"), "CHANNELS",
                      channels + "xf32");
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
    checkFusion(of("%x: tensor<FULL>, %g: tensor<FULL>, %w: tensor<CHANNELS>"), of(body),
                of("%dx: tensor<FULL>, %step: tensor<CHANNELS>, %most: tensor<CHANNELS>, %mean: "
                   "tensor<ROW>"),
                2e-3);
  }
}

// The maxima over the windows of a normalised image, whose rows are channels (of several runs) or
// groups of them; with the image beside it, or a slice of it in another dim.
TEST(Rows, WindowsOfNormalizedRows) {
  struct Sizes {
    int n, groups, channels, height, width, kernel, padding;
    bool batch; // statistics over samples as well
  };
  for (Sizes sizes : {Sizes{3, 5, 1, 12, 40, 3, 1, true},
                      {2, 3, 1, 6, 6, 2, 0, true},
                      {3, 2, 3, 7, 9, 3, 1, false},
                      {2, 1, 2, 8, 34, 2, 0, false}}) {
    int channels = sizes.groups * sizes.channels;
    auto images = [&](int height, int width, const char *element = "f32") {
      return "tensor<" + std::to_string(sizes.n) + "x" + std::to_string(sizes.groups) + "x" +
             std::to_string(sizes.channels) + "x" + std::to_string(height) + "x" +
             std::to_string(width) + "x" + element + ">";
    };
    int padded = 2 * sizes.padding, rows = (sizes.height + padded - sizes.kernel) / 2 + 1,
        columns = (sizes.width + padded - sizes.kernel) / 2 + 1;
    std::string image = images(sizes.height, sizes.width),
                pad = images(sizes.height + padded, sizes.width + padded),
                pooled = images(rows, columns);
    std::string n = sizes.batch ? "1" : std::to_string(sizes.n),
                groups = std::to_string(sizes.groups);
    std::string row =
        sizes.batch ? "tensor<" + groups + "xf32>" : "tensor<" + n + "x" + groups + "xf32>";
    std::string ones = "tensor<" + n + "x" + groups + "x1x1x1xf32>",
                dims = sizes.batch ? "[0, 2, 3, 4]" : "[2, 3, 4]";
    double count = static_cast<double>(sizes.channels * sizes.height * sizes.width) *
                   (sizes.batch ? sizes.n : 1);
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
      body += "%base = weft.constant dense<-1.0> : PAD\n%pad = weft.insert_slice %r into %base[[0, "
              "0, 0, " +
              one + ", " + one + "] : [1, 1, 1, 1, 1]] : IMAGE into PAD\n";
      from = "%pad";
    }
    std::string last;
    for (int y = 0; y < sizes.kernel; ++y)
      for (int x = 0; x < sizes.kernel; ++x) {
        std::string number = std::to_string(y * sizes.kernel + x), tap = "%t" + number;
        body += tap + " = weft.slice " + from + "[[0, 0, 0, " + std::to_string(y) + ", " +
                std::to_string(x) + "] : [" + std::to_string(sizes.n) + ", " + groups + ", " +
                std::to_string(sizes.channels) + ", " + std::to_string(y + 2 * rows - 1) + ", " +
                std::to_string(x + 2 * columns - 1) +
                "] : [1, 1, 1, 2, 2]] : " + (sizes.padding ? "PAD" : "IMAGE") + "\n";
        if (!last.empty())
          body += "%m" + number + " = weft.maximum " + last + ", " + tap + " : POOLED\n";
        last = last.empty() ? tap : "%m" + number;
      }
    auto of = [&](std::string text) {
      for (auto [what, by] : {std::pair<std::string, std::string>{"INV", std::to_string(1 / count)},
                              {"POOLED", pooled},
                              {"PAD", pad},
                              {"IMAGE", image},
                              {"ONES", ones},
                              {"ROW", row},
                              {"DIMS", dims}})
        text = replaced(text, what, by);
      return text;
    };
    SCOPED_TRACE(channels);
    checkFusion(of("%x: IMAGE"), of(body), of(last + ": POOLED, %mean: ROW"), 1e-4);
    checkFusion(of("%x: IMAGE"), of(body), of("%r: IMAGE, " + last + ": POOLED"), 1e-4);
  }
}

// A rotation of what a row's reduction has normalised: its halves change places within the row.
TEST(Rows, RotationsOfNormalizedRows) {
  for (auto [half, whole] : {std::pair{"16", "32"}, {"5", "10"}, {"64", "128"}}) {
    auto of = [half = std::string(half), whole = std::string(whole)](const char *text) {
      return replaced(replaced(text, "HALF", half), "WHOLE", whole);
    };
    checkFusion(of("%x: tensor<6x3xWHOLExf32>, %c: tensor<6x1xWHOLExf32>"), of(R"(
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
                of("%y: tensor<6x3xWHOLExf32>, %total: tensor<6x3xf32>, %a: tensor<6x3xHALFxf32>"),
                1e-4);
  }
}

// Few long rows: the columns are cut into blocks, the last one shorter.
// The normalised row is there, too: what lies in a part of a line keeps the lines apart.
TEST(Rows, PartsOfLinesOfNormalizedRows) {
  for (auto [slice, shape] : {std::pair{"[[0, 0, 3] : [2, 4, 5] : [1, 1, 1]]", "2x4x2"},
                              {"[[0, 1, 0] : [2, 3, 5] : [1, 1, 1]]", "2x2x5"}}) {
    auto of = [&, slice = slice, shape = shape](const std::string &text) {
      return replaced(replaced(text, "SLICE", slice), "SHAPE", shape);
    };
    checkFusion("%x: tensor<2x4x5xf32>", of(R"(
      %s = weft.reduce_sum %x, dims = [1, 2] : tensor<2x4x5xf32>
      %r = weft.reshape %s : tensor<2xf32> to tensor<2x1x1xf32>
      %b = weft.broadcast %r : tensor<2x1x1xf32> to tensor<2x4x5xf32>
      %d = weft.sub %x, %b : tensor<2x4x5xf32>
      %p = weft.slice %dSLICE : tensor<2x4x5xf32>
      %q = weft.neg %p : tensor<SHAPExf32>)"),
                of("%d: tensor<2x4x5xf32>, %q: tensor<SHAPExf32>"));
  }
}

// A row that becomes a part of something is one element there, or one of each row.
TEST(Rows, WritesOfSums) {
  checkFusion("%x: tensor<6x1xf32>, %z: tensor<6xf32>", R"(
    %s = weft.reduce_sum %x, dims = [0] : tensor<6x1xf32>
    %w = weft.insert_slice %s into %z[[2] : [1]] : tensor<1xf32> into tensor<6xf32>)",
              "%w: tensor<6xf32>");
  checkFusion("%x: tensor<5x40xf32>, %z: tensor<5x40xf32>", R"(
    %s = weft.reduce_sum %x, dims = [1] : tensor<5x40xf32>
    %r = weft.reshape %s : tensor<5xf32> to tensor<5x1xf32>
    %w = weft.insert_slice %r into %z[[0, 33] : [1, 1]] : tensor<5x1xf32> into tensor<5x40xf32>
    %a = weft.add %w, %x : tensor<5x40xf32>)",
              "%a: tensor<5x40xf32>");
}

TEST(Rows, SumsOverFewLongRows) {
  for (int n : {2047, 2048, 3000, 5 * 1024}) {
    std::string rows = "tensor<3x" + std::to_string(n) + "xf32>",
                row = "tensor<" + std::to_string(n) + "xf32>";
    checkFusion("%x: " + rows + ", %y: " + row,
                "%b = weft.broadcast %y : " + row + " to " + rows + "\n%0 = weft.mul %x, %b : " +
                    rows + "\n%1 = weft.reduce_sum %0, dims = [0] : " + rows,
                "%0: " + rows + ", %1: " + row);
  }
  checkFusion("%x: tensor<40x50x60xf32>",
              "%0 = weft.reduce_sum %x, dims = [0] : tensor<40x50x60xf32>",
              "%0: tensor<50x60xf32>");
}

// Extremes of groups of vectors: zeros of both signs, whose inverse shows the sign, and NaN.
TEST(Rows, ExtremesOfGroups) {
  for (const char *element : {"f32", "f64"})
    for (const char *n : {"128", "300", "1031"}) {
      auto of = [&](const std::string &text) {
        return replaced(replaced(text, "N", n), "T", element);
      };
      std::string body = of(R"(
      %zero = weft.constant dense<0.0> : tensor<9xNxT>
      %one = weft.constant dense<1.0> : tensor<9xT>
      %z = weft.mul %x, %zero : tensor<9xNxT>
      %p = weft.abs %z : tensor<9xNxT>
      %m = weft.neg %p : tensor<9xNxT>
      %a = weft.reduce_max %z, dims = [1] : tensor<9xNxT>
      %b = weft.reduce_min %z, dims = [1] : tensor<9xNxT>
      %c = weft.reduce_max %m, dims = [1] : tensor<9xNxT>
      %d = weft.reduce_min %p, dims = [1] : tensor<9xNxT>
      %a1 = weft.div %one, %a : tensor<9xT>
      %b1 = weft.div %one, %b : tensor<9xT>
      %c1 = weft.div %one, %c : tensor<9xT>
      %d1 = weft.div %one, %d : tensor<9xT>)");
      checkFusion(of("%x: tensor<9xNxT>"), body,
                  of("%a1: tensor<9xT>, %b1: tensor<9xT>, %c1: tensor<9xT>, %d1: tensor<9xT>"), 0);
      std::string extremes = of(R"(
      %a = weft.reduce_max %x, dims = [1] : tensor<9xNxT>
      %b = weft.reduce_min %x, dims = [1] : tensor<9xNxT>)");
      for (const char *result : {"%a: tensor<9xT>", "%b: tensor<9xT>"})
        for (double special : {double(NAN), double(-INFINITY), double(INFINITY), 1e30, -1e30})
          checkFusion(of("%x: tensor<9xNxT>"), extremes, of(result), 0, {{0, special}});
    }
}

// Rows that lie side by side: several in a vector, those that are left, rows far apart in memory
// whose elements wait in scratch, sums of many, outputs of each kind.
TEST(Rows, SideBySide) {
  struct Sizes {
    const char *full, *row, *one, *dim;
  };
  for (Sizes sizes : {Sizes{"5x21x50", "5x50", "5x1x50", "1"}, Sizes{"3x130x100", "3x100", "3x1x100", "1"},
                      Sizes{"2x7x512", "2x512", "2x1x512", "1"}, Sizes{"40x300", "300", "1x300", "0"},
                      Sizes{"256x16", "16", "1x16", "0"}, Sizes{"9x3x4x1024", "9x4x1024", "9x1x4x1024", "1"}}) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(replaced(replaced(text, "FULL", sizes.full), "ROW", sizes.row), "ONE",
                               sizes.one),
                      "DIM", sizes.dim);
    };
    std::string softmax = of(R"(
      %m = weft.reduce_max %x, dims = [DIM] : tensor<FULLxf32>
      %m1 = weft.reshape %m : tensor<ROWxf32> to tensor<ONExf32>
      %m2 = weft.broadcast %m1 : tensor<ONExf32> to tensor<FULLxf32>
      %d = weft.sub %x, %m2 : tensor<FULLxf32>
      %e = weft.exp %d : tensor<FULLxf32>
      %s = weft.reduce_sum %e, dims = [DIM] : tensor<FULLxf32>
      %s1 = weft.reshape %s : tensor<ROWxf32> to tensor<ONExf32>
      %s2 = weft.broadcast %s1 : tensor<ONExf32> to tensor<FULLxf32>
      %q = weft.div %e, %s2 : tensor<FULLxf32>)");
    checkFusion(of("%x: tensor<FULLxf32>"), softmax, of("%q: tensor<FULLxf32>"));
    checkFusion(of("%x: tensor<FULLxf32>"), softmax,
                of("%q: tensor<FULLxf32>, %s: tensor<ROWxf32>, %d: tensor<FULLxf32>"), 2e-5,
                {{0, NAN}});
    checkFusion(of("%x: tensor<FULLxf32>, %w: tensor<FULLxf32>, %b: tensor<ROWxf32>"), of(R"(
      %p = weft.mul %x, %w : tensor<FULLxf32>
      %s = weft.reduce_sum %p, dims = [DIM] : tensor<FULLxf32>
      %t = weft.add %s, %b : tensor<ROWxf32>
      %t1 = weft.reshape %t : tensor<ROWxf32> to tensor<ONExf32>
      %t2 = weft.broadcast %t1 : tensor<ONExf32> to tensor<FULLxf32>
      %d = weft.sub %p, %t2 : tensor<FULLxf32>
      %y = weft.mul %d, %w : tensor<FULLxf32>
      %v = weft.mul %d, %d : tensor<FULLxf32>
      %z = weft.reduce_sum %v, dims = [DIM] : tensor<FULLxf32>)"),
                of("%y: tensor<FULLxf32>, %z: tensor<ROWxf32>, %p: tensor<FULLxf32>"), 1e-3);
    checkFusion(of("%x: tensor<FULLxi32>"), of(R"(
      %k = weft.iota {dim = DIM : i64} : tensor<FULLxi32>
      %p = weft.mul %x, %k : tensor<FULLxi32>
      %s = weft.reduce_sum %p, dims = [DIM] : tensor<FULLxi32>
      %s1 = weft.reshape %s : tensor<ROWxi32> to tensor<ONExi32>
      %s2 = weft.broadcast %s1 : tensor<ONExi32> to tensor<FULLxi32>
      %y = weft.sub %p, %s2 : tensor<FULLxi32>
      %b = weft.compare gt %p, %s2 : tensor<FULLxi32>)"),
                of("%y: tensor<FULLxi32>, %s: tensor<ROWxi32>, %b: tensor<FULLxi1>"), 0);
    checkFusion(of("%x: tensor<FULLxbf16>"), of(R"(
      %w = weft.cast %x : tensor<FULLxbf16> to tensor<FULLxf32>
      %m = weft.reduce_max %w, dims = [DIM] : tensor<FULLxf32>
      %m1 = weft.reshape %m : tensor<ROWxf32> to tensor<ONExf32>
      %m2 = weft.broadcast %m1 : tensor<ONExf32> to tensor<FULLxf32>
      %d = weft.sub %w, %m2 : tensor<FULLxf32>
      %y = weft.cast %d : tensor<FULLxf32> to tensor<FULLxbf16>)"),
                of("%y: tensor<FULLxbf16>"), 1e-2);
  }
}

// Each scan of `n`, in a fusion that computes it, along `dim` of a shape, from both ends.
static void checkScans(const std::string &shape, const std::string &dim,
                       const std::vector<const char *> &elements = {"f32", "i64"}) {
  auto check = [&](const std::string &element, const std::string &scan, const std::string &reverse,
                   const std::string &result) {
    auto of = [&](std::string text) {
      for (auto [from, to] : {std::pair("SCAN", scan),
                              {"REVERSE", reverse},
                              {"DIM", dim},
                              {"RESULT", result},
                              {"SHAPE", shape},
                              {"ELEMENT", element}})
        text = replaced(text, from, to);
      return text;
    };
    checkFusion(
        of("%x: tensor<SHAPExELEMENT>, %a: tensor<SHAPExELEMENT>"),
        of("%n = weft.sub %a, %x : tensor<SHAPExELEMENT>\n%0 = weft.SCAN, dim = DIM REVERSE "
           ": tensor<SHAPExELEMENT>"),
        of("%0: tensor<SHAPExRESULT>"), 1e-4);
  };
  for (const char *element : elements) {
    for (const char *reverse : {"", "{reverse = true}"}) {
      check(element, "cumsum %n", reverse, element);
      check(element, "recurrence %a, %n", reverse, element);
    }
    check(element, "cumprod %n", "", element);
    check(element, "cum_arg_max %n", "", "i64");
    check(element, "cum_arg_min %n", "", "i64");
  }
}

// Rows of a scan sixteen together, and those that are left.
TEST(Rows, ScansOfRows) {
  checkScans("40x37", "1", {"f32", "f64", "i64"});
  for (const char *shape : {"16x16", "33x100", "3x40"})
    checkScans(shape, "1");
  checkScans("2x16x5", "2");
}

// Columns of a scan: some rows side by side, in blocks of sixteen, and what is left of both.
TEST(Rows, ScansOfColumns) {
  checkScans("37x40", "0", {"f32", "f64", "i64"});
  for (const char *shape : {"16x16", "5x3", "50x2100"})
    checkScans(shape, "0");
  for (const char *shape : {"2x33x5", "2x24x17"})
    checkScans(shape, "1");
}

} // namespace
} // namespace weft::compiler
