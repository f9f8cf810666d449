#include "backends/cuda/compile/WidenExtrema.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

namespace weft::backends::cuda {

void widenExtrema(llvm::Module &module) {
  llvm::SmallVector<llvm::MinMaxIntrinsic *> found;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *extremum = llvm::dyn_cast<llvm::MinMaxIntrinsic>(&instruction);
          extremum && extremum->getType()->getScalarSizeInBits() < 32)
        found.push_back(extremum);
  for (llvm::MinMaxIntrinsic *extremum : found) {
    llvm::IRBuilder<> b(extremum);
    llvm::Type *type = extremum->getType(), *wide = type->getWithNewType(b.getInt32Ty());
    bool isSigned = extremum->isSigned();
    llvm::Value *value = b.CreateBinaryIntrinsic(
        extremum->getIntrinsicID(), b.CreateIntCast(extremum->getLHS(), wide, isSigned),
        b.CreateIntCast(extremum->getRHS(), wide, isSigned));
    extremum->replaceAllUsesWith(b.CreateTrunc(value, type));
    extremum->eraseFromParent();
  }
}

} // namespace weft::backends::cuda
