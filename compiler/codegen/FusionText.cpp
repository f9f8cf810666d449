#include "compiler/codegen/FusionText.h"

#include <random>
#include <vector>

#include "compiler/codegen/Codegen.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"

namespace weft::compiler {

using namespace mlir;

// Pairs of name and type.
static std::vector<std::pair<std::string, std::string>> split(StringRef text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!text.empty()) {
    auto [name, rest] = text.split(": ");
    size_t end = rest.find('>');
    pairs.push_back({name.trim().str(), rest.take_front(end + 1).str()});
    text = rest.drop_front(end + 1).ltrim(", ");
  }
  return pairs;
}

std::unique_ptr<ParsedFusion> parseFusion(const std::string &signature, const std::string &body,
                                          const std::string &results) {
  auto parsed = std::make_unique<ParsedFusion>();
  registerCodegenDialects(parsed->context);
  std::string arguments, operands, types, names;
  int64_t number = 0;
  for (auto &[name, type] : split(signature)) {
    std::string outer = "%arg" + std::to_string(number++);
    arguments += (arguments.empty() ? "" : ", ") + outer + ": " + type;
    operands += (operands.empty() ? "" : ", ") + name + " = " + outer + " : " + type;
  }
  for (auto &[name, type] : split(results)) {
    names += (names.empty() ? "" : ", ") + name;
    types += (types.empty() ? "" : ", ") + type;
  }
  std::string text = "func.func @main(" + arguments +
                     ") {\n  %results:" + std::to_string(split(results).size()) +
                     " = weft.fusion(" + operands + ") -> (" + types + ") {\n" + body +
                     "\n  weft.yield " + names + " : " + types + "\n  }\n  return\n}";
  parsed->module = parseSourceString<ModuleOp>(text, &parsed->context);
  if (parsed->module)
    parsed->module->walk([&](ir::FusionOp op) { parsed->fusion = op; });
  if (!parsed->fusion)
    ADD_FAILURE() << "does not parse:\n" << text;
  return parsed;
}

ir::FusionOp fusionAround(Operation *op) {
  OpBuilder b(op);
  auto fusion = ir::FusionOp::create(b, op->getLoc(), op->getResultTypes(), op->getOperands());
  Block *body = b.createBlock(&fusion.getBody());
  for (Value operand : op->getOperands())
    body->addArgument(operand.getType(), op->getLoc());
  Operation *clone = op->clone();
  clone->setOperands(body->getArguments());
  body->push_back(clone);
  b.setInsertionPointToEnd(body);
  ir::YieldOp::create(b, op->getLoc(), clone->getResults());
  op->replaceAllUsesWith(fusion.getResults());
  op->erase();
  return fusion;
}

ir::HostTensor sample(Type type, int64_t seed) {
  std::mt19937_64 random(seed);
  ir::HostTensor tensor = ir::HostTensor::of(cast<RankedTensorType>(type));
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (is_floating(tensor.dtype))
      tensor.set(i, normal(random));
    else
      tensor.setInt(i, random() % (tensor.dtype == DType::kBool ? 2 : 3));
  }
  return tensor;
}

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

} // namespace weft::compiler
