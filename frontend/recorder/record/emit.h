// Record weft ops: those of emit_ops.h one each, as their op records say (tools/opgen); what needs
// more than a record stands here. Operands are already of fitting dtypes and shapes where the
// dialect asks for it (elementwise ops: equal types); what the op's own shape rule refuses is
// raised as weft::Error at the session's line.
#pragma once

#include "frontend/recorder/record/emit_ops.h"

namespace weft::recorder {

using Comparison = attributes::Direction;
using attributes::Combiner;
using EmitBinary = Var (*)(const Var &, const Var &);

// As a value of this dtype or shape.
inline Var emit_cast(const Var &x, DType dtype) {
  return emit_cast_as(x, type_info(dtype, x.dims(), x.device()));
}
inline Var emit_reshape(const Var &x, const Shape &shape) {
  return emit_reshape_as(x, type_info(x.dtype(), shape, x.device()));
}
inline Var emit_broadcast(const Var &x, const Shape &shape) {
  return emit_broadcast_as(x, type_info(x.dtype(), shape, x.device()));
}
inline Var emit_iota(DType dtype, const Shape &shape, int64_t dim) {
  return emit_iota_as(type_info(dtype, shape), dim);
}
inline Var emit_random(bool normal, const Var &state, DType dtype, const Shape &shape) {
  const TypeInfo *type = type_info(dtype, shape, state.device());
  return normal ? emit_random_normal_as(state, type) : emit_random_uniform_as(state, type);
}

// A comparison by which a function that is linear in pieces chooses one: with a flat history
// (below), so that its derivative depends on x, as that of relu does.
Var emit_mask(Comparison comparison, const Var &x, const Var &y);
// x there: a number is made anew, everything else is moved.
Var on_device(Var x, uint8_t device);
// Fails with what and where both are, which lie on two devices.
[[noreturn]] void refuse_devices(const std::string &first, const Var &x, const std::string &second,
                                 const Var &y);
// x's value with a history that begins here and leads to x's, as that of a copy does: nothing is
// computed. Without history where none is kept.
Var with_own_history(const Var &x);
// x's value with a history that begins here and leads to those of `of`, by derivatives of 0:
// nothing is computed. x itself where none of them has a history, or none is kept.
Var with_flat_history(const Var &x, std::span<const Var *const> of);
// x's value without history. A function that is traced says so in its program.
Var without_gradient(const Var &x);
// x as what a call makes, which may be an operand's value: of a function that is traced it has no
// gradient where no history is kept.
Var made_in_trace(Var x);
inline Var made_now(Var x) {
  return thread_trace ? made_in_trace(std::move(x)) : std::move(x);
}
// Whether what is made of x may be differentiated by it: now, or as a part of a traced program.
bool may_have_gradient(const Var &x);
// A scalar that is part of the program.
Var emit_constant(Scalar scalar, DType dtype);

} // namespace weft::recorder
