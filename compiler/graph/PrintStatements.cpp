#include "compiler/graph/Passes.h"
#include "dialects/weft/ir/Weft.h"

namespace weft::compiler {

#define GEN_PASS_DEF_PRINTSTATEMENTSPASS
#include "compiler/graph/Passes.h.inc"

namespace {

class PrintStatementsPass : public impl::PrintStatementsPassBase<PrintStatementsPass> {
public:
  using PrintStatementsPassBase::PrintStatementsPassBase;

  void runOnOperation() override {
    getOperation().walk([](ir::WeftOp op) {
      if (auto statement = ir::statementOf(op))
        op.emitRemark() << ir::textOf(*statement);
      else if (llvm::StringRef why = op.missingRule(ir::RuleKind::Statement); !why.empty())
        op.emitRemark() << "no statement: " << why;
      else
        op.emitRemark() << "no statement: inner dims have no size";
    });
  }
};

} // namespace
} // namespace weft::compiler
