#include "compiler/codegen/FusionCheck.h"

#include "compiler/codegen/Choices.h"
#include "compiler/codegen/FusionText.h"
#include "compiler/codegen/KernelTester.h"

#include <cmath>

#include "mlir/IR/IRMapping.h"
#include "tests/support/Compare.h"
#include "llvm/Support/xxhash.h"
#include "gtest/gtest.h"

namespace weft::compiler {

using namespace mlir;
using ir::HostTensor;

// The fusion's results when each op is a kernel of its own.
static std::vector<HostTensor> runOneByOne(ir::FusionOp fusion, ArrayRef<HostTensor> inputs) {
  DenseMap<Value, HostTensor> values;
  Block &body = fusion.getBody().front();
  for (auto [argument, input] : llvm::zip(body.getArguments(), inputs))
    values[argument] = input;
  for (Operation &op : body.without_terminator()) {
    OpBuilder b(fusion);
    b.setInsertionPointAfter(fusion);
    // Operands are stand-ins of the right types: a kernel reads the fusion's body only.
    auto single =
        func::FuncOp::create(b, op.getLoc(), "single", b.getFunctionType(op.getOperandTypes(), {}));
    Block *entry = single.addEntryBlock();
    b.setInsertionPointToStart(entry);
    auto alone = ir::FusionOp::create(b, op.getLoc(), op.getResultTypes(), entry->getArguments());
    Block *inside = b.createBlock(&alone.getBody(), {}, op.getOperandTypes(),
                                  SmallVector<Location>(op.getNumOperands(), op.getLoc()));
    Operation *clone = b.clone(op);
    clone->setOperands(inside->getArguments());
    ir::YieldOp::create(b, op.getLoc(), clone->getResults());
    SmallVector<HostTensor> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values[operand]);
    std::string error;
    auto kernel = TestKernel::build(alone, error);
    EXPECT_TRUE(kernel) << error;
    if (!kernel)
      return {};
    std::vector<HostTensor> results;
    EXPECT_EQ(kernel->run(operands, results, 2), WEFT_KERNEL_OK);
    for (auto [result, value] : llvm::zip(op.getResults(), results))
      values[result] = value;
    single.erase();
  }
  std::vector<HostTensor> yielded;
  for (Value value : body.getTerminator()->getOperands())
    yielded.push_back(values[value]);
  return yielded;
}

// The kernel with another schedule: values drawn from those that its choices may have.
static std::unique_ptr<TestKernel> withOtherSchedule(ir::FusionOp fusion, const KernelInfo &info,
                                                     uint64_t seed, std::string &message) {
  std::vector<ScheduleChoice> pins = info.schedule;
  for (ScheduleChoice &pin : pins) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    pin.value = pin.legal[(seed >> 33) % pin.legal.size()];
    message += pin.name + " = " + pin.value + ", ";
  }
  fusion->setAttr(kScheduleAttr, scheduleAttr(fusion.getContext(), pins));
  return TestKernel::build(fusion, message);
}

void checkFusion(const std::string &signature, const std::string &body, const std::string &results,
                 double error, const std::vector<std::pair<int64_t, double>> &special) {
  SCOPED_TRACE(body);
  auto parsed = parseFusion(signature, body, results);
  if (!parsed->fusion)
    return;
  std::string message;
  auto kernel = TestKernel::build(parsed->fusion, message);
  ASSERT_TRUE(kernel) << message;
  SmallVector<HostTensor> inputs, expected;
  for (Type type : parsed->fusion.getInputs().getTypes())
    inputs.push_back(sample(type, inputs.size() + 1));
  for (auto [at, value] : special)
    inputs[0].set(at, value);
  auto consumed = inputs;
  ASSERT_TRUE(succeeded(ir::evaluateBlock(parsed->fusion.getBody().front(), consumed, expected)));
  std::vector<HostTensor> one, several, apart = runOneByOne(parsed->fusion, inputs);
  ASSERT_EQ(apart.size(), expected.size());
  EXPECT_EQ(kernel->run(inputs, one, 1), WEFT_KERNEL_OK);
  EXPECT_EQ(kernel->run(inputs, several, 5), WEFT_KERNEL_OK);
  for (size_t i = 0; i < expected.size(); ++i) {
    std::vector<double> bounds;
    for (int64_t k = 0; k < expected[i].size(); ++k)
      bounds.push_back(error * (1 + std::abs(expected[i].getDouble(k))));
    EXPECT_EQ(tests::compareWithin(one[i], expected[i], 0, bounds), "") << "result " << i;
    EXPECT_EQ(tests::compareExact(several[i], one[i]), "")
        << "result " << i << ", several ranges of pieces";
    EXPECT_EQ(tests::compareExact(one[i], apart[i]), "") << "result " << i << ", op by op";
  }
  std::string choices;
  auto other = withOtherSchedule(parsed->fusion, kernel->info, llvm::xxh3_64bits(body), choices);
  ASSERT_TRUE(other) << choices;
  std::vector<HostTensor> otherwise;
  EXPECT_EQ(other->run(inputs, otherwise, 2), WEFT_KERNEL_OK);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(tests::compareExact(otherwise[i], one[i]), "")
        << "result " << i << ", scheduled by " << choices;
  for (auto pair : kernel->info.inPlace) {
    std::vector<HostTensor> shared;
    EXPECT_EQ(kernel->run(inputs, shared, 3, pair), WEFT_KERNEL_OK);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_EQ(tests::compareExact(shared[i], one[i]), "")
          << "result " << i << ", result " << pair.first << " in place of operand " << pair.second;
  }
}

} // namespace weft::compiler
