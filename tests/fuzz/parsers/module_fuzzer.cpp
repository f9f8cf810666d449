// Programs as text and as bytecode: weft's types, attributes, op assembly and verifiers behind
// MLIR's parser.
#include <cstring>
#include <map>
#include <set>

#include "dialects/weft/ir/BytecodeFile.h"
#include "dialects/weft/ir/Weft.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "tests/fuzz/parsers/ModuleMutator.h"
#include "tests/fuzz/parsers/parser_fuzzer.h"
#include "tests/support/OpModule.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::fuzz {

#ifdef WEFT_FUZZ_BYTECODE
constexpr bool kBytecode = true;
#else
constexpr bool kBytecode = false;
#endif

namespace {
constexpr const char *kPrograms[] = {
    R"(func.func @main(%x: tensor<2x3xf32>, %i: tensor<2xi64>) -> (tensor<2x3xf32>, tensor<2xf32>) {
  %c = weft.constant dense<1.5> : tensor<2x3xf32>
  %0 = weft.add %x, %c : tensor<2x3xf32>
  %1 = weft.tanh %0 : tensor<2x3xf32>
  %2 = weft.reduce_sum %1, dims = [1] : tensor<2x3xf32>
  %3 = weft.index_select %x, %i, dim = 0 : tensor<2x3xf32>, tensor<2xi64>
  %4 = weft.maximum %1, %3 : tensor<2x3xf32>
  return %4, %2 : tensor<2x3xf32>, tensor<2xf32>
})",
    R"(func.func @main(%x: tensor<?x2xf32, #weft.dims<n, _>> {weft.donatable}, %y: tensor<?xf32, #weft.dims<n>>) -> tensor<2x?xf32, #weft.dims<_, n>> {
  %0 = weft.transpose %x, [1, 0] : tensor<?x2xf32, #weft.dims<n, _>>
  %1 = weft.broadcast %y : tensor<?xf32, #weft.dims<n>> to tensor<2x?xf32, #weft.dims<_, n>>
  %2 = weft.mul %0, %1 : tensor<2x?xf32, #weft.dims<_, n>>
  return %2 : tensor<2x?xf32, #weft.dims<_, n>>
})",
    R"(func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = weft.provider_call "onednn.matmul"(%a = %x : tensor<2x2xf32>) -> (tensor<2x2xf32>) config {m = 2 : i64} {
    %p = weft.matmul %a, %a : tensor<2x2xf32>, tensor<2x2xf32>
    weft.yield %p : tensor<2x2xf32>
  }
  %1 = weft.fusion(%b = %0 : tensor<2x2xf32>) -> (tensor<2x2xf32>) {
    %n = weft.neg %b : tensor<2x2xf32>
    weft.yield %n : tensor<2x2xf32>
  }
  %2 = weft.reshape %1 : tensor<2x2xf32> to tensor<4xf32>
  %3 = weft.reshape %2 : tensor<4xf32> to tensor<2x2xf32>
  return %3 : tensor<2x2xf32>
})"};

// The context keeps every type and attribute that it has seen: a new one now and then.
mlir::MLIRContext &context() {
  static std::unique_ptr<mlir::MLIRContext> current;
  static int uses = 0;
  if (!current || ++uses % 500 == 0) {
    mlir::DialectRegistry registry;
    registry.insert<ir::WeftDialect, mlir::func::FuncDialect>();
    current = std::make_unique<mlir::MLIRContext>(registry, mlir::MLIRContext::Threading::DISABLED);
    current->loadAllAvailableDialects();
    current->getDiagEngine().registerHandler([](mlir::Diagnostic &) { return mlir::success(); });
  }
  return *current;
}
} // namespace

static std::string written(mlir::ModuleOp module) {
  std::string bytes;
  if (kBytecode)
    bytes = ir::writeBytecode(module);
  else
    llvm::raw_string_ostream(bytes) << module;
  if (bytes.empty())
    std::abort();
  return bytes;
}

// Some programs, and a call of every op with each kind of attributes it is tested with.
std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const char *text : kPrograms) {
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context());
    if (!module)
      std::abort();
    all.push_back(kBytecode ? written(*module) : text);
  }
  std::map<std::string, int> of_op;
  std::set<std::string> known;
  for (const tests::OpCase &c : tests::allCases(context())) {
    constexpr int kMostOfAnOp = 3;
    if (c.large || of_op[c.op] == kMostOfAnOp || !known.insert(c.op + c.attributes).second)
      continue;
    for (DType dtype : {DType::kFloat32, DType::kInt64, DType::kBool})
      if (tests::OpModule made = tests::buildModule(context(), c, dtype)) {
        ++of_op[c.op];
        all.push_back(written(*made.module));
        break;
      }
  }
  return all;
}

bool parse(const uint8_t *data, size_t size) {
  std::string source(reinterpret_cast<const char *>(data), size);
  // MLIR's reader gets bytecode that its checksum says is as it was written, and nothing of
  // others': it does not stand up to any bytes.
  ir::BytecodeState state = ir::inspectBytecode(source);
  if (state != (kBytecode ? ir::BytecodeState::Intact : ir::BytecodeState::None))
    return false;
  mlir::MLIRContext *current = &context();
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::parseSourceString<mlir::ModuleOp>(source, current);
  if (!module)
    return false;
  // What is accepted can be written, and read again.
  if (!mlir::parseSourceString<mlir::ModuleOp>(written(*module), current))
    std::abort();
  return true;
}

// MLIR's own structures; a constant's elements are splats or stand in the file.
int64_t allowed_bytes(size_t size) {
  return 4096 * static_cast<int64_t>(size) + (64 << 20);
}

} // namespace weft::fuzz

#ifdef WEFT_FUZZ_BYTECODE
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);

// Bytecode is changed as the module that it holds, and now and then as bytes, too.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  using namespace weft::fuzz;
  Generator random(seed);
  std::string source(reinterpret_cast<const char *>(data), size);
  if (random() % 8 == 0 || weft::ir::inspectBytecode(source) != weft::ir::BytecodeState::Intact)
    return LLVMFuzzerMutate(data, size, most);
  // Unverified: what was changed before may be changed again.
  mlir::ParserConfig config(&context(), /*verifyAfterParse=*/false);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(source, config);
  if (!module)
    return LLVMFuzzerMutate(data, size, most);
  mutate(*module, random);
  std::string bytes = written(*module);
  if (bytes.size() > most)
    return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, bytes.data(), bytes.size());
  return random() % 8 == 0 ? LLVMFuzzerMutate(data, bytes.size(), most) : bytes.size();
}
#endif
