// Why values are asked for, and where.
#pragma once

#include "frontend/recorder/record/values.h"
#include "weft/explain.h"

namespace weft::recorder {

struct EvaluateRequest {
  CutReason reason;
  Location location;
};

// Who asked, and where, as explain says it.
inline void describe_request(const EvaluateRequest &request, Evaluation &figures) {
  figures.reason = request.reason;
  Location line = CallerScope::resolve(request.location);
  figures.file = line.file_name();
  figures.line = static_cast<int>(line.line());
}

} // namespace weft::recorder
