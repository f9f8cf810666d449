// What a call casts its arguments to under an Autocast scope. Private to the library.
#pragma once

#include "frontend/recorder/record/values.h"
#include "weft/autocast.h"

namespace weft::recorder {

struct AutocastState {
  DType dtype = DType::kBFloat16;
  bool enabled = false;
  bool operator==(const AutocastState &) const = default;
};
// This thread's innermost scope.
extern constinit thread_local AutocastState thread_autocast;

// Whether two states record one program.
inline bool same_casts(const AutocastState &a, const AutocastState &b) {
  return a.enabled == b.enabled && (!a.enabled || a.dtype == b.dtype);
}

// The dtype in which the call under way, the outermost session's function, takes a tensor of this
// dtype.
DType call_dtype_under_scope(DType dtype);
inline DType call_dtype(DType dtype) {
  return thread_autocast.enabled ? call_dtype_under_scope(dtype) : dtype;
}

// While it lives, the call casts nothing more: it has done so, and goes on with wider values.
class CastsDone {
public:
  CastsDone() : enabled_(thread_autocast.enabled) {
    thread_autocast.enabled = false;
  }
  ~CastsDone() {
    thread_autocast.enabled = enabled_;
  }
  CastsDone(const CastsDone &) = delete;
  CastsDone &operator=(const CastsDone &) = delete;

private:
  bool enabled_;
};

} // namespace weft::recorder
