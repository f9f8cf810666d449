#include "compiler/plan/KernelStructure.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::compiler {

using namespace mlir;

namespace {

// More names would make symbols long without saying more.
constexpr int kNamedOps = 4;

} // namespace

// Says what a fusion computes to a sink: names of ops, attributes, types, and numbers. Both sinks
// below have one overload for each.
template <typename Sink> static void describe(ir::FusionOp fusion, Sink &sink) {
  DenseMap<Value, int32_t> numbers;
  auto define = [&](ValueRange values) {
    sink.say(int32_t(values.size()));
    for (Value value : values) {
      numbers.try_emplace(value, int32_t(numbers.size()));
      sink.say(value.getType());
    }
  };
  fusion->walk<WalkOrder::PreOrder>([&](Operation *op) {
    sink.say(op->getName());
    sink.say(Attribute(op->getAttrDictionary()));
    sink.say(int32_t(op->getNumOperands()));
    if (op != fusion)
      for (Value operand : op->getOperands())
        sink.say(numbers.lookup(operand));
    define(op->getResults());
    for (Region &region : op->getRegions())
      for (Block &block : region)
        define(block.getArguments());
  });
}

namespace {

// Attributes, types and op names are unique in their context, so that their addresses are what they
// say.
struct Addresses {
  std::string bytes;

  template <typename T> void say(T unique) {
    const void *pointer = unique.getAsOpaquePointer();
    bytes.append(reinterpret_cast<const char *>(&pointer), sizeof pointer);
  }
  void say(int32_t number) {
    bytes.append(reinterpret_cast<const char *>(&number), sizeof number);
  }
};

struct Words {
  std::string text;
  llvm::raw_string_ostream stream{text};

  template <typename T> void say(T printed) {
    stream << printed << ' ';
  }
};

} // namespace

std::string structureOf(ir::FusionOp fusion) {
  Addresses addresses;
  describe(fusion, addresses);
  return std::move(addresses.bytes);
}

std::string lastingStructureOf(ir::FusionOp fusion) {
  Words words;
  describe(fusion, words);
  return std::move(words.text);
}

std::string kernelNameSuffix(ir::FusionOp fusion) {
  std::string suffix;
  int named = 0;
  StringRef last;
  auto ops = fusion.getBody().front().without_terminator();
  if (ops.empty())
    return "_copy"; // of a part that begins where no buffer does
  for (Operation &op : ops) {
    if (op.hasTrait<OpTrait::ConstantLike>() || isa<ir::BroadcastOp, ir::ReshapeOp, ir::CastOp>(op))
      continue;
    StringRef name = op.getName().stripDialect();
    if (name == last)
      continue;
    if (named++ == kNamedOps)
      break;
    suffix += "_" + name.str();
    last = name;
  }
  if (suffix.empty()) // of ops that others have beside what names them
    suffix = "_" + std::prev(ops.end())->getName().stripDialect().str();
  return suffix;
}

plan::KernelOp createKernel(OpBuilder &builder, ir::FusionOp fusion, size_t number) {
  OpBuilder::InsertionGuard guard(builder);
  auto kernel = plan::KernelOp::create(
      builder, fusion.getLoc(), "k" + std::to_string(number) + kernelNameSuffix(fusion),
      builder.getFunctionType(fusion->getOperandTypes(), fusion->getResultTypes()), ArrayAttr(),
      ArrayAttr(), 1, 1, 0, 0, builder.getDenseI64ArrayAttr({}), StringAttr(), StringAttr(),
      FloatAttr(), FloatAttr());
  Block *block = builder.createBlock(&kernel.getBody());
  SmallVector<Value> arguments;
  for (Value operand : fusion->getOperands())
    arguments.push_back(block->addArgument(operand.getType(), fusion.getLoc()));
  Operation *body = builder.clone(*fusion);
  body->setOperands(arguments);
  plan::ReturnOp::create(builder, fusion.getLoc(), body->getResults());
  return kernel;
}

} // namespace weft::compiler
