#include "dialects/weft/ir/TypeAdvice.h"

#include "dialects/weft/ir/Weft.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/DialectRegistry.h"
#include "llvm/Support/LineIterator.h"
#include "llvm/Support/MemoryBuffer.h"

namespace weft::ir {

using namespace mlir;

// "weft.add" where the line of a text file holds one such op; the parser's messages do not name it.
static std::string opAt(Location location) {
  auto file = dyn_cast<FileLineColLoc>(location);
  if (!file)
    return "";
  auto buffer = llvm::MemoryBuffer::getFile(file.getFilename().getValue(), /*IsText=*/true);
  if (!buffer)
    return "";
  for (llvm::line_iterator line(**buffer, /*SkipBlanks=*/false); !line.is_at_end(); ++line) {
    if (line.line_number() != static_cast<int64_t>(file.getLine()))
      continue;
    size_t start = line->find("weft.");
    if (start == StringRef::npos)
      return "";
    size_t end = line->find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.", start);
    return line->slice(start, end).str();
  }
  return "";
}

std::string typeAdvice(const Diagnostic &diagnostic) {
  std::string text = diagnostic.str();
  bool parsed = text.find("expects different type than prior uses") != std::string::npos;
  bool verified =
      text.find("requires the same type for all operands and results") != std::string::npos ||
      text.find("failed to verify that all of {") != std::string::npos;
  if (!parsed && !(verified && text.rfind("'weft.", 0) == 0))
    return "";
  std::string op = parsed ? opAt(diagnostic.getLocation()) : text.substr(1, text.find('\'', 1) - 1);
  auto name = RegisteredOperationName::lookup(op, diagnostic.getLocation().getContext());
  auto *rules = name ? name->getInterface<WeftOp>() : nullptr;
  if (!rules || rules->kind() != Kind::Elementwise || name->hasTrait<OpTrait::OneOperand>())
    return "";
  return op + " takes operands of one shape and one dtype; weft.broadcast gives an operand the "
              "other's shape, weft.cast its dtype";
}

std::string dialectAdvice(const Diagnostic &diagnostic) {
  std::string text = diagnostic.str();
  StringRef name(text);
  // The parser of text, and that of bytecode.
  if (name.consume_front("Dialect `") && name.contains("' not found"))
    name = name.split('\'').first;
  else if (name.consume_front("dialect '") && name.contains("' is unknown"))
    name = name.split('\'').first;
  else
    return "";
  return ("if '" + name + "' is a plugin's, load the plugin before: weft::load_plugin, or " +
          "WEFT_PLUGINS=FILE.so")
      .str();
}

std::string elementAdvice(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto isElement = [&](const DTypeInfo &each) {
    return elementType(each.dtype, type.getContext()) == tensor.getElementType();
  };
  if (!tensor || llvm::any_of(kDTypes, isElement))
    return "";
  std::string text = "tensors have elements of ";
  llvm::raw_string_ostream stream(text);
  llvm::interleaveComma(kDTypes, stream, [&](const DTypeInfo &each) {
    stream << elementType(each.dtype, type.getContext());
  });
  return text;
}

// Of a handler that is registered when the dialect is loaded: behind the tool's own, which it is
// asked before. A file that has no weft op before the one in question has a function.
template <typename Dialect, std::string (*adviceOn)(const Diagnostic &)>
static void addAdvice(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, Dialect *) {
    context->getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
      if (std::string advice = adviceOn(diagnostic); !advice.empty())
        diagnostic.attachNote() << advice;
      return failure(); // the other handlers print it
    });
  });
}

void addTypeAdvice(DialectRegistry &registry) {
  addAdvice<WeftDialect, typeAdvice>(registry);
  addAdvice<func::FuncDialect, dialectAdvice>(registry);
}

} // namespace weft::ir
