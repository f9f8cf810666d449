// Products of matrices: every element is the sum of its products in order, each added by a fused
// multiply-add, part of the depth by part, on every machine.
#include <cmath>

#include "compiler/codegen/FusionText.h"
#include "compiler/codegen/KernelTester.h"
#include "mlir/Parser/Parser.h"
#include "tests/support/Compare.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

using ir::HostTensor;

struct Product {
  int64_t batch, m, k, n;
  bool transposeLeft = false, transposeRight = false;
  std::string narrow = {}; // what the right side is stored as; the kernel converts it
};

std::string typeText(int64_t batch, int64_t rows, int64_t columns, const std::string &element,
                     const std::string &names = "") {
  return "tensor<" + (batch > 0 ? std::to_string(batch) + "x" : "") + std::to_string(rows) + "x" +
         std::to_string(columns) + "x" + element + names + ">";
}

struct Parsed {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ir::FusionOp fusion;
};

// names: of the dims of the left side and of the result ("" or ", #weft.dims<s0, _>").
std::unique_ptr<Parsed> parse(const Product &p, const std::string &element,
                              const std::string &names = "") {
  auto parsed = std::make_unique<Parsed>();
  registerCodegenDialects(parsed->context);
  std::string left = p.transposeLeft ? typeText(p.batch, p.k, p.m, element, names)
                                     : typeText(p.batch, p.m, p.k, element, names),
              right = p.transposeRight ? typeText(p.batch, p.n, p.k, element)
                                       : typeText(p.batch, p.k, p.n, element),
              result = typeText(p.batch, p.m, p.n, element, names), stored = right, cast;
  if (!p.narrow.empty()) {
    stored = p.transposeRight ? typeText(p.batch, p.n, p.k, p.narrow)
                              : typeText(p.batch, p.k, p.n, p.narrow);
    cast = "\n %y = weft.cast %y0 : " + stored + " to " + right;
  }
  std::string text =
      "func.func @main(%a: " + left + ", %b: " + stored +
      ") {\n %r = weft.fusion(%x = %a : " + left + ", %y" + (cast.empty() ? "" : "0") +
      " = %b : " + stored + ") -> (" + result + ") {" + cast +
      "\n %z = weft.matmul %x, %y {transpose_lhs = " + (p.transposeLeft ? "true" : "false") +
      ", transpose_rhs = " + (p.transposeRight ? "true" : "false") + "} : " + left + ", " + right +
      "\n weft.yield %z : " + result + "\n }\n return\n}";
  parsed->module = mlir::parseSourceString<mlir::ModuleOp>(text, &parsed->context);
  if (parsed->module)
    parsed->module->walk([&](ir::FusionOp op) { parsed->fusion = op; });
  EXPECT_TRUE(parsed->fusion) << "does not parse:\n" << text;
  return parsed;
}

// All numbers of 8 bits, of each sign.
void fill(HostTensor &narrow) {
  for (int64_t i = 0; i < narrow.size(); ++i)
    narrow.setInt(i, (i * 37 + i / 256 + 11) % 256 - (narrow.dtype == DType::kInt8 ? 128 : 0));
}

HostTensor asFloat(const HostTensor &narrow) {
  HostTensor wide(DType::kFloat32, narrow.shape);
  for (int64_t i = 0; i < narrow.size(); ++i)
    wide.set(i, narrow.getDouble(i));
  return wide;
}

template <typename T>
HostTensor expectedOf(const Product &p, const HostTensor &left, const HostTensor &right,
                      HostTensor result) {
  const T *a = left.as<T>(), *b = right.as<T>();
  T *c = result.as<T>();
  for (int64_t batch = 0; batch < std::max<int64_t>(p.batch, 1);
       ++batch, a += p.m * p.k, b += p.k * p.n, c += p.m * p.n)
    for (int64_t i = 0; i < p.m; ++i)
      for (int64_t j = 0; j < p.n; ++j) {
        // Parts of at most 256 products, a multiple of 16; what more than 64 of them lose is added
        // up beside them.
        int64_t parts = std::max<int64_t>(1, (p.k + 255) / 256),
                depth = parts == 1 ? std::max<int64_t>(p.k, 1)
                                   : ((p.k + parts - 1) / parts + 15) / 16 * 16;
        T total = 0, lost = 0;
        for (int64_t from = 0; from < p.k; from += depth) {
          T sum = 0;
          for (int64_t d = from; d < std::min(p.k, from + depth); ++d) {
            T x = p.transposeLeft ? a[d * p.m + i] : a[i * p.k + d],
              y = p.transposeRight ? b[j * p.k + d] : b[d * p.n + j];
            if constexpr (std::is_floating_point_v<T>)
              sum = std::fma(x, y, sum);
            else
              sum = static_cast<T>(sum + x * y);
          }
          T before = total;
          total = static_cast<T>(total + sum);
          if (p.k > 64 * depth)
            lost = static_cast<T>(lost + (sum - (total - before)));
        }
        c[i * p.n + j] = static_cast<T>(total + lost);
      }
  return result;
}

std::vector<TargetInfo> targets() {
  // What the machine has, and the least that kernels need: fewer registers, other tiles.
  auto least = TargetInfo::named("x86-64-v3");
  EXPECT_TRUE(least.ok()) << least.status().ToString();
  return {TargetInfo::host(), *least};
}

template <typename T> void check(const Product &p, const std::string &element) {
  for (const TargetInfo &target : targets()) {
    SCOPED_TRACE(std::to_string(p.batch) + " x " + std::to_string(p.m) + " x " +
                 std::to_string(p.k) + " x " + std::to_string(p.n) +
                 (p.transposeLeft ? " t" : " n") + (p.transposeRight ? "t " : "n ") + element +
                 " for " + target.cpu);
    auto parsed = parse(p, element);
    ASSERT_TRUE(parsed->fusion);
    std::vector<HostTensor> inputs;
    for (mlir::Type type : parsed->fusion.getInputs().getTypes())
      inputs.push_back(sample(type, static_cast<int64_t>(inputs.size()) + 1));
    HostTensor empty =
        HostTensor::of(mlir::cast<mlir::RankedTensorType>(parsed->fusion.getResult(0).getType()));
    if (!p.narrow.empty())
      fill(inputs[1]);
    HostTensor expected =
        expectedOf<T>(p, inputs[0], p.narrow.empty() ? inputs[1] : asFloat(inputs[1]), empty);
    std::string error;
    auto kernel = TestKernel::build(parsed->fusion, error, /*dump=*/false, target);
    ASSERT_TRUE(kernel) << error;
    for (int64_t parts : {1, 2, 5}) {
      std::vector<HostTensor> results;
      ASSERT_EQ(kernel->run(inputs, results, parts), WEFT_KERNEL_OK);
      EXPECT_EQ(tests::compareExact(results[0], expected), "") << parts << " ranges";
    }
  }
}

TEST(MatmulSchedule, AddsInOrder) {
  // Parts of tiles in either direction, whole ones, several panels.
  for (const Product &p : {Product{0, 1, 5, 7},
                           {0, 2, 3, 2},
                           {0, 8, 8, 24},
                           {0, 9, 17, 25},
                           {0, 13, 1, 70},
                           {0, 31, 40, 3},
                           {3, 10, 6, 50}})
    for (bool left : {false, true})
      for (bool right : {false, true})
        check<double>({p.batch, p.m, p.k, p.n, left, right}, "f64");
}

TEST(MatmulSchedule, CutsWhatIsLarge) {
  // A right side that is copied, depth by depth (and a depth that ends within a vector), more
  // columns than a block has, few rows.
  for (bool left : {false, true})
    for (bool right : {false, true}) {
      check<double>({0, 33, 523, 75, left, right}, "f64");
      check<double>({2, 21, 259, 530, left, right}, "f64");
    }
  // More rows than are copied at a time.
  check<double>({0, 213, 270, 40, true, false}, "f64");
  check<double>({0, 3, 300, 900}, "f64");
  check<double>({0, 300, 40, 5}, "f64");
  // So deep that what is lost is added up.
  check<double>({0, 9, 20000, 30, false, true}, "f64");
  check<float>({2, 3, 17000, 5}, "f32");
}

// A matrix whose depth lies together and few rows, or few columns: squares of it, what is left of
// them in either direction, one part of the depth and several, batches.
TEST(MatmulSchedule, FewRowsOrColumns) {
  for (int64_t few : {1, 2, 3, 4, 5, 8})
    for (int64_t k : {16, 17, 31, 300})
      for (int64_t many : {16, 17, 50}) {
        check<float>({0, few, k, many, few % 2 == 0, true}, "f32");
        check<float>({0, many, k, few, false, few % 2 == 0}, "f32");
      }
  for (bool other : {false, true}) {
    check<double>({3, 4, 270, 37, other, true}, "f64");
    check<double>({2, 37, 523, 3, false, other}, "f64");
    check<int32_t>({0, 3, 40, 21, other, true}, "i32");
    check<int64_t>({2, 21, 40, 2, false, other}, "i64");
  }
  // As deep as parts are added up plainly, and deeper.
  check<float>({0, 2, 16384, 18, false, true}, "f32");
  check<float>({0, 2, 16400, 18, false, true}, "f32");
}

// Of 8 bits, converted by the kernel: whole squares of words, depths that end within one, parts of
// the depth, too shallow ones; either transpose; several tiles of rows and columns.
TEST(MatmulSchedule, NarrowRightSide) {
  for (const char *narrow : {"i8", "ui8"})
    for (int64_t rows : {2, 9, 32})
      for (int64_t k : {17, 64, 68, 192, 300})
        for (int64_t n : {16, 259})
          check<float>({0, rows, k, n, rows % 2 == 0, k != 192, narrow}, "f32");
  check<float>({0, 3, 4112, 40, false, true, "i8"}, "f32");  // a last part of 16
  check<float>({0, 3, 16640, 20, false, true, "i8"}, "f32"); // what is lost is added up
  check<float>({3, 4, 320, 37, false, true, "i8"}, "f32");
}

TEST(MatmulSchedule, OtherTypes) {
  for (bool right : {false, true}) {
    check<float>({0, 19, 270, 61, true, right}, "f32");
    check<float>({2, 40, 300, 260, false, right}, "f32");
    check<int64_t>({0, 19, 30, 41, true, right}, "i64");
    check<int32_t>({0, 20, 300, 300, false, right}, "i32");
  }
}

TEST(MatmulSchedule, NothingToAdd) {
  check<double>({0, 3, 0, 5}, "f64");
  check<double>({0, 0, 4, 5}, "f64");
  check<double>({0, 3, 4, 0}, "f64");
}

// One kernel for all numbers of rows: what fewer rows give is what the first rows of more would.
template <typename T> void checkCounts(const Product &p, const std::string &element) {
  for (const TargetInfo &target : targets()) {
    auto parsed = parse(p, element, ", #weft.dims<s0, _>");
    ASSERT_TRUE(parsed->fusion);
    std::string error;
    auto kernel = TestKernel::build(parsed->fusion, error, /*dump=*/false, target);
    ASSERT_TRUE(kernel) << error;
    ASSERT_EQ(kernel->info.sizes.size(), 1u);
    EXPECT_EQ(kernel->info.sizes[0].name, "s0");
    EXPECT_EQ(kernel->info.sizes[0].largest, p.m);
    ASSERT_EQ(kernel->info.count, p.m);
    Product whole = p;
    auto plain = parse(whole, element);
    HostTensor left = sample(plain->fusion.getInputs()[0].getType(), 1),
               rightSide = sample(plain->fusion.getInputs()[1].getType(), 2);
    HostTensor result =
        HostTensor::of(mlir::cast<mlir::RankedTensorType>(plain->fusion.getResult(0).getType()));
    if (!p.narrow.empty())
      fill(rightSide);
    HostTensor expected =
        expectedOf<T>(p, left, p.narrow.empty() ? rightSide : asFloat(rightSide), result);
    std::vector<std::byte> scratch(static_cast<size_t>(kernel->info.threadScratchBytes) + 64);
    auto address = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64;
    weft_kernel_env env{sizeof(weft_kernel_env), 0, reinterpret_cast<void *>(address)};
    for (int64_t rows : {int64_t(2), int64_t(7), int64_t(8), int64_t(13), p.m - 1, p.m}) {
      HostTensor some = result, first = expected;
      std::fill(first.bytes.begin() + rows * p.n * int64_t(sizeof(T)), first.bytes.end(),
                std::byte(0)); // the others are not written
      std::vector<void *> buffers = {left.bytes.data(), rightSide.bytes.data(), some.bytes.data()};
      ASSERT_EQ(kernel->body(&env, buffers.data(), nullptr, nullptr, 0, rows), WEFT_KERNEL_OK);
      EXPECT_EQ(tests::compareExact(some, first), "") << rows << " rows for " << target.cpu;
    }
  }
}

TEST(MatmulSchedule, RowsWhoseNumberVaries) {
  for (bool right : {false, true}) {
    checkCounts<double>({0, 64, 300, 130, false, right}, "f64");
    checkCounts<float>({0, 32, 300, 130, false, right, "i8"}, "f32");
  }
}

} // namespace
} // namespace weft::compiler
