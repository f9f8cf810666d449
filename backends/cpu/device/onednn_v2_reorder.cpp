#include "backends/cpu/device/onednn_v2_reorder.h"

#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "runtime/core/caches.h"
#include "runtime/core/status.h"

namespace weft::backends::cpu {

// It tells how many it may keep, not how many it has.
static const runtime::RegisteredCache
    registered("oneDNN primitives", "oneDNN, the least recently used beyond its bound", [] {
      int capacity = -1;
      if (dnnl_get_primitive_cache_capacity(&capacity) != dnnl_success)
        capacity = -1;
      return runtime::CacheUse{-1, -1, capacity, -1};
    });

absl::Status OnednnV2Reorder::build(const dnnl_memory_desc_t &from, const dnnl_memory_desc_t &to) {
  WEFT_ASSIGN_OR_RETURN(auto both, engine_and_stream());
  auto [engine, stream] = both;
  stream_ = stream;
  Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy> attributes;
  WEFT_ONEDNN(dnnl_primitive_attr_create, attributes.out());
  WEFT_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode, attributes.get(), dnnl_scratchpad_mode_user);
  auto alone = alone_at_making();
  Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy> desc;
  WEFT_ONEDNN(dnnl_reorder_primitive_desc_create, desc.out(), &from, engine, &to, engine,
              attributes.get());
  const dnnl_memory_desc_t *scratch =
      dnnl_primitive_desc_query_md(desc.get(), dnnl_query_scratchpad_md, 0);
  if (scratch != nullptr && dnnl_memory_desc_get_size(scratch) > 0)
    return absl::UnimplementedError("oneDNN wants scratch memory for a reorder of an operand");
  WEFT_ONEDNN(dnnl_primitive_create, primitive_.out(), desc.get());
  WEFT_ONEDNN(dnnl_memory_create, from_.out(), &from, engine, DNNL_MEMORY_NONE);
  WEFT_ONEDNN(dnnl_memory_create, to_.out(), &to, engine, DNNL_MEMORY_NONE);
  return absl::OkStatus();
}

absl::Status OnednnV2Reorder::run(const void *from, void *to) const {
  WEFT_ONEDNN(dnnl_memory_set_data_handle, from_.get(), const_cast<void *>(from));
  WEFT_ONEDNN(dnnl_memory_set_data_handle, to_.get(), to);
  const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from_.get()}, {DNNL_ARG_TO, to_.get()}};
  WEFT_ONEDNN(dnnl_primitive_execute, primitive_.get(), stream_, 2, arguments);
  return absl::OkStatus();
}

bool is_packed(const dnnl_memory_desc_t &desc) {
  return desc.format_kind == dnnl_blocked && desc.format_desc.blocking.inner_nblks > 0;
}

std::string form_of(const dnnl_memory_desc_t &plain, const dnnl_memory_desc_t &packed) {
  auto list = [](const dnnl_dim_t *values, int count) {
    return absl::StrJoin(absl::MakeConstSpan(values, static_cast<size_t>(count)), ",");
  };
  const dnnl_blocking_desc_t &blocking = packed.format_desc.blocking;
  return absl::StrCat("[", list(packed.dims, packed.ndims), "] with strides [",
                      list(plain.format_desc.blocking.strides, plain.ndims), "] to strides [",
                      list(blocking.strides, packed.ndims), "] of blocks [",
                      list(blocking.inner_blks, blocking.inner_nblks), "] of dims [",
                      list(blocking.inner_idxs, blocking.inner_nblks), "] padded to [",
                      list(packed.padded_dims, packed.ndims), "]");
}

} // namespace weft::backends::cpu
