// What the files that call oneDNN 2's C API share.
#pragma once

#include <dnnl.h>

#include <mutex>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "runtime/core/dtype.h"

namespace weft::backends::cpu {

inline absl::Status to_status(dnnl_status_t status, const char *call) {
  if (status == dnnl_success)
    return absl::OkStatus();
  std::string message =
      absl::StrCat("oneDNN's ", call, " failed with status ", static_cast<int>(status));
  if (status == dnnl_unimplemented)
    return absl::UnimplementedError(message);
  if (status == dnnl_out_of_memory)
    return absl::ResourceExhaustedError(message);
  if (status == dnnl_invalid_arguments)
    return absl::InvalidArgumentError(message);
  return absl::InternalError(message);
}

#define WEFT_ONEDNN(call, ...)                                                                     \
  do {                                                                                             \
    if (absl::Status status = to_status(call(__VA_ARGS__), #call); !status.ok())                   \
      return status;                                                                               \
  } while (false)

// Whether the library's kernels for this machine use all these instructions.
inline bool has_isa(dnnl_cpu_isa_t instructions) {
  return (dnnl_get_effective_cpu_isa() & instructions) == instructions;
}
inline bool has_avx512() {
  return has_isa(dnnl_cpu_isa_avx512_core);
}
inline bool has_avx2() {
  return has_isa(dnnl_cpu_isa_avx2);
}

// Whether they multiply bf16 numbers by instructions for it that are faster than f32 ones: those of
// AMD's processors, and tiles (AMX). Intel's without tiles, as many virtual machines are, issue one
// such product of vectors where they issue two of f32. (1024 x 1024 x 1024 on one thread of Emerald
// Rapids: 27 ms, f32 with its conversions 16 ms.)
inline bool has_fast_bf16() {
  return has_isa(dnnl_cpu_isa_avx512_core_amx) ||
         (has_isa(dnnl_cpu_isa_avx512_core_bf16) && __builtin_cpu_is("amd"));
}

// Whether they multiply bf16 numbers at all.
inline bool takes_bf16() {
  return has_avx512();
}

inline dnnl_data_type_t data_type(DType dtype) {
  return dtype == DType::kBFloat16 ? dnnl_bf16 : dnnl_f32;
}

template <typename T, dnnl_status_t (*destroy)(T)> class Owned {
public:
  Owned() = default;
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  ~Owned() {
    if (value_ != nullptr)
      destroy(value_);
  }
  T *out() {
    return &value_;
  }
  T get() const {
    return value_;
  }

private:
  T value_ = nullptr;
};

// One engine and one stream for the process: the CPU has no more. Never destroyed, like the
// executor that uses them.
inline absl::StatusOr<std::pair<dnnl_engine_t, dnnl_stream_t>> engine_and_stream() {
  struct Both {
    dnnl_engine_t engine = nullptr;
    dnnl_stream_t stream = nullptr;
    absl::Status status;
  };
  static const Both *const both = [] {
    auto *made = new Both();
    made->status = to_status(dnnl_engine_create(&made->engine, dnnl_cpu, 0), "dnnl_engine_create");
    if (made->status.ok())
      made->status =
          to_status(dnnl_stream_create(&made->stream, made->engine, dnnl_stream_default_flags),
                    "dnnl_stream_create");
    return made;
  }();
  if (!both->status.ok())
    return both->status;
  return std::make_pair(both->engine, both->stream);
}

// Held while a primitive and its description are made. Until its version 2.7 oneDNN searches for a
// convolution's blocks with a static variable (brg_blocking_t::last_ic_block_size): of two threads
// that make some at the same time one is given, now and then, a primitive whose results are garbage.
[[nodiscard]] inline std::unique_lock<std::mutex> alone_at_making() {
  static auto *mutex = new std::mutex; // never destroyed: programs may be made while main() ends
  return std::unique_lock(*mutex);
}

} // namespace weft::backends::cpu
