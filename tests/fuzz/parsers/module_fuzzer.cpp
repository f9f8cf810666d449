// Programs as text and as bytecode: weft's types, attributes, op assembly, verifiers and folders behind MLIR's parser.
#include "dialects/weft/ir/Weft.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "tests/fuzz/parsers/parser_fuzzer.h"
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

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const char *text : kPrograms) {
    if (!kBytecode) {
      all.push_back(text);
      continue;
    }
    auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context());
    std::string bytes;
    llvm::raw_string_ostream stream(bytes);
    if (!module || failed(mlir::writeBytecodeToFile(*module, stream))) std::abort();
    all.push_back(bytes);
  }
  return all;
}

void parse(const uint8_t *data, size_t size) {
  std::string source(reinterpret_cast<const char *>(data), size);
  // The magic number says which of the two readers gets the bytes.
  bool bytecode = source.starts_with("ML\xefR");
  if (bytecode != kBytecode) return;
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(source, &context());
  if (!module) return;
  // What is accepted prints, and reads back.
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream);
}

// MLIR's own structures; a constant's elements are splats or stand in the file.
int64_t allowed_bytes(size_t size) { return 4096 * static_cast<int64_t>(size) + (64 << 20); }

} // namespace weft::fuzz
