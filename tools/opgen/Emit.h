// What is made from the op records.
#pragma once

#include <string>
#include <vector>

#include "tools/opgen/Records.h"

namespace weft::opgen {

// The page of all ops, in Markdown.
std::string emitDocs(const std::vector<OpRecord> &ops);

// The ops as rows for tests, included with WEFT_OP defined:
//   WEFT_OP(mnemonic, class, kind, operands, differentiable, ulp, {lowest, highest}...)
// operands are the dtypes that each operand takes, "?" after optional and "*" after variadic ones:
// "floating floating? index".
std::string emitTable(const std::vector<OpRecord> &ops);

// The frontend's elementwise functions: WEFT_UNARY(function, record, operands, doc) and
// WEFT_BINARY(function, record, doc), where the op's class is record with "Op" after it. From them
// the frontend declares and defines the free functions and the members of Tensor.
std::string emitFrontend(const std::vector<OpRecord> &ops);

// The functions of the recorder that record one op each, declared and defined: emit_ops.h and
// emit_ops.inc. Parameters are the record's arguments in its order, those with a default last;
// after the operands comes the result's type where the record has no rule for it, and the name ends
// in
// "_as". Optional operands may be null. An op of several results gives an array.
std::string emitRecorderHeader(const std::vector<OpRecord> &ops);
std::string emitRecorder(const std::vector<OpRecord> &ops);

} // namespace weft::opgen
