#include "dialects/weft/ir/OpTable.h"

namespace weft::ir {

const std::vector<OpRow> &opTable() {
  static const std::vector<OpRow> rows{
#define WEFT_OP(mnemonic, record, kind, operands, differentiable, ulp, ...)                        \
  {mnemonic, Kind::kind, operands, differentiable, ulp, {__VA_ARGS__}},
#include "dialects/weft/ir/op_table.inc"
#undef WEFT_OP
  };
  return rows;
}

} // namespace weft::ir
