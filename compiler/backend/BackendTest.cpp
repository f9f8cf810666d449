#include "compiler/backend/Backend.h"

#include <atomic>
#include <thread>

#include "mlir/IR/BuiltinOps.h"
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

TEST(Backend, ThatGivesANullExecutableIsNamed) {
  class GivesNull : public NullBackend {
  public:
    absl::StatusOr<std::shared_ptr<runtime::Executable>>
    compile(mlir::ModuleOp, const CompileOptions &, CompileReport *) override {
      return std::shared_ptr<runtime::Executable>();
    }
  } backend;
  EXPECT_EQ(compileBy(backend, {}, {}, nullptr).status().message(),
            "the backend 'null' gave a null executable and no error");
}

TEST(Backend, SaysWhenItCannotLoad) {
  NullBackend backend;
  EXPECT_EQ(backend.load({}).status().code(), absl::StatusCode::kUnimplemented);
}

} // namespace
} // namespace weft::compiler
