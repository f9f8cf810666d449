// Memory of the host that runs out while a program is compiled: an error as any other, at the line
// that needed the program, after which everything is as it was.
#include "weft/weft.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "compiler/backend/Backend.h"
#include "mlir/IR/BuiltinOps.h"
#include "tests/support/errors.h"

namespace weft {
namespace {

using testing_support::error_of;
using Floats = std::vector<float>;

bool is_scarce = false, has_no_key = false;

// The interpreter, where there is memory.
class ScarceBackend : public compiler::Backend {
public:
  llvm::StringRef name() const override {
    return "scarce";
  }
  llvm::StringRef device() const override {
    return under().device();
  }
  void registerDialects(mlir::DialectRegistry &registry) const override {
    under().registerDialects(registry);
  }
  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  compile(mlir::ModuleOp module, const compiler::CompileOptions &options,
          compiler::CompileReport *report) override {
    if (is_scarce)
      throw std::bad_alloc();
    return under().compile(module, options, report);
  }
  std::string targetKey(const compiler::CompileOptions &options) const override {
    if (has_no_key)
      throw std::runtime_error("out of luck");
    return "";
  }

private:
  static compiler::Backend &under() {
    return **compiler::findBackend("reference");
  }
};

compiler::BackendRegistration registered("scarce",
                                         [] { return std::make_unique<ScarceBackend>(); });

class CompileMemory : public testing::Test {
protected:
  CompileMemory() {
    Config options = before_;
    options.backend = "scarce";
    set_config(options);
  }
  ~CompileMemory() override {
    is_scarce = false;
    set_config(before_);
  }
  void expect_error(const std::function<void()> &call, int line) {
    is_scarce = true;
    Error error = error_of(call);
    is_scarce = false;
    EXPECT_EQ(error.kind(), ErrorKind::kMemory) << error.what();
    EXPECT_EQ(error.line(), line) << error.what();
    EXPECT_NE(error.message().find("not enough memory"), std::string::npos) << error.what();
  }

private:
  Config before_ = config();
};

TEST_F(CompileMemory, OfWhatIsRecorded) {
  Tensor x = tensor({1.f, 2.f}), total = zeros({2}).eval();
  total += x * 3;
  expect_error([&] { total.to_vector<float>(); }, __LINE__);
  EXPECT_EQ(total.to_vector<float>(), (Floats{3, 6}));
}

TEST_F(CompileMemory, IsToldWithTheBackendsName) {
  is_scarce = true;
  Error error = error_of([] { (ones({3}) + 1).to_vector<float>(); });
  is_scarce = false;
  EXPECT_NE(error.message().find("not enough memory on the host for compile() of the backend "
                                 "'scarce'"),
            std::string::npos)
      << error.what();
}

// What else the backend throws, in whichever function.
TEST_F(CompileMemory, AnExceptionOfTheBackendIsAnErrorOfTheCall) {
  has_no_key = true;
  Tensor x = ones({4}) + 1;
  Error error = error_of([&] { x.to_vector<float>(); });
  has_no_key = false;
  EXPECT_EQ(error.kind(), ErrorKind::kCompile) << error.what();
  EXPECT_NE(error.message().find("of the backend 'scarce' threw an exception: out of luck"),
            std::string::npos)
      << error.what();
  EXPECT_EQ(x.to_vector<float>(), (Floats{2, 2, 2, 2}));
}

TEST_F(CompileMemory, OfAFunctionThatIsJitted) {
  Tensor total = zeros({2}).eval();
  auto add = jit([&](const Tensor &x) {
    total += x;
    return x * 2;
  });
  Tensor x = tensor({1.f, 2.f});
  expect_error([&] { add(x); }, __LINE__);
  EXPECT_EQ(total.to_vector<float>(), (Floats{0, 0}));
  EXPECT_EQ(add(x).to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(total.to_vector<float>(), (Floats{1, 2}));
}

TEST_F(CompileMemory, OfAProgram) {
  Program twice = trace([](const Tensor &x) { return x * 2; }, {ones({2})});
  Tensor x = tensor({1.f, 2.f});
  expect_error([&] { twice.run({x}); }, __LINE__);
  EXPECT_EQ(twice.run({x})[0].to_vector<float>(), (Floats{2, 4}));
}

} // namespace
} // namespace weft
