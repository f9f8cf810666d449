// Assembly and verification of region ops: weft.fusion and weft.provider_call.
//
//   %0 = weft.fusion(%a = %x : tensor<4xf32>) -> (tensor<4xf32>) { ... weft.yield %r :
//   tensor<4xf32> } %0 = weft.provider_call "onednn.matmul"(%a = %x : ..., %b = %y : ...) -> (...)
//   config {...} { ... }
#include "dialects/weft/rules/RuleChecks.h"

namespace weft::ir {

using namespace mlir;

// (%argument = %operand : type, ...) -> (types)
static ParseResult parseSignature(OpAsmParser &parser, OperationState &state,
                                  SmallVector<OpAsmParser::Argument> &arguments) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Type> types;
  llvm::SMLoc loc = parser.getCurrentLocation();
  auto parseOne = [&]() -> ParseResult {
    return failure(parser.parseArgument(arguments.emplace_back()) || parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()) ||
                   parser.parseColonType(arguments.back().type));
  };
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, parseOne) ||
      parser.parseArrow() || parser.parseLParen())
    return failure();
  if (parser.parseOptionalRParen() && (parser.parseTypeList(state.types) || parser.parseRParen()))
    return failure();
  for (const OpAsmParser::Argument &argument : arguments)
    types.push_back(argument.type);
  return parser.resolveOperands(operands, types, loc, state.operands);
}

static ParseResult parseBody(OpAsmParser &parser, OperationState &state,
                             SmallVector<OpAsmParser::Argument> &arguments) {
  if (parser.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  return parser.parseRegion(*state.addRegion(), arguments);
}

static void printSignature(OpAsmPrinter &printer, Operation *op) {
  printer << "(";
  llvm::interleaveComma(llvm::zip(op->getRegion(0).getArguments(), op->getOperands()), printer,
                        [&](auto pair) {
                          auto [argument, operand] = pair;
                          printer << argument << " = " << operand << " : " << operand.getType();
                        });
  printer << ") -> (";
  llvm::interleaveComma(op->getResultTypes(), printer);
  printer << ")";
}

static void printBody(OpAsmPrinter &printer, Operation *op, ArrayRef<StringRef> elided) {
  printer.printOptionalAttrDictWithKeyword(op->getAttrs(), elided);
  printer << " ";
  printer.printRegion(op->getRegion(0), /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/true);
}

static LogicalResult verifyRegion(Operation *op) {
  RuleChecks check(op);
  Block &body = op->getRegion(0).front();
  if (body.empty() || !isa<YieldOp>(body.back()))
    return check.error("the body must end with weft.yield");
  if (body.getArgumentTypes() != op->getOperandTypes())
    return check.error("the arguments of the body must have the number and types of the operands");
  if (body.back().getOperandTypes() != op->getResultTypes())
    return check.error("what the body yields must have the number and types of the results");
  return success();
}

ParseResult FusionOp::parse(OpAsmParser &parser, OperationState &state) {
  SmallVector<OpAsmParser::Argument> arguments;
  return failure(parseSignature(parser, state, arguments) || parseBody(parser, state, arguments));
}
void FusionOp::print(OpAsmPrinter &printer) {
  printSignature(printer, *this);
  printBody(printer, *this, {});
}
LogicalResult FusionOp::verify() {
  return verifyRegion(*this);
}

ParseResult ProviderCallOp::parse(OpAsmParser &parser, OperationState &state) {
  SmallVector<OpAsmParser::Argument> arguments;
  auto &properties = state.getOrAddProperties<Properties>();
  if (parser.parseAttribute(properties.callee) || parseSignature(parser, state, arguments) ||
      parser.parseKeyword("config") || parser.parseAttribute(properties.config))
    return failure();
  return parseBody(parser, state, arguments);
}
void ProviderCallOp::print(OpAsmPrinter &printer) {
  printer << " " << getCalleeAttr();
  printSignature(printer, *this);
  printer << " config " << getConfig();
  printBody(printer, *this, {"callee", "config"});
}
LogicalResult ProviderCallOp::verify() {
  return verifyRegion(*this);
}

} // namespace weft::ir
