// The processor's flag of invalid operations.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace weft::backends::cpu {

// While it lives, whether this thread made a NaN of numbers, or took a maximum, a minimum or an
// ordered comparison of a NaN: these raise the flag (Intel's manual, "MAXPS"; sums and products of a
// NaN do not). What was raised before is raised again afterwards.
class InvalidFlag {
public:
#if defined(__x86_64__)
  InvalidFlag() : before_(_mm_getcsr()) {
    _mm_setcsr(before_ & ~unsigned{_MM_EXCEPT_INVALID});
  }
  ~InvalidFlag() {
    if (before_ & _MM_EXCEPT_INVALID)
      _mm_setcsr(_mm_getcsr() | _MM_EXCEPT_INVALID);
  }
  bool is_raised() const {
    return _mm_getcsr() & _MM_EXCEPT_INVALID;
  }
  // False in emulators that have no flags.
  static bool works() {
    volatile float nan = __builtin_nanf("");
    InvalidFlag flag;
    volatile float most = _mm_cvtss_f32(_mm_max_ss(_mm_set_ss(nan), _mm_setzero_ps()));
    return most == 0 && flag.is_raised();
  }

private:
  unsigned before_;
#else
  InvalidFlag() = default;
  bool is_raised() const {
    return true;
  }
  static bool works() {
    return false;
  }
#endif
  InvalidFlag(const InvalidFlag &) = delete;
  InvalidFlag &operator=(const InvalidFlag &) = delete;
};

} // namespace weft::backends::cpu
