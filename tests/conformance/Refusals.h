// The refusals (Unimplemented) that the conformance suite expects, from a table that a person reads
// and keeps: a backend that refuses something else fails, and so does one that has learnt what the
// table still says it refuses.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/core/dtype.h"
#include "llvm/ADT/StringRef.h"

namespace weft::tests {

// Of a text of lines
//   VARIANT, ... | OP, ... | DTYPE, ... | REASON
// A variant is a way to run programs (BackendRun.h), "cpu unclaimed"; an op is named without the
// dialect; * stands for every op or dtype, "* except OP, ..." for all ops but these. # starts a
// comment.
class Refusals {
public:
  // InvalidArgument, with the line's number, for one that has another form, names an op or a dtype
  // that is not there, lacks a reason, or says what a line before it says.
  static absl::StatusOr<Refusals> parse(llvm::StringRef text, const std::vector<std::string> &ops);
  // The table in the file that WEFT_REFUSALS names; without that variable nothing may be refused.
  static absl::StatusOr<Refusals> fromEnvironment(const std::vector<std::string> &ops);

  // The reason of an expected refusal, or null.
  const std::string *find(const std::string &variant, const std::string &op, DType dtype) const;

private:
  std::map<std::tuple<std::string, std::string, DType>, std::string> reasons_;
};

} // namespace weft::tests
