#include "compiler/backend/Backend.h"

#include <atomic>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "runtime/executable/executable.h"
#include "gtest/gtest.h"

namespace weft::compiler {
namespace {

class NullBackend : public Backend {
public:
  llvm::StringRef name() const override {
    return "null";
  }
  llvm::StringRef device() const override {
    return "cpu";
  }
  void registerDialects(mlir::DialectRegistry &) const override {}
  absl::StatusOr<std::shared_ptr<runtime::Executable>>
  compile(mlir::ModuleOp, const CompileOptions &, CompileReport *) override {
    return absl::UnimplementedError("null");
  }
  std::string targetKey(const CompileOptions &) const override {
    return "";
  }
};

TEST(BackendRegistry, UnknownNameListsTheKnownOnes) {
  ASSERT_TRUE(registerBackend("known", [] { return std::make_unique<NullBackend>(); }).ok());
  auto backend = findBackend("nowhere");
  ASSERT_EQ(backend.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(backend.status().message()).find("known"), std::string::npos);
}

TEST(BackendRegistry, ANameIsTakenOnce) {
  ASSERT_TRUE(registerBackend("once", [] { return std::make_unique<NullBackend>(); }).ok());
  EXPECT_EQ(registerBackend("once", [] { return std::make_unique<NullBackend>(); }).code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(BackendRegistry, MakesABackendOnceForAllThreads) {
  static std::atomic<int> made{0};
  ASSERT_TRUE(registerBackend("counted", [] {
                ++made;
                return std::make_unique<NullBackend>();
              }).ok());
  EXPECT_EQ(made, 0);
  std::vector<std::thread> threads;
  std::atomic<Backend *> seen{nullptr};
  std::atomic<bool> same{true};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      Backend *backend = *findBackend("counted");
      Backend *expected = nullptr;
      if (!seen.compare_exchange_strong(expected, backend) && expected != backend)
        same = false;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(made, 1);
  EXPECT_TRUE(same);
}

TEST(BackendRegistry, NamesWhatIsMissing) {
  EXPECT_EQ(registerBackend("", [] { return std::make_unique<NullBackend>(); }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(registerBackend("without", nullptr).message(),
            "the backend 'without' needs a name and a factory");
  EXPECT_EQ(findBackend("without").status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(registerBackend("gives-null", [] { return std::unique_ptr<Backend>(); }).ok());
  EXPECT_EQ(findBackend("gives-null").status().message(),
            "the factory of the backend 'gives-null' gave null");
}

struct FakeExecutable : runtime::Executable {
  std::vector<runtime::InputSpec> inputs{{"x", DType::kFloat32, {2, 3}, 24, true, false}};
  std::vector<runtime::OutputSpec> outputs{{"y", DType::kFloat32, {2, 3}, 24}};

  std::span<const runtime::InputSpec> input_specs() const override {
    return inputs;
  }
  std::span<const runtime::OutputSpec> output_specs() const override {
    return outputs;
  }
  int64_t arena_bytes() const override {
    return 0;
  }
  bool is_serial() const override {
    return true;
  }
  absl::StatusOr<std::unique_ptr<runtime::RunResources>>
  acquire(const runtime::RunContext &) override {
    return std::unique_ptr<runtime::RunResources>();
  }
  absl::Status run(const runtime::RunContext &, runtime::RunResources &,
                   std::span<runtime::Buffer *const>, std::span<runtime::Buffer *const>) override {
    return absl::OkStatus();
  }
};

// A backend that gives what `make` gives of a slice from one tensor<2x3xf32> to one.
class FakeBackend : public NullBackend {
public:
  using Made = absl::StatusOr<std::shared_ptr<runtime::Executable>>;
  std::function<Made()> make;

  Made compile(mlir::ModuleOp, const CompileOptions &, CompileReport *) override {
    return make();
  }
  Made compiled() {
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    context.loadDialect<mlir::func::FuncDialect>();
    auto module = mlir::parseSourceString<mlir::ModuleOp>(
        "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> { return %x : tensor<2x3xf32> }",
        &context);
    return compileBy(*this, *module, {}, nullptr);
  }
  std::string wrong() {
    return std::string(compiled().status().message());
  }
  // What is said of an executable that `change` has changed.
  std::string wrong(const std::function<void(FakeExecutable &)> &change) {
    make = [&]() -> Made {
      auto executable = std::make_shared<FakeExecutable>();
      change(*executable);
      return executable;
    };
    return wrong();
  }
};

TEST(Backend, ThatGivesANullExecutableIsNamed) {
  FakeBackend backend;
  backend.make = [] { return std::shared_ptr<runtime::Executable>(); };
  EXPECT_EQ(backend.wrong(), "the backend 'null' gave a null executable and no error");
}

TEST(Backend, ThatGivesAnExecutableOfAnotherProgramIsNamed) {
  FakeBackend backend;
  const std::string gave = "the backend 'null' gave an executable that ";
  const std::string mend = "; mend what its compile() makes";
  EXPECT_EQ(backend.wrong([](FakeExecutable &) {}), "");
  EXPECT_EQ(backend.wrong([](FakeExecutable &e) { e.outputs.clear(); }),
            gave + "has specs of 0 outputs, where @main has 1" + mend);
  EXPECT_EQ(backend.wrong([](FakeExecutable &e) { e.inputs.clear(); }),
            gave + "has specs of 0 inputs, where @main has 1" + mend);
  EXPECT_EQ(backend.wrong([](FakeExecutable &e) { e.outputs[0].dims = {77}; }),
            gave + "says that output 0 is float32[77], where @main has tensor<2x3xf32>" + mend);
  EXPECT_EQ(backend.wrong([](FakeExecutable &e) { e.outputs[0].bytes = 4; }),
            gave + "says that output 0 states 4 bytes; its dims take 24" + mend);
}

TEST(Backend, ThatTiesAnOutputToWhatIsNotThereIsNamed) {
  FakeBackend backend;
  const std::string gave = "the backend 'null' gave an executable that says that output 0 is ";
  const std::string mend = "; mend what its compile() makes";
  for (int32_t runtime::OutputSpec::*tie :
       {&runtime::OutputSpec::donated_input, &runtime::OutputSpec::alias_input,
        &runtime::OutputSpec::alias_output})
    EXPECT_EQ(backend.wrong([&](FakeExecutable &e) { e.outputs[0].*tie = 9; }),
              gave + "tied to a buffer that is not there" + mend);
  EXPECT_EQ(backend.wrong([](FakeExecutable &e) { e.outputs[0].donated_input = 0; }), "");
  EXPECT_EQ(backend.wrong([](FakeExecutable &e) {
              e.outputs[0].donated_input = 0;
              e.inputs[0].donatable = false;
            }),
            gave + "written into input 0, which is not donatable" + mend);
}

TEST(Backend, ThatThrowsIsNamed) {
  FakeBackend backend;
  backend.make = []() -> FakeBackend::Made { throw std::runtime_error("no card"); };
  EXPECT_EQ(backend.compiled().status(),
            absl::InternalError("compile() of the backend 'null' threw an exception: no card"));
  backend.make = []() -> FakeBackend::Made { throw std::bad_alloc(); };
  EXPECT_EQ(backend.compiled().status(),
            absl::ResourceExhaustedError(
                "there is not enough memory on the host for compile() of the backend 'null'"));
  ASSERT_TRUE(registerBackend("throws", []() -> std::unique_ptr<Backend> { throw 7; }).ok());
  EXPECT_EQ(findBackend("throws").status().message(),
            "the factory of the backend 'throws' threw an exception that is no std::exception");
}

TEST(Backend, SaysWhenItCannotLoad) {
  NullBackend backend;
  EXPECT_EQ(backend.load({}).status().code(), absl::StatusCode::kUnimplemented);
}

} // namespace
} // namespace weft::compiler
