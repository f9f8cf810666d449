// What the dialect's unit tests share: a context, parsing, tensors from numbers, and the messages
// of diagnostics.
#pragma once

#include <gtest/gtest.h>

#include "dialects/weft/ir/Weft.h"
#include "mlir/Parser/Parser.h"

namespace weft::ir {

class DialectFixture : public testing::Test {
protected:
  DialectFixture()
      : diagnostics(&context,
                    [this](mlir::Diagnostic &diagnostic) { messages += diagnostic.str() + "\n"; }) {
    context.loadDialect<WeftDialect, mlir::func::FuncDialect>();
  }

  static HostTensor tensor(DType dtype, std::vector<int64_t> shape, std::vector<double> values) {
    HostTensor result(dtype, std::move(shape));
    for (size_t i = 0; i < values.size(); ++i)
      result.set(i, values[i]);
    return result;
  }
  static HostTensor floats(std::vector<int64_t> shape, std::vector<double> values) {
    return tensor(DType::kFloat32, std::move(shape), std::move(values));
  }
  static HostTensor longs(std::vector<int64_t> shape, std::vector<double> values) {
    return tensor(DType::kInt64, std::move(shape), std::move(values));
  }
  static std::vector<double> numbers(const HostTensor &tensor) {
    std::vector<double> values;
    for (int64_t i = 0; i < tensor.size(); ++i)
      values.push_back(tensor.getDouble(i));
    return values;
  }

  // The module of a function `f`, kept alive by the fixture.
  mlir::func::FuncOp parse(llvm::StringRef text) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    return module ? module->lookupSymbol<mlir::func::FuncOp>("f") : mlir::func::FuncOp();
  }

  // The results of the function `f` in `text` for these inputs; empty where it fails, with the
  // reason in `messages`.
  std::vector<HostTensor> evaluate(llvm::StringRef text, std::vector<HostTensor> inputs) {
    mlir::func::FuncOp function = parse(text);
    llvm::SmallVector<HostTensor> results;
    if (!function || mlir::failed(evaluateBlock(function.getBody().front(), inputs, results)))
      return {};
    return {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())};
  }

  // The results of one op: `op` is its assembly over operands %0, %1, ... of the inputs' types;
  // `types` its result types.
  std::vector<HostTensor> evaluateOp(llvm::StringRef op, std::vector<HostTensor> inputs,
                                     llvm::StringRef types) {
    std::string text;
    llvm::raw_string_ostream out(text);
    out << "func.func @f(";
    for (auto [i, input] : llvm::enumerate(inputs)) {
      out << (i ? ", " : "") << "%" << i << ": ";
      out << mlir::RankedTensorType::get(input.shape, elementType(input.dtype, &context));
    }
    int64_t results = types.count("tensor");
    out << ") -> (" << types << ") {\n%r" << (results > 1 ? ":" + std::to_string(results) : "")
        << " = " << op << "\nreturn ";
    for (int64_t i = 0; i < results; ++i)
      out << (i ? ", " : "") << "%r" << (results > 1 ? "#" + std::to_string(i) : "");
    out << " : " << types << "\n}\n";
    return evaluate(text, std::move(inputs));
  }

  mlir::MLIRContext context;
  std::string messages;
  mlir::ScopedDiagnosticHandler diagnostics;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

} // namespace weft::ir
