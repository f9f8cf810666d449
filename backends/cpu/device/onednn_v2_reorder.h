// Copies of an operand from one layout into another, by oneDNN 2's C API.
#pragma once

#include <string>

#include "backends/cpu/device/onednn_v2.h"

namespace weft::backends::cpu {

class OnednnV2Reorder {
public:
  // Unimplemented where the library would want scratch memory for it: that would escape the plan.
  absl::Status build(const dnnl_memory_desc_t &from, const dnnl_memory_desc_t &to);
  bool is_built() const {
    return primitive_.get() != nullptr;
  }
  // With the team that the caller has set.
  absl::Status run(const void *from, void *to) const;

private:
  dnnl_stream_t stream_ = nullptr;
  Owned<dnnl_primitive_t, dnnl_primitive_destroy> primitive_;
  Owned<dnnl_memory_t, dnnl_memory_destroy> from_, to_;
};

// Whether the layout is one of the library's own: not dims at strides alone.
bool is_packed(const dnnl_memory_desc_t &desc);
// Names what a copy from `plain` into `packed` makes of its operand: equal texts for equal bytes of
// equal contents.
std::string form_of(const dnnl_memory_desc_t &plain, const dnnl_memory_desc_t &packed);

} // namespace weft::backends::cpu
