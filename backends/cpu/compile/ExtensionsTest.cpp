// What users register for compilations on the CPU: providers, a planner of memory, passes on
// kernels. (Ahead of time, and from plugins: examples/extensions.)
#include <atomic>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "backends/cpu/compile/CpuBackend.h"
#include "backends/cpu/compile/Libraries.h"
#include "compiler/claim/ProviderHooks.h"
#include "compiler/codegen/KernelPasses.h"
#include "compiler/fusion/FusionRules.h"
#include "compiler/link/Aot.h"
#include "compiler/plan/PlannerHooks.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"
#include "runtime/executor/device.h"
#include "runtime/memory/buffer.h"
#include "gtest/gtest.h"

namespace weft::backends::cpu {
namespace {

using compiler::CompileReport;

constexpr const char *kProgram = R"(
func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = weft.matmul %x, %x : tensor<32x32xf32>, tensor<32x32xf32>
  %1 = weft.tanh %0 : tensor<32x32xf32>
  %2 = weft.matmul %1, %x : tensor<32x32xf32>, tensor<32x32xf32>
  %3 = weft.matmul %2, %1 : tensor<32x32xf32>, tensor<32x32xf32>
  return %3 : tensor<32x32xf32>
})";

template <typename Use> auto withModule(const Use &use, const char *program = kProgram) {
  mlir::DialectRegistry registry;
  (*compiler::findBackend("cpu"))->registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(program, &context);
  return use(*module);
}

absl::StatusOr<std::shared_ptr<runtime::Executable>> compile(CompileReport *report = nullptr,
                                                             const char *program = kProgram) {
  return withModule(
      [&](mlir::ModuleOp module) {
        return (*compiler::findBackend("cpu"))->compile(module, {}, report);
      },
      program);
}

// The result for an input whose elements are all 1/32.
absl::StatusOr<std::vector<float>> evaluate(CompileReport *report = nullptr,
                                            const char *program = kProgram) {
  auto executable = compile(report, program);
  if (!executable.ok())
    return executable.status();
  std::vector<std::shared_ptr<runtime::Buffer>> inputs(1), outputs(1);
  inputs[0] = *runtime::cpu_device().memory()->allocate(4096, "input");
  std::fill_n(static_cast<float *>(inputs[0]->data()), 1024, 1.f / 32);
  if (absl::Status status = runtime::cpu_device().executor().submit(*executable, inputs, outputs);
      !status.ok())
    return status;
  if (absl::Status status = outputs[0]->wait(); !status.ok())
    return status;
  auto *data = static_cast<const float *>(outputs[0]->data());
  return std::vector<float>(data, data + 1024);
}

bool says(const CompileReport &report, llvm::StringRef text) {
  return llvm::any_of(report.remarks, [&](const std::string &remark) {
    return llvm::StringRef(remark).contains(text);
  });
}

bool says(const absl::Status &status, llvm::StringRef text) {
  return llvm::StringRef(std::string(status.message())).contains(text);
}

std::string key() {
  return (*compiler::findBackend("cpu"))->targetKey({});
}

class Extensions : public testing::Test {
protected:
  ~Extensions() override {
    compiler::clearRegisteredProviders();
    compiler::clearRegisteredPlanner();
    compiler::clearRegisteredKernelPasses();
    compiler::clearRegisteredFusionRules();
  }
  const std::string keyBefore_ = key();
};

//===-- Providers -----------------------------------------------------------------------------===//

// Multiplies matrices, and counts.
class Product : public runtime::LibraryCallState {
public:
  absl::Status run(std::span<void *const> operands, void *) override {
    ++runs;
    auto *a = static_cast<const float *>(operands[0]), *b = static_cast<const float *>(operands[1]);
    auto *c = static_cast<float *>(operands[2]);
    for (int i = 0; i < 32; ++i)
      for (int j = 0; j < 32; ++j) {
        c[i * 32 + j] = 0;
        for (int k = 0; k < 32; ++k)
          c[i * 32 + j] += a[i * 32 + k] * b[k * 32 + j];
      }
    return absl::OkStatus();
  }
  static inline std::atomic<int> runs = 0;
};

class Entry : public runtime::LibraryEntry {
public:
  explicit Entry(const char *name = "test.gemm") : name_(name) {}
  std::string_view name() const override {
    return name_;
  }
  absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>> init(const runtime::LibraryCall &,
                                                                  int) const override {
    return std::make_unique<Product>();
  }

private:
  const char *name_;
};
const Entry entry, nameless("");

// Gives no state.
class NullEntry : public Entry {
public:
  absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>> init(const runtime::LibraryCall &,
                                                                  int) const override {
    return nullptr;
  }
};
const NullEntry nullEntry;

class ThrowingEntry : public Entry {
public:
  absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>> init(const runtime::LibraryCall &,
                                                                  int) const override {
    throw std::runtime_error("out of luck");
  }
};

// Throws where it runs.
class ThrowingRunEntry : public Entry {
public:
  absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>> init(const runtime::LibraryCall &,
                                                                  int) const override {
    class State : public Product {
      absl::Status run(std::span<void *const>, void *) override {
        throw std::runtime_error("out of luck");
      }
    };
    return std::make_unique<State>();
  }
};

// Asks for more than there is.
class GreedyEntry : public Entry {
public:
  absl::StatusOr<std::unique_ptr<runtime::LibraryCallState>> init(const runtime::LibraryCall &,
                                                                  int) const override {
    class State : public Product {
      int64_t scratch_bytes() const override {
        return INT64_MAX;
      }
    };
    return std::make_unique<State>();
  }
};

class Gemm : public compiler::Provider {
public:
  enum Kind {
    kClaims,
    kRefuses,
    kRefusesWithoutName,
    kWrong,
    kThrows,
    kSometimes,
    kConfig,
    kLate,
    kLeavesNull,
    kPacksWhatIsNotThere,
    kPacksWithoutEntry,
    kPackingThrows,
  };
  explicit Gemm(Kind kind = kClaims, std::string name = "test.gemm")
      : kind_(kind), name_(std::move(name)) {}
  llvm::StringRef name() const override {
    return name_;
  }
  compiler::ClaimAnswer match(mlir::Operation *op, compiler::MathMode) const override {
    auto product = mlir::dyn_cast<ir::MatmulOp>(op);
    if (!product)
      return compiler::NotMine{};
    if (kind_ == kRefuses)
      return compiler::ClaimRefusal{"test-weather", "it rains"};
    if (kind_ == kRefusesWithoutName)
      return compiler::ClaimRefusal{"", ""};
    if (kind_ == kThrows)
      throw std::runtime_error("out of luck");
    if (kind_ == kSometimes)
      return compiler::SometimesMine{"on some days"};
    compiler::Claim claim;
    claim.ops = {op};
    if (kind_ == kConfig)
      claim.config.emplace_back(mlir::StringAttr::get(op->getContext(), "type"),
                                mlir::TypeAttr::get(product.getType()));
    if (kind_ != kWrong)
      claim.inputs = {product.getLhs(), product.getRhs()};
    claim.outputs = {product.getResult()};
    if (kind_ == kLate)
      claim.inputs.push_back(product->getUsers().begin()->getResult(0));
    if (kind_ == kLeavesNull)
      claim.left.push_back({nullptr, compiler::ClaimRefusal{"test-weather", "it rains"}});
    return claim;
  }
  compiler::PackingAnswer packing(mlir::Operation *op) const override {
    mlir::Builder builder(op->getContext());
    compiler::OperandPacking packing{1, builder.getStringAttr("test.pack"),
                                     builder.getDictionaryAttr({}),
                                     builder.getNamedAttr("packed", builder.getI64IntegerAttr(1)),
                                     1};
    switch (kind_) {
    case kPacksWhatIsNotThere:
      packing.operand = 7;
      return packing;
    case kPacksWithoutEntry:
      packing.entry = nullptr;
      return packing;
    case kPackingThrows:
      throw std::runtime_error("out of luck");
    default:
      return compiler::NotMine{};
    }
  }

private:
  Kind kind_;
  std::string name_;
};

compiler::ProviderRegistration gemm(Gemm::Kind kind = Gemm::kClaims) {
  return {
      .backend = "cpu", .provider = std::make_shared<Gemm>(kind), .entry = &entry, .version = "1"};
}

TEST_F(Extensions, AProviderIsAskedBeforeTheBackendsOwn) {
  auto expected = evaluate();
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(registerProvider(gemm()).ok());
  int runs = Product::runs;
  CompileReport report;
  auto values = evaluate(&report);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(Product::runs, runs + 3);
  EXPECT_EQ(report.libraryCalls, 3);
  for (int i = 0; i < 1024; ++i)
    ASSERT_NEAR((*values)[i], (*expected)[i], 1e-6);
  EXPECT_NE(key(), keyBefore_);
  EXPECT_NE(key().find("provider cpu test.gemm 1\n"), std::string::npos) << key();
  compiler::clearRegisteredProviders();
  EXPECT_EQ(key(), keyBefore_);
  ASSERT_TRUE(evaluate().ok());
  EXPECT_EQ(Product::runs, runs + 3);
}

TEST_F(Extensions, ARefusalHasItsReasonInTheReport) {
  ASSERT_TRUE(registerProvider(gemm(Gemm::kRefuses)).ok());
  CompileReport report;
  ASSERT_TRUE(evaluate(&report).ok());
  EXPECT_TRUE(says(report, "refused 3 x test-weather: it rains"));
  compiler::clearRegisteredProviders();
  ASSERT_TRUE(registerProvider(gemm(Gemm::kRefusesWithoutName)).ok());
  absl::Status status = evaluate().status();
  EXPECT_TRUE(says(status, "is refused by the provider 'test.gemm', whose refusal has no name"))
      << status;
}

TEST_F(Extensions, AClaimThatCannotBeIsAnErrorThatNamesTheProvider) {
  ASSERT_TRUE(registerProvider(gemm(Gemm::kWrong)).ok());
  absl::Status status = evaluate().status();
  EXPECT_TRUE(says(status, "is claimed by the provider 'test.gemm', whose claim has the op "
                           "'weft.matmul', an operand of which is neither an input nor"))
      << status;
}

TEST_F(Extensions, WhatAProviderIsAtFaultInNamesIt) {
  for (auto [kind, text] :
       {std::pair(Gemm::kThrows, "'weft.matmul' op is offered to the provider 'test.gemm', whose "
                                 "match threw an exception: out of luck"),
        std::pair(Gemm::kSometimes, "is offered to the provider 'test.gemm', which answers "
                                    "SometimesMine; that is for sizes that vary, and this op's do "
                                    "not (it says: on some days)"),
        std::pair(Gemm::kConfig, "is claimed by the provider 'test.gemm', whose claim has a config "
                                 "whose entry 'type' is neither an integer"),
        std::pair(Gemm::kLate, "is claimed by the provider 'test.gemm', whose claim has an input, "
                               "the result of 'weft.tanh', that is not there yet"),
        std::pair(Gemm::kLeavesNull, "is claimed by the provider 'test.gemm', whose claim has left "
                                     "a neighbour that is null"),
        std::pair(Gemm::kPacksWhatIsNotThere, "is offered to the provider 'test.gemm', whose "
                                              "packing names operand 7; the call has 2"),
        std::pair(Gemm::kPacksWithoutEntry, "whose packing has no entry or no config"),
        std::pair(Gemm::kPackingThrows, "in the phase 'claim', packing() of the provider "
                                        "'test.gemm' threw an exception: out of luck")}) {
    ASSERT_TRUE(registerProvider(gemm(kind)).ok());
    absl::Status status = evaluate().status();
    EXPECT_TRUE(says(status, text)) << status;
    EXPECT_FALSE(says(status, "see current operation")) << status;
    EXPECT_FALSE(says(status, "compilation failed in the phase")) << status;
    compiler::clearRegisteredProviders();
  }
}

TEST_F(Extensions, AnEntryThatIsAtFaultIsNamed) {
  ThrowingEntry throwing;
  ThrowingRunEntry throwingRun;
  GreedyEntry greedy;
  for (auto [entry, text] :
       {std::pair<const Entry *, const char *>(&throwing,
                                               "test.gemm: init() threw an exception: out of luck"),
        std::pair<const Entry *, const char *>(
            &throwingRun, "test.gemm: run() threw an exception: out of luck"),
        std::pair<const Entry *, const char *>(
            &greedy, "test.gemm: scratch_bytes() gave 9223372036854775807; no buffer has more")}) {
    compiler::ProviderRegistration given = gemm();
    given.entry = entry;
    ASSERT_TRUE(registerProvider(given).ok());
    absl::Status status = evaluate().status();
    EXPECT_TRUE(says(status, text)) << status;
    compiler::clearRegisteredProviders();
  }
}

TEST_F(Extensions, AnEntryWithoutAStateIsAnErrorThatNamesIt) {
  compiler::ProviderRegistration given = gemm();
  given.entry = &nullEntry;
  ASSERT_TRUE(registerProvider(given).ok());
  absl::Status status = evaluate().status();
  EXPECT_TRUE(says(status, "test.gemm: init() gave a null state")) << status;
}

TEST_F(Extensions, WhatIsNoProviderIsSaidWhereItIsRegistered) {
  auto changed = [](auto change) {
    compiler::ProviderRegistration given = gemm();
    change(given);
    return registerProvider(given);
  };
  using Given = compiler::ProviderRegistration;
  EXPECT_TRUE(says(changed([](Given &g) { g.provider = nullptr; }), "that is null"));
  EXPECT_TRUE(says(changed([](Given &g) { g.entry = nullptr; }), "has no entry"));
  EXPECT_TRUE(
      says(changed([](Given &g) { g.provider = std::make_shared<Gemm>(Gemm::kClaims, "test.x"); }),
           "the provider 'test.x' has an entry of another name, 'test.gemm'"));
  EXPECT_TRUE(says(changed([](Given &g) {
                     g.provider = std::make_shared<Gemm>(Gemm::kClaims, "");
                     g.entry = &nameless;
                   }),
                   "the provider '' has no name"));
  EXPECT_TRUE(says(changed([](Given &g) { g.library.files = {"a.a"}; }), "without a finder"));
  absl::Status unknown = changed([](Given &g) { g.backend = "cpuu"; });
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(says(unknown, "'cpuu', which takes none of users; those that do: cpu")) << unknown;
  ASSERT_TRUE(registerProvider(gemm()).ok());
  EXPECT_EQ(registerProvider(gemm()).code(), absl::StatusCode::kAlreadyExists);
  // Nothing of it is in a key.
  EXPECT_EQ(key().find("test.x"), std::string::npos);
}

TEST_F(Extensions, AheadOfTimeAProviderNeedsALibrary) {
  ASSERT_TRUE(registerProvider(gemm()).ok());
  compiler::AotOptions options;
  options.emit = compiler::Emit::Plan;
  options.output = testing::TempDir() + "/plan.mlir";
  options.providers = libraries().providersAheadOfTime();
  auto result = withModule(
      [&](mlir::ModuleOp module) { return compiler::compileAheadOfTime(module, options); });
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(says(result->reports.front(), "refused 3 x no-library: "));
  std::stringstream text;
  text << std::ifstream(options.output).rdbuf();
  EXPECT_EQ(text.str().find("test.gemm"), std::string::npos);

  // With one, and nobody who links it.
  compiler::clearRegisteredProviders();
  compiler::ProviderRegistration given = gemm();
  given.library.finder = "test_find";
  ASSERT_TRUE(registerProvider(given).ok());
  options.providers = libraries().providersAheadOfTime();
  options.emit = compiler::Emit::Object;
  options.output = testing::TempDir() + "/object.o";
  result = withModule(
      [&](mlir::ModuleOp module) { return compiler::compileAheadOfTime(module, options); });
  EXPECT_TRUE(says(result.status(), "calls 'test.gemm', which no library brings"))
      << result.status();
  options.libraries = libraries().runtimeLibraries();
  result = withModule(
      [&](mlir::ModuleOp module) { return compiler::compileAheadOfTime(module, options); });
  EXPECT_TRUE(result.ok()) << result.status();
}

//===-- Rules of what fuses -------------------------------------------------------------------===//

constexpr const char *kChain = R"(
func.func @main(%x: tensor<32x32xf32>) -> tensor<32x32xf32> {
  %0 = weft.tanh %x : tensor<32x32xf32>
  %1 = weft.neg %0 : tensor<32x32xf32>
  %2 = weft.exp %1 : tensor<32x32xf32>
  %3 = weft.abs %2 : tensor<32x32xf32>
  return %3 : tensor<32x32xf32>
})";

TEST_F(Extensions, ARuleOfWhatFusesMayObject) {
  CompileReport before, report;
  auto expected = evaluate(&before, kChain);
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(before.kernels, 1);
  ASSERT_TRUE(compiler::registerFusionRule("pairs", "3", [](llvm::ArrayRef<mlir::Operation *> ops) {
                return std::string(ops.size() > 2 ? "more than two ops" : "");
              }).ok());
  auto values = evaluate(&report, kChain);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, *expected);
  EXPECT_EQ(report.kernels, 2);
  EXPECT_TRUE(says(report, "x pairs: more than two ops (first: weft."));
  EXPECT_NE(key().find("fusion-rule pairs 3\n"), std::string::npos) << key();
  EXPECT_TRUE(says(compiler::registerFusionRule("", "1", nullptr), "no name"));
  EXPECT_TRUE(says(compiler::registerFusionRule("none", "1", nullptr), "no function"));
  auto never = [](llvm::ArrayRef<mlir::Operation *>) {
    return std::string();
  };
  EXPECT_TRUE(says(compiler::registerFusionRule("pairs", "4", never), "is registered already"));
  for (const char *own : {"different-rows", "computed-too-often", "too-far",
                          "checked-after-write", "two-lengths"})
    EXPECT_TRUE(says(compiler::registerFusionRule(own, "1", never), "a reason of Weft's own"))
        << own;
  compiler::clearRegisteredFusionRules();
  EXPECT_EQ(key(), keyBefore_);
}

TEST_F(Extensions, ARuleOrAPlannerThatThrowsIsNamed) {
  ASSERT_TRUE(compiler::registerFusionRule("hasty", "1", [](llvm::ArrayRef<mlir::Operation *>) {
                throw std::runtime_error("out of luck");
                return std::string();
              }).ok());
  absl::Status status = evaluate(nullptr, kChain).status();
  EXPECT_TRUE(says(status, "in the phase 'fuse', the fusion rule 'hasty' threw an exception: out "
                           "of luck"))
      << status;
  compiler::clearRegisteredFusionRules();
  ASSERT_TRUE(compiler::registerPlanner("hasty", "1", [](llvm::ArrayRef<compiler::Lifetime>) {
                throw std::runtime_error("out of luck");
                return absl::StatusOr<std::vector<int64_t>>();
              }).ok());
  status = evaluate().status();
  EXPECT_TRUE(says(status, "in the phase 'plan', the planner 'hasty' threw an exception: out of "
                           "luck"))
      << status;
}

//===-- A planner -----------------------------------------------------------------------------===//

// One value behind the other.
absl::StatusOr<std::vector<int64_t>> planApart(llvm::ArrayRef<compiler::Lifetime> lives) {
  std::vector<int64_t> offsets;
  int64_t end = 0;
  for (const compiler::Lifetime &life : lives)
    offsets.push_back(std::exchange(end, end + life.bytes));
  return offsets;
}

TEST_F(Extensions, APlannerPacksTheArena) {
  CompileReport before, report;
  auto expected = evaluate(&before);
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(compiler::registerPlanner("apart", "2", planApart).ok());
  auto values = evaluate(&report);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, *expected);
  EXPECT_EQ(report.plan.packing, "apart");
  EXPECT_GE(report.plan.arenaBytes, before.plan.arenaBytes);
  EXPECT_EQ(report.plan.liveBound, before.plan.liveBound);
  EXPECT_NE(key().find("planner apart 2\n"), std::string::npos) << key();
  EXPECT_TRUE(says(compiler::registerPlanner("other", "1", planApart),
                   "the planner 'other' cannot be registered beside 'apart'"));
  EXPECT_TRUE(says(compiler::registerPlanner("", "1", planApart), "no name"));
  EXPECT_TRUE(says(compiler::registerPlanner("none", "1", nullptr), "no function"));
}

TEST_F(Extensions, APlannerMayRefuse) {
  auto expected = evaluate();
  ASSERT_TRUE(compiler::registerPlanner("shy", "1", [](llvm::ArrayRef<compiler::Lifetime>) {
                return absl::StatusOr<std::vector<int64_t>>(absl::UnimplementedError("too hard"));
              }).ok());
  CompileReport report;
  auto values = evaluate(&report);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, *expected);
  EXPECT_TRUE(says(report, "; the planner 'shy' refused: too hard"));
}

TEST_F(Extensions, APackingIsProved) {
  struct Case {
    int64_t offset, step;
    const char *says;
  };
  for (Case wrong : {Case{0, 0, "memory was packed by the registered planner 'wrong'"},
                     {-64, 64, "the planner 'wrong' gave the offset -64"},
                     {8, 8192, "the planner 'wrong' gave the offset 8; it must be a multiple of"},
                     {INT64_MAX / 64 * 64, 0, "the planner 'wrong' gave the offset"},
                     {int64_t{1} << 61, 8192, "the planner 'wrong' gave the offset 2305843"}}) {
    compiler::clearRegisteredPlanner();
    ASSERT_TRUE(
        compiler::registerPlanner("wrong", "1", [wrong](llvm::ArrayRef<compiler::Lifetime> lives) {
          std::vector<int64_t> offsets;
          for (size_t i = 0; i < lives.size(); ++i)
            offsets.push_back(wrong.offset + int64_t(i) * wrong.step);
          return absl::StatusOr<std::vector<int64_t>>(offsets);
        }).ok());
    absl::Status status = evaluate().status();
    EXPECT_TRUE(says(status, wrong.says)) << status;
  }
}

//===-- Passes on kernels ---------------------------------------------------------------------===//

// tanh becomes its argument.
class NoTanh : public mlir::PassWrapper<NoTanh, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NoTanh)
  void runOnOperation() override {
    getOperation().walk([](mlir::math::TanhOp op) {
      op.replaceAllUsesWith(op.getOperand());
      op.erase();
      ++seen;
    });
  }
  static inline std::atomic<int> seen = 0;
};

class Breaks : public mlir::PassWrapper<Breaks, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Breaks)
  explicit Breaks(bool fails) : fails_(fails) {}
  void runOnOperation() override {
    if (fails_)
      return signalPassFailure();
    getOperation().getBody()->clear();
  }

private:
  bool fails_;
};

TEST_F(Extensions, AKernelPassChangesKernels) {
  using compiler::KernelStage;
  auto expected = evaluate();
  ASSERT_TRUE(expected.ok()) << expected.status();
  // What is expanded is not seen any more.
  ASSERT_TRUE(compiler::registerKernelPass(
                  KernelStage::Math, [] { return std::make_unique<NoTanh>(); }, "late", "1")
                  .ok());
  auto same = evaluate();
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(*same, *expected);
  EXPECT_EQ(NoTanh::seen, 0);
  ASSERT_TRUE(compiler::registerKernelPass(
                  KernelStage::Loops, [] { return std::make_unique<NoTanh>(); }, "no-tanh", "1")
                  .ok());
  EXPECT_NE(key().find("kernel-pass math late 1\nkernel-pass loops no-tanh 1\n"), std::string::npos)
      << key();
  auto values = evaluate();
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_GT(NoTanh::seen, 0);
  // x x = 1/32 everywhere; so are all that follow but for the tanh.
  for (float value : *values)
    ASSERT_NEAR(value, 1.f / 32, 1e-7);
  EXPECT_NE(*values, *expected);
  compiler::clearRegisteredKernelPasses();
  EXPECT_EQ(*evaluate(), *expected);
  EXPECT_EQ(key(), keyBefore_);
}

// Says something of each kernel.
class Remarks : public mlir::PassWrapper<Remarks, mlir::OperationPass<mlir::ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(Remarks)
  void runOnOperation() override {
    mlir::emitRemark(getOperation().getLoc()) << "a short kernel";
  }
};

TEST_F(Extensions, WhatAKernelPassSaysIsAmongTheRemarks) {
  auto place = [](const char *version) {
    return compiler::registerKernelPass(
        compiler::KernelStage::Math, [] { return std::make_unique<Remarks>(); }, "says", version);
  };
  ASSERT_TRUE(place("1").ok());
  for (int i = 0; i < 2; ++i) { // the second time the kernel is known
    CompileReport report;
    ASSERT_TRUE(evaluate(&report).ok());
    EXPECT_TRUE(says(report, "kernel pass 'says': "));
    EXPECT_TRUE(says(report, "a short kernel"));
  }
  EXPECT_EQ(place("1").code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(place("2").ok());
}

TEST_F(Extensions, AKernelPassThatBreaksAKernelIsNamed) {
  for (bool fails : {true, false}) {
    compiler::clearRegisteredKernelPasses();
    ASSERT_TRUE(compiler::registerKernelPass(
                    compiler::KernelStage::Llvm,
                    [fails] { return std::make_unique<Breaks>(fails); }, "breaks", "")
                    .ok());
    absl::Status status = evaluate().status();
    EXPECT_TRUE(says(status, fails ? "the registered kernel pass 'breaks' failed"
                                   : "the registered kernel pass 'breaks' removed the function"))
        << status;
  }
  EXPECT_EQ((*compiler::findBackend("cpu"))->whyNotCachable({}),
            "the registered kernel-pass 'breaks' has no version");
  EXPECT_TRUE(says(compiler::registerKernelPass(compiler::KernelStage::Llvm, nullptr, "none", "1"),
                   "no factory"));
  EXPECT_TRUE(says(compiler::registerKernelPass(
                       compiler::KernelStage(9), [] { return std::make_unique<Remarks>(); }, "none",
                       "1"),
                   "the kernel pass 'none' is registered after no stage that there is"));
}

} // namespace
} // namespace weft::backends::cpu
