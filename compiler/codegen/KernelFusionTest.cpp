// Fusions of elementwise ops, of movement and of indices.
#include "compiler/codegen/FusionCheck.h"
#include "compiler/codegen/FusionText.h"
#include "compiler/codegen/KernelTester.h"

#include <cstdlib>
#include <limits>

#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using ir::HostTensor;

TEST(Fusions, Elementwise) {
  for (const char *n : {"1", "15", "16", "17", "100", "1024", "1025", "5000"}) {
    auto of = [&](const std::string &text) {
      return replaced(text, "N", n);
    };
    checkFusion(of("%a: tensor<Nxf32>, %b: tensor<Nxf32>, %s: tensor<f32>"), of(R"(
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
      std::string body =
          std::string("%c = weft.constant dense<0.7153> : tensor<5xT>\n %0 = weft.") + first +
          " %c : tensor<5xT>\n %1 = weft.tanh %0 : tensor<5xT>\n %2 = weft.erf %1 : tensor<5xT>\n"
          "%3 = weft.exp %2 : tensor<5xT>\n %4 = weft.log %3 : tensor<5xT>\n %5 = weft.gelu %4 : "
          "tensor<5xT>\n"
          "%6 = weft.add %5, %x : tensor<5xT>";
      checkFusion(replaced("%x: tensor<5xT>", "T", type), replaced(body, "T", type),
                  replaced("%6: tensor<5xT>, %5: tensor<5xT>", "T", type));
    }
}

// Where a register has one lane of the result alone, which several need, the element is that of its
// row.
TEST(Fusions, RepeatedRowsWhoseTailIsOneLane) {
  for (const char *type : {"f64", "i64", "f32", "i32"})
    for (const char *n : {"3", "5", "7", "9", "11"}) {
      auto of = [&](const std::string &text) {
        return replaced(replaced(text, "N", n), "T", type);
      };
      checkFusion(of("%x: tensor<NxT>, %y: tensor<NxNxT>, %z: tensor<NxNxT>"), of(R"(
        %0 = weft.reshape %x : tensor<NxT> to tensor<Nx1xT>
        %1 = weft.broadcast %0 : tensor<Nx1xT> to tensor<NxNxT>
        %2 = weft.mul %1, %y : tensor<NxNxT>
        %3 = weft.add %z, %2 : tensor<NxNxT>
        %4 = weft.add %3, %2 : tensor<NxNxT>)"),
                  of("%4: tensor<NxNxT>"));
    }
}

TEST(Fusions, Broadcasts) {
  checkFusion("%x: tensor<7x3x37xf32>, %y: tensor<37xf32>, %z: tensor<7x1x1xf32>", R"(
    %c = weft.broadcast %y : tensor<37xf32> to tensor<7x3x37xf32>
    %d = weft.broadcast %z : tensor<7x1x1xf32> to tensor<7x3x37xf32>
    %0 = weft.add %x, %c : tensor<7x3x37xf32>
    %1 = weft.mul %0, %d : tensor<7x3x37xf32>)",
              "%1: tensor<7x3x37xf32>");
  checkFusion("%x: tensor<6x20xf32>, %y: tensor<4x1xf32>", R"(
    %0 = weft.reshape %x : tensor<6x20xf32> to tensor<6x4x5xf32>
    %c = weft.broadcast %y : tensor<4x1xf32> to tensor<6x4x5xf32>
    %1 = weft.mul %0, %c : tensor<6x4x5xf32>
    %2 = weft.reshape %1 : tensor<6x4x5xf32> to tensor<24x5xf32>
    %3 = weft.reduce_sum %2, dims = [1] : tensor<24x5xf32>)",
              "%2: tensor<24x5xf32>, %3: tensor<24xf32>");
}

// Vectors of a sum go on from row to row of a part, of what broadcasts, and of what lies around.
TEST(Fusions, SumsFromRowToRow) {
  for (int64_t n : {5, 16, 17, 43})
    for (const char *type : {"f32", "i16"})
      for (const char *dims : {"[0, 1, 2, 3]:", "[2, 3]:3x2x"}) {
        auto [over, left] = llvm::StringRef(dims).split(':');
        auto of = [&](std::string text) {
          for (auto [from, to] :
               {std::pair<const char *, std::string>{"END", std::to_string(n + 2)},
                {"W", std::to_string(n + 5)}, {"N", std::to_string(n)}, {"DIMS", over.str()},
                {"SUM", "tensor<" + left.str() + "T>"}, {"T", type}})
            text = replaced(text, from, to);
          return text;
        };
        checkFusion(of("%x: tensor<3x2x7xWxT>, %c: tensor<2x1x1xT>"), of(R"(
          %0 = weft.slice %x[[0, 0, 1, 2] : [3, 2, 6, END] : [1, 1, 1, 1]] : tensor<3x2x7xWxT>
          %1 = weft.broadcast %c : tensor<2x1x1xT> to tensor<3x2x5xNxT>
          %2 = weft.mul %0, %1 : tensor<3x2x5xNxT>
          %3 = weft.reduce_sum %2, dims = DIMS : tensor<3x2x5xNxT>)"),
                    of("%3: SUM"));
        checkFusion(of("%x: tensor<3x2x5xNxT>, %y: tensor<3x2x7xWxT>"), of(R"(
          %0 = weft.insert_slice %x into %y[[0, 0, 1, 2] : [1, 1, 1, 1]] : tensor<3x2x5xNxT> into tensor<3x2x7xWxT>
          %1 = weft.reduce_sum %0, dims = DIMS : tensor<3x2x7xWxT>)"),
                    of("%1: SUM"));
      }
}

// Their domain does not depend on which of them comes first.
TEST(Fusions, SingleElementsOfSeveralRanks) {
  for (const char *outputs :
       {"%2: tensor<i32>, %4: tensor<1xf32>", "%4: tensor<1xf32>, %2: tensor<i32>"})
    checkFusion("%x: tensor<1x1x1xf32>, %i: tensor<i32>", R"(
      %0 = weft.index_select %x, %i, dim = 2 : tensor<1x1x1xf32>, tensor<i32>
      %1 = weft.sigmoid %0 : tensor<1x1xf32>
      %2 = weft.sign %i : tensor<i32>
      %3 = weft.reshape %1 : tensor<1x1xf32> to tensor<1xf32>
      %4 = weft.neg %3 : tensor<1xf32>)",
                outputs);
}

TEST(Fusions, Movement) {
  checkFusion("%x: tensor<6x5x19xf32>, %y: tensor<19x6x5xf32>", R"(
    %0 = weft.transpose %x, [2, 0, 1] : tensor<6x5x19xf32>
    %1 = weft.add %0, %y : tensor<19x6x5xf32>)",
              "%1: tensor<19x6x5xf32>");
  checkFusion("%x: tensor<6x5x19xf32>, %y: tensor<19x6x5xf32>", R"(
    %0 = weft.transpose %x, [2, 0, 1] : tensor<6x5x19xf32>
    %1 = weft.add %0, %y : tensor<19x6x5xf32>
    %2 = weft.exp %x : tensor<6x5x19xf32>)",
              "%1: tensor<19x6x5xf32>, %2: tensor<6x5x19xf32>");
  checkFusion("%x: tensor<4x6x32xf32>", R"(
    %e = weft.exp %x : tensor<4x6x32xf32>
    %0 = weft.slice %e[[1, 0, 30] : [4, 6, 1] : [2, 1, -3]] : tensor<4x6x32xf32>
    %1 = weft.neg %0 : tensor<2x6x10xf32>)",
              "%1: tensor<2x6x10xf32>");
  checkFusion("%x: tensor<4x30xf32>, %y: tensor<4x7xf32>, %z: tensor<4x50xf32>", R"(
    %0 = weft.concat %x, %y, %z dim = 1 : tensor<4x30xf32>, tensor<4x7xf32>, tensor<4x50xf32>
    %1 = weft.tanh %0 : tensor<4x87xf32>)",
              "%1: tensor<4x87xf32>");
  checkFusion("%x: tensor<4x30xf32>, %y: tensor<2x30xf32>", R"(
    %n = weft.neg %y : tensor<2x30xf32>
    %0 = weft.concat %x, %n dim = 0 : tensor<4x30xf32>, tensor<2x30xf32>
    %1 = weft.reduce_sum %0, dims = [1] : tensor<6x30xf32>)",
              "%0: tensor<6x30xf32>, %1: tensor<6xf32>");
  checkFusion("%x: tensor<9x40xf32>, %y: tensor<3x13xf32>", R"(
    %n = weft.neg %y : tensor<3x13xf32>
    %0 = weft.insert_slice %n into %x[[1, 38] : [3, -2]] : tensor<3x13xf32> into tensor<9x40xf32>
    %1 = weft.add %0, %x : tensor<9x40xf32>)",
              "%1: tensor<9x40xf32>");
}

// Vectors end where the rows of what they read do, and lanes a few elements apart are picked from
// whole vectors: for elements of each width, forwards and backwards, up to the last element of a
// buffer, in rows with and without a tail.
TEST(Fusions, StridedReads) {
  for (const char *element : {"f32", "f64", "bf16", "i8", "i1"})
    for (int width : {2, 35, 97})
      for (int step : {2, 3, 4, 5, -1, -2}) {
        int start = step > 0 ? 0 : width - 1, limit = step > 0 ? width : -1,
            taken = (width + std::abs(step) - 1) / std::abs(step);
        auto type = [&](int rows, int columns) {
          return "tensor<" + std::to_string(rows) + "x" + std::to_string(columns) + "x" + element +
                 ">";
        };
        std::string from = type(7, width), to = type(6, taken);
        checkFusion("%x: " + from,
                    "%0 = weft.slice %x[[1, " + std::to_string(start) + "] : [7, " +
                        std::to_string(limit) + "] : [1, " + std::to_string(step) + "]] : " + from,
                    "%0: " + to, 0);
      }
}

// Windows of images, in loops and unrolled, beside each other and apart, with and without a border.
TEST(Fusions, WindowsOfImages) {
  struct Sizes {
    int size, kernel, stride;
  };
  for (Sizes sizes :
       {Sizes{56, 2, 2}, {14, 2, 2}, {9, 3, 2}, {35, 3, 3}, {33, 3, 1}, {40, 4, 4}, {23, 5, 5}}) {
    auto text = [](int n) {
      return std::to_string(n);
    };
    int pooled = (sizes.size - sizes.kernel) / sizes.stride + 1;
    auto of = [&](const std::string &code) {
      std::string image = "tensor<2x3x" + text(sizes.size) + "x" + text(sizes.size) + "xf32>";
      std::string small = "tensor<2x3x" + text(pooled) + "x" + text(pooled) + "xf32>";
      std::string windows = "tensor<2x3x" + text(sizes.kernel) + "x" + text(sizes.kernel) + "x" +
                            text(pooled) + "x" + text(pooled) + "xf32>";
      return replaced(
          replaced(replaced(replaced(replaced(code, "IMAGE", image), "SMALL", small), "WINDOWS",
                            windows),
                   "KERNEL", "array<i64: " + text(sizes.kernel) + ", " + text(sizes.kernel) + ">"),
          "STRIDE", "array<i64: " + text(sizes.stride) + ", " + text(sizes.stride) + ">");
    };
    // What many windows share is no part of the kernel.
    std::string source =
        sizes.kernel <= 3 ? "%n = weft.neg %x : IMAGE" : "%n = weft.reshape %x : IMAGE to IMAGE";
    checkFusion(of("%x: IMAGE"), of(source + R"(
      %w = weft.windows %n {kernel = KERNEL, strides = STRIDE, dilation = array<i64: 1, 1>} : IMAGE
      %s = weft.reduce_sum %w, dims = [2, 3] : WINDOWS
      %m = weft.reduce_max %w, dims = [2, 3] : WINDOWS
      %t = weft.add %s, %m : SMALL)"),
                of("%t: SMALL"));
  }
}

// Windows that reach into a border of their own, whose lanes are masked: strided, backwards, and
// both.
TEST(Fusions, StridedReadsOfPaddedImages) {
  for (const char *step : {"1", "2", "3", "-1", "-2"}) {
    int taken =
        step[0] == '-' ? (step[1] == '1' ? 70 : 35) : (69 + (step[0] - '0')) / (step[0] - '0');
    auto of = [&](const std::string &text) {
      std::string ends = step[0] == '-' ? "[0, 69] : [9, -1]" : "[0, 0] : [9, 70]";
      return replaced(replaced(replaced(text, "ENDS", ends), "STEP", step), "TAKEN",
                      std::to_string(taken));
    };
    checkFusion("%x: tensor<7x67xf32>", of(R"(
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
    for (auto [rows, columns] :
         {std::pair{64, 128}, {80, 64}, {150, 70}, {3, 200}, {200, 3}, {17, 31}}) {
      auto type = [&](int a, int b) {
        return "tensor<" + std::to_string(a) + "x" + std::to_string(b) + "x" + element + ">";
      };
      std::string from = type(rows, columns), to = type(columns, rows);
      checkFusion("%x: " + from + ", %y: " + to,
                  "%0 = weft.transpose %x, [1, 0] : " + from + "\n%1 = weft.maximum %0, %y : " + to,
                  "%1: " + to, 0);
    }
  checkFusion("%x: tensor<70x90xi1>, %y: tensor<90x70xi1>", R"(
    %0 = weft.transpose %x, [1, 0] : tensor<70x90xi1>
    %1 = weft.and %0, %y : tensor<90x70xi1>)",
              "%1: tensor<90x70xi1>", 0);
}

// What is stored in two orders: tiles that are written along both, whole and cut, of elements of 1,
// 2, 4 and 8 bytes, of bools, and of kernels whose rows are not unrolled.
TEST(Fusions, StoresInTwoOrders) {
  for (const char *element : {"f32", "i64", "bf16", "i8"})
    for (auto [rows, columns] :
         {std::pair{"64", "128"}, {"150", "70"}, {"3", "200"}, {"200", "3"}, {"17", "31"}}) {
      auto of = [&](const std::string &text) {
        return replaced(replaced(replaced(text, "R", rows), "C", columns), "E", element);
      };
      checkFusion(of("%x: tensor<2xRxCxE>, %y: tensor<2xRxCxE>"), of(R"(
    %0 = weft.maximum %x, %y : tensor<2xRxCxE>
    %1 = weft.transpose %0, [0, 2, 1] : tensor<2xRxCxE>)"),
                  of("%0: tensor<2xRxCxE>, %1: tensor<2xCxRxE>"), 0);
      checkFusion(of("%x: tensor<2xRxCxE>, %y: tensor<2xCxRxE>"), of(R"(
    %t = weft.transpose %y, [0, 2, 1] : tensor<2xCxRxE>
    %0 = weft.maximum %x, %t : tensor<2xRxCxE>
    %1 = weft.minimum %0, %x : tensor<2xRxCxE>
    %2 = weft.neg %1 : tensor<2xRxCxE>
    %3 = weft.abs %2 : tensor<2xRxCxE>
    %4 = weft.transpose %3, [0, 2, 1] : tensor<2xRxCxE>)"),
                  of("%1: tensor<2xRxCxE>, %4: tensor<2xCxRxE>"), 0);
    }
  checkFusion("%x: tensor<70x90xf32>, %y: tensor<70x90xf32>", R"(
    %0 = weft.compare lt %x, %y : tensor<70x90xf32>
    %1 = weft.transpose %0, [1, 0] : tensor<70x90xi1>)",
              "%0: tensor<70x90xi1>, %1: tensor<90x70xi1>", 0);
}

// Parts of what is turned: reversed, within a border, beside another one; of bools as well, and of
// kernels whose rows are not unrolled.
TEST(Fusions, TransposesOfParts) {
  for (const char *element : {"f32", "i64", "i1"})
    for (auto [rows, columns] : {std::pair{150, 70}, {3, 200}, {200, 3}, {17, 31}}) {
      auto of = [&, rows = rows, columns = columns](std::string text) {
        using Named = std::pair<const char *, int>;
        for (auto [name, number] :
             {Named{"WIDE", columns + 5}, {"LAST", columns - 1}, {"R", rows}, {"C", columns}})
          text = replaced(text, name, std::to_string(number));
        return replaced(text, "E", element);
      };
      std::string flip = of(R"(
    %0 = weft.slice %x[[0, LAST] : [R, -1] : [1, -1]] : tensor<RxCxE>
    %1 = weft.transpose %0, [1, 0] : tensor<RxCxE>)");
      checkFusion(of("%x: tensor<RxCxE>"), flip, of("%1: tensor<CxRxE>"), 0);
      checkFusion(of("%x: tensor<RxCxE>"), flip, of("%0: tensor<RxCxE>, %1: tensor<CxRxE>"), 0);
      checkFusion(of("%x: tensor<RxCxE>, %y: tensor<CxRxE>"), flip + of(R"(
    %2 = weft.compare lt %1, %y : tensor<CxRxE>
    %3 = weft.select %2, %1, %y : tensor<CxRxE>
    %4 = weft.select %2, %y, %1 : tensor<CxRxE>)"),
                  of("%3: tensor<CxRxE>, %4: tensor<CxRxE>"), 0);
      checkFusion(of("%x: tensor<RxCxE>, %y: tensor<RxWIDExE>"), of(R"(
    %0 = weft.insert_slice %x into %y[[0, 2] : [1, 1]] : tensor<RxCxE> into tensor<RxWIDExE>
    %1 = weft.transpose %0, [1, 0] : tensor<RxWIDExE>)"),
                  of("%1: tensor<WIDExRxE>"), 0);
      checkFusion(of("%x: tensor<RxCxE>, %y: tensor<Rx5xE>"), of(R"(
    %0 = weft.concat %y, %x dim = 1 : tensor<Rx5xE>, tensor<RxCxE>
    %1 = weft.transpose %0, [1, 0] : tensor<RxWIDExE>)"),
                  of("%1: tensor<WIDExRxE>"), 0);
    }
}

// Lanes whose elements are known places apart: repeats, and values side by side.
TEST(Fusions, RepeatsAndStacks) {
  for (const char *element : {"f32", "bf16", "i1"})
    for (const char *columns : {"5", "48", "67"})
      for (auto [times, wide] : {std::pair{"2", 2}, {"3", 3}, {"8", 8}}) {
        auto of = [&, times = times, wide = wide](std::string text) {
          text = replaced(text, "WIDE", std::to_string(std::stoi(columns) * wide));
          text = replaced(replaced(text, "TIMES", times), "COLUMNS", columns);
          return replaced(text, "TYPE", element);
        };
        checkFusion(of("%x: tensor<7xCOLUMNSxTYPE>"), of(R"(
    %0 = weft.reshape %x : tensor<7xCOLUMNSxTYPE> to tensor<7xCOLUMNSx1xTYPE>
    %1 = weft.broadcast %0 : tensor<7xCOLUMNSx1xTYPE> to tensor<7xCOLUMNSxTIMESxTYPE>
    %2 = weft.reshape %1 : tensor<7xCOLUMNSxTIMESxTYPE> to tensor<7xWIDExTYPE>)"),
                    of("%2: tensor<7xWIDExTYPE>"), 0);
        checkFusion(of("%x: tensor<7xCOLUMNSx1xTYPE>, %y: tensor<7xCOLUMNSx1xTYPE>"), of(R"(
    %0 = weft.concat %x, %y dim = 2 : tensor<7xCOLUMNSx1xTYPE>, tensor<7xCOLUMNSx1xTYPE>)"),
                    of("%0: tensor<7xCOLUMNSx2xTYPE>"), 0);
      }
}

// Parts far longer than a vector, of which most vectors meet one alone.
TEST(Fusions, LongParts) {
  checkFusion("%x: tensor<5000xf32>, %y: tensor<3001xf32>", R"(
    %0 = weft.concat %x, %y, %x dim = 0 : tensor<5000xf32>, tensor<3001xf32>, tensor<5000xf32>
    %1 = weft.slice %0[[17] : [12990] : [1]] : tensor<13001xf32>
    %2 = weft.slice %0[[12990] : [17] : [-1]] : tensor<13001xf32>)",
              "%1: tensor<12973xf32>, %2: tensor<12973xf32>", 0);
  checkFusion("%x: tensor<2x3001xf32>, %y: tensor<2x9000xf32>", R"(
    %0 = weft.insert_slice %x into %y[[0, 2500] : [1, 1]] : tensor<2x3001xf32> into tensor<2x9000xf32>
    %1 = weft.insert_slice %x into %y[[0, 8999] : [1, -2]] : tensor<2x3001xf32> into tensor<2x9000xf32>)",
              "%0: tensor<2x9000xf32>, %1: tensor<2x9000xf32>", 0);
}

// A diagonal of a constant, on which most vectors have no element, and one element every few.
TEST(Fusions, WritesIntoConstants) {
  for (const char *element : {"f32", "i1"})
    for (int n : {1, 20, 64})
      for (int start : {0, 3})
        for (int step : {3, 16, 21, 70}) {
          int size = start + (n - 1) * step + 1 + (n % 7) * step / 4;
          auto of = [&](std::string text) {
            using Named = std::pair<const char *, int>;
            for (auto [name, number] :
                 {Named{"START", start}, {"STEP", step}, {"COUNT", n}, {"SIZE", size}})
              text = replaced(text, name, std::to_string(number));
            std::string value = element == std::string("i1") ? "true" : "1.0";
            return replaced(replaced(text, "VALUE", value), "TYPE", element);
          };
          checkFusion(of("%x: tensor<COUNTxTYPE>"), of(R"(
    %c = weft.constant dense<VALUE> : tensor<SIZExTYPE>
    %0 = weft.insert_slice %x into %c[[START] : [STEP]] : tensor<COUNTxTYPE> into tensor<SIZExTYPE>)"),
                      of("%0: tensor<SIZExTYPE>"), 0);
        }
  checkFusion("%x: tensor<20xf32>", R"(
    %c = weft.constant dense<1.0> : tensor<24000xf32>
    %0 = weft.insert_slice %x into %c[[3] : [1201]] : tensor<20xf32> into tensor<24000xf32>)",
              "%0: tensor<24000xf32>", 0);
}

// Images of few channels, whole vectors of pixels and some more: alone, beside what is read in the
// result's order, and beside a number a channel.
TEST(Fusions, TransposesOfFewColumns) {
  for (const char *element : {"f32", "i8"})
    for (const char *channels : {"2", "3", "4", "5"})
      for (const char *pixels : {"5", "77", "200"}) {
        auto of = [&](const std::string &text) {
          return replaced(replaced(replaced(text, "C", channels), "P", pixels), "E", element);
        };
        std::string turn = of("%0 = weft.transpose %x, [0, 2, 1] : tensor<2xCxPxE>\n");
        checkFusion(of("%x: tensor<2xCxPxE>"), turn, of("%0: tensor<2xPxCxE>"), 0);
        checkFusion(of("%x: tensor<2xCxPxE>, %y: tensor<2xPxCxE>, %z: tensor<1x1xCxE>"),
                    turn + of(R"(
    %1 = weft.maximum %0, %y : tensor<2xPxCxE>
    %2 = weft.broadcast %z : tensor<1x1xCxE> to tensor<2xPxCxE>
    %3 = weft.minimum %1, %2 : tensor<2xPxCxE>)"),
                    of("%3: tensor<2xPxCxE>"), 0);
        // A number a pixel, a second image that is turned, and a result in the images' own order.
        checkFusion(of("%x: tensor<2xCxPxE>, %y: tensor<2xCxPxE>, %z: tensor<2xPx1xE>"),
                    turn + of(R"(
    %1 = weft.transpose %y, [0, 2, 1] : tensor<2xCxPxE>
    %2 = weft.maximum %0, %1 : tensor<2xPxCxE>
    %3 = weft.broadcast %z : tensor<2xPx1xE> to tensor<2xPxCxE>
    %4 = weft.minimum %2, %3 : tensor<2xPxCxE>)"),
                    of("%4: tensor<2xPxCxE>"), 0);
        checkFusion(of("%x: tensor<2xCxPxE>"), turn + of(R"(
    %1 = weft.neg %x : tensor<2xCxPxE>)"),
                    of("%0: tensor<2xPxCxE>, %1: tensor<2xCxPxE>"), 0);
      }
}

// A chain of writes is code of its length, not of its power of two; one that reads what it wrote is
// refused by name.
TEST(Fusions, ChainsOfWrites) {
  std::string independent, dependent;
  for (int i = 0; i < 20; ++i) {
    auto line = [&](const char *source) {
      return "%w" + std::to_string(i + 1) + " = weft.insert_slice " + source + " into %w" +
             std::to_string(i) + "[[" + std::to_string(i % 5) + ", " + std::to_string(i) +
             "] : [1, 1]] : tensor<2x9xf32> into tensor<7x40xf32>\n";
    };
    independent += line("%y");
    std::string slice = "%s" + std::to_string(i);
    dependent += slice + " = weft.slice %w" + std::to_string(i) +
                 "[[0, 0] : [2, 9] : [1, 1]] : tensor<7x40xf32>\n" + line(slice.c_str());
  }
  checkFusion("%w0: tensor<7x40xf32>, %y: tensor<2x9xf32>", independent, "%w20: tensor<7x40xf32>",
              0);
  auto parsed = parseFusion("%w0: tensor<7x40xf32>", dependent, "%w20: tensor<7x40xf32>");
  std::string error;
  EXPECT_FALSE(TestKernel::build(parsed->fusion, error));
  EXPECT_NE(error.find("computed again at too many positions"), std::string::npos) << error;
}

// A derivative of stack(): most columns are one and the same constant.
TEST(Fusions, AConstantAtManyPlaces) {
  std::string operands = "%x", types = "tensor<3x2xf32>";
  for (int i = 0; i < 23; ++i)
    operands += i == 11 ? ", %y" : ", %z", types += ", tensor<3x2xf32>";
  checkFusion("%x: tensor<3x2xf32>, %y: tensor<3x2xf32>",
              "%z = weft.constant dense<0.5> : tensor<3x2xf32>\n%0 = weft.concat " + operands +
                  " dim = 1 : " + types + "\n",
              "%0: tensor<3x48xf32>", 0);
}

// A matrix that is swept as one run beside a value of each row and one of each column: rows end
// inside of vectors, at their ends, and in the masked tail.
TEST(Fusions, RowsAndColumnsOfOneRun) {
  for (const char *shape : {"7x33", "5x16", "3x17", "64x15", "2x1000", "1x40", "40x47"})
    for (const char *type : {"f32", "f64", "i64", "i16", "i8"}) {
      auto [rows, columns] = llvm::StringRef(shape).split('x');
      auto of = [&, rows = rows, columns = columns](std::string text) {
        for (auto [from, to] : {std::pair("ROWS", rows), std::pair("COLUMNS", columns),
                                std::pair("TYPE", llvm::StringRef(type))})
          while (text.find(from) != text.npos)
            text = replaced(text, from, to.str());
        return text;
      };
      checkFusion(of("%x: tensor<ROWSxCOLUMNSxTYPE>, %r: tensor<ROWSx1xTYPE>, "
                     "%c: tensor<COLUMNSxTYPE>"),
                  of(R"(
    %0 = weft.broadcast %r : tensor<ROWSx1xTYPE> to tensor<ROWSxCOLUMNSxTYPE>
    %1 = weft.broadcast %c : tensor<COLUMNSxTYPE> to tensor<ROWSxCOLUMNSxTYPE>
    %2 = weft.sub %x, %0 : tensor<ROWSxCOLUMNSxTYPE>
    %3 = weft.mul %2, %1 : tensor<ROWSxCOLUMNSxTYPE>
    %4 = weft.reduce_sum %3, dims = [0, 1] : tensor<ROWSxCOLUMNSxTYPE>)"),
                  of("%3: tensor<ROWSxCOLUMNSxTYPE>, %4: tensor<TYPE>"), 1e-2);
    }
}

TEST(Fusions, Indexing) {
  checkFusion("%t: tensor<11x40xf32>, %i: tensor<2x3xi64>, %p: tensor<3x40xf32>", R"(
    %e = weft.exp %t : tensor<11x40xf32>
    %0 = weft.index_select %e, %i, dim = 0 : tensor<11x40xf32>, tensor<2x3xi64>
    %b = weft.broadcast %p : tensor<3x40xf32> to tensor<2x3x40xf32>
    %1 = weft.add %0, %b : tensor<2x3x40xf32>)",
              "%1: tensor<2x3x40xf32>");
  checkFusion("%x: tensor<9x33xf32>, %i: tensor<9x1xi32>", R"(
    %0 = weft.gather %x, %i, dim = 1 : tensor<9x33xf32>, tensor<9x1xi32>
    %1 = weft.reshape %0 : tensor<9x1xf32> to tensor<9xf32>
    %m = weft.reduce_max %x, dims = [1] : tensor<9x33xf32>
    %2 = weft.sub %m, %1 : tensor<9xf32>)",
              "%2: tensor<9xf32>");
  checkFusion("%z: tensor<f32>, %i: tensor<3x5xi64>, %s: tensor<3x5x130xf32>", R"(
    %b = weft.broadcast %z : tensor<f32> to tensor<7x130xf32>
    %n = weft.neg %s : tensor<3x5x130xf32>
    %0 = weft.index_add %b, %i, %n, dim = 0 : tensor<7x130xf32>, tensor<3x5xi64>, tensor<3x5x130xf32>)",
              "%0: tensor<7x130xf32>");
}

// Elements with a target each, more than one batch of them: along a dim of its own, beside columns
// that are all covered, or in part.
TEST(Fusions, ScattersInBatches) {
  auto add = [](const std::string &base, const std::string &source, int64_t dim) {
    auto of = [&](const std::string &text) {
      return replaced(replaced(text, "BASE", base), "SOURCE", source);
    };
    checkFusion(
        of("%z: tensor<BASExf32>, %i: tensor<SOURCExi64>, %s: tensor<SOURCExf32>"),
        of("%n = weft.neg %s : tensor<SOURCExf32>\n%0 = weft.scatter_add %z, %i, %n, dim = " +
           std::to_string(dim) + " : tensor<BASExf32>, tensor<SOURCExi64>, tensor<SOURCExf32>"),
        of("%0: tensor<BASExf32>"), 1e-3);
  };
  add("11", "1000", 0);
  add("11x130", "40x130", 0);
  add("11x300", "5x290", 0);
  add("6x11", "6x700", 1);
  add("3x11x4", "2x20x3", 1);
  // What meets in an element may be combined otherwise, with what is computed beside it.
  for (const char *combiner : {"max", "min", "prod"})
    for (const char *element : {"f32", "i64"}) {
      auto of = [&](const std::string &text) {
        return replaced(replaced(text, "COMBINER", combiner), "ELEMENT", element);
      };
      checkFusion(of("%z: tensor<11x30xELEMENT>, %i: tensor<20x30xi64>, %s: tensor<20x30xELEMENT>"),
                  of("%n = weft.neg %s : tensor<20x30xELEMENT>\n%0 = weft.scatter_reduce COMBINER "
                     "%z, %i, %n, dim = 0 : tensor<11x30xELEMENT>, "
                     "tensor<20x30xi64>, tensor<20x30xELEMENT>"),
                  of("%0: tensor<11x30xELEMENT>"), 1e-3);
    }
  // The last one wins.
  checkFusion("%z: tensor<11xi32>, %i: tensor<600xi64>, %s: tensor<600xi32>", R"(
    %0 = weft.index_put %z, %i, %s, dim = 0 : tensor<11xi32>, tensor<600xi64>, tensor<600xi32>)",
              "%0: tensor<11xi32>", 0);
}

TEST(Fusions, IndexOutOfRange) {
  auto parsed =
      parseFusion("%t: tensor<4x40xf32>, %i: tensor<20xi64>",
                  "%0 = weft.index_select %t, %i, dim = 0 : tensor<4x40xf32>, tensor<20xi64>",
                  "%0: tensor<20x40xf32>");
  std::string error;
  auto kernel = TestKernel::build(parsed->fusion, error);
  ASSERT_TRUE(kernel) << error;
  llvm::SmallVector<HostTensor> inputs;
  for (mlir::Type type : parsed->fusion.getInputs().getTypes())
    inputs.push_back(sample(type, 1));
  std::vector<HostTensor> results;
  inputs[1].setInt(19, -4);
  EXPECT_EQ(kernel->run(inputs, results), WEFT_KERNEL_OK);
  for (int64_t bad : {int64_t(4), int64_t(-5), std::numeric_limits<int64_t>::max(),
                      std::numeric_limits<int64_t>::min()}) {
    inputs[1].setInt(19, bad);
    EXPECT_EQ(kernel->run(inputs, results), WEFT_KERNEL_INDEX_OUT_OF_RANGE) << bad;
  }
}

TEST(Fusions, RandomMasks) {
  for (const char *shape : {"4x64", "10x130", "3x7x5", "100000"}) {
    auto of = [&](const std::string &text) {
      return replaced(text, "S", shape);
    };
    checkFusion(of("%x: tensor<Sxf32>, %s: tensor<2xi64>"), of(R"(
      %r = weft.constant dense<0.1> : tensor<Sxf32>
      %z = weft.constant dense<0.0> : tensor<Sxf32>
      %u = weft.random_uniform %s {offset = 32 : i64} : tensor<Sxf32>
      %k = weft.compare ge %u, %r : tensor<Sxf32>
      %y = weft.select %k, %x, %z : tensor<Sxf32>)"),
                of("%y: tensor<Sxf32>, %k: tensor<Sxi1>"), 0);
  }
}

TEST(Fusions, CausalMaskAndIntegers) {
  checkFusion("%x: tensor<2x9x20xf32>", R"(
    %r = weft.iota {dim = 1 : i64} : tensor<2x9x20xi32>
    %c = weft.iota {dim = 2 : i64} : tensor<2x9x20xi32>
    %k = weft.compare le %c, %r : tensor<2x9x20xi32>
    %z = weft.constant dense<0xFF800000> : tensor<2x9x20xf32>
    %y = weft.select %k, %x, %z : tensor<2x9x20xf32>
    %m = weft.reduce_max %y, dims = [2] : tensor<2x9x20xf32>
    %i = weft.cast %k : tensor<2x9x20xi1> to tensor<2x9x20xi64>
    %n = weft.reduce_sum %i, dims = [2] : tensor<2x9x20xi64>)",
              "%y: tensor<2x9x20xf32>, %m: tensor<2x9xf32>, %n: tensor<2x9xi64>");
  checkFusion("%x: tensor<f64>, %y: tensor<f64>", R"(
    %0 = weft.pow %x, %y : tensor<f64>
    %1 = weft.compare eq %x, %y : tensor<f64>)",
              "%0: tensor<f64>, %1: tensor<i1>");
}

} // namespace
} // namespace weft::compiler
