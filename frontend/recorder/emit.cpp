// One function for each weft op: builds it, takes it into the record, attaches history.
#include "frontend/recorder/emit.h"

#include "frontend/recorder/state.h"

namespace weft::recorder {

using llvm::ArrayRef;
using llvm::SmallVector;

// What the call of the node has for derivatives; null where no operand has a history.
static GradRef history_of(Node *node, ArrayRef<const Var *> operands) {
  Signature *s = node->signature;
  if (!s->differentiable || !grad_mode() ||
      std::none_of(operands.begin(), operands.end(),
                   [](const Var *operand) { return operand && operand->grad; }))
    return GradRef();
  auto *grad = new GradNode;
  GradRef history(grad);
  grad->number = recorder().next_grad_number++;
  grad->signature = s;
  ++s->refs;
  grad->line = node->line;
  grad->edges.reserve(operands.size());
  for (const Var *operand : operands)
    grad->edges.push_back(GradEdge{operand->grad, operand->grad_index});
  grad->operands.resize(operands.size());
  grad->results.resize(s->results.size());
  for (int64_t i : s->saved_operands)
    if (i < static_cast<int64_t>(operands.size()))
      grad->operands[i] = operands[i]->value;
  for (int64_t i : s->saved_results)
    if (i < static_cast<int64_t>(s->results.size()))
      grad->results[i] = ValueRef(node->results[i]);
  return history;
}

static Var result_of(Node *node, uint32_t i, const GradRef &history) {
  Value *value = node->results[i];
  bool has_history = history && is_floating(value->type->dtype);
  return Var{ValueRef(value), has_history ? history : GradRef(), has_history ? i : 0};
}

void results_of(Node *node, ArrayRef<const Var *> operands, llvm::SmallVectorImpl<Var> &results) {
  GradRef history = history_of(node, operands);
  for (uint32_t i = 0; i < node->results.size(); ++i)
    results.push_back(result_of(node, i, history));
}

namespace {

// The signature of an op that was not met before. Fails where the op's own rule refuses the
// operands.
template <typename Op>
Signature *make_signature(ArrayRef<const Var *> operands, ArrayRef<const TypeInfo *> types,
                          const typename Op::Properties &properties, const TypeInfo *result,
                          SourceLine *line) {
  IrState &ir = *recorder().ir;
  mlir::Location location = ir.location(line);
  StandIns stand_ins(ir);
  for (const TypeInfo *type : types)
    stand_ins.add(type);
  mlir::OperationState state(location, Op::getOperationName());
  state.addOperands(stand_ins.values());
  if constexpr (!std::is_same_v<typename Op::Properties, mlir::EmptyProperties>)
    state.getOrAddProperties<typename Op::Properties>() = properties;
  if (result) {
    state.types.push_back(ir.type(result));
  } else if constexpr (Op::template hasTrait<mlir::InferTypeOpInterface::Trait>()) {
    typename Op::Properties copy = properties;
    if (mlir::failed(Op::inferReturnTypes(&ir.context(), location, state.operands,
                                          mlir::DictionaryAttr::get(&ir.context()),
                                          mlir::OpaqueProperties(&copy), {}, state.types))) {
      auto [message, kind] = ir.take_diagnostic();
      std::string given;
      for (const Var *operand : operands)
        given += (given.empty() ? "" : ", ") + describe(*operand);
      if (message.empty())
        message = "the operands do not fit";
      // The call has said its name.
      if (std::string name = Op::getOperationName().str() + ": "; message.starts_with(name))
        message.erase(0, name.size());
      fail(kind, message + " (given " + given + ")");
    }
  }
  mlir::Operation *op = mlir::Operation::create(state);
  Signature *signature = ir.intern(op, types);
  op->destroy();
  return signature;
}

// Records `Op` on the operands with these properties. result: its type, or null to ask the op's own
// rule.
template <typename Op>
Node *record(ArrayRef<const Var *> operands, const typename Op::Properties &properties,
             const TypeInfo *result) {
  IrState &ir = *recorder().ir;
  SourceLine *line = Session::line();
  SmallVector<Value *, 4> values;
  SmallVector<const TypeInfo *, 4> types;
  for (const Var *operand : operands) {
    values.push_back(operand->value.get());
    types.push_back(operand->value->type);
  }
  Signature *signature = ir.find<Op>(properties, types, result);
  if (!signature)
    signature = make_signature<Op>(operands, types, properties, result, line);
  return ir.enter(signature, values, line);
}

template <typename Op>
SmallVector<Var, 2> emit(ArrayRef<const Var *> operands, const typename Op::Properties &properties,
                         const TypeInfo *result) {
  SmallVector<Var, 2> results;
  results_of(record<Op>(operands, properties, result), operands, results);
  return results;
}

template <typename Op>
Var emit_one(ArrayRef<const Var *> operands, const TypeInfo *result,
             const typename Op::Properties &properties = {}) {
  if constexpr (!Op::template hasTrait<mlir::OpTrait::OneResult>())
    return std::move(emit<Op>(operands, properties, result)[0]);
  Node *node = record<Op>(operands, properties, result);
  return result_of(node, 0, history_of(node, operands));
}

mlir::Builder builder() {
  return mlir::Builder(&recorder().ir->context());
}
mlir::DenseI64ArrayAttr ints(std::span<const int64_t> values) {
  return builder().getDenseI64ArrayAttr(ArrayRef(values.data(), values.size()));
}
mlir::IntegerAttr integer(int64_t value) {
  return builder().getI64IntegerAttr(value);
}
mlir::FloatAttr real(double value) {
  return builder().getF64FloatAttr(value);
}
mlir::BoolAttr boolean_attr(bool value) {
  return builder().getBoolAttr(value);
}

const TypeInfo *with_dtype(const TypeInfo &type, DType dtype) {
  return type_info(dtype, type.dims);
}

} // namespace

Var emit_unary(Unary op, const Var &x) {
  switch (op) {
#define WEFT_UNARY(function, record, operands, doc)                                                \
  case Unary::k##record:                                                                           \
    return emit_one<ir::record##Op>({&x}, x.value->type);
#define WEFT_BINARY(function, record, operands, doc)
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
  case Unary::kNot:
    return emit_one<ir::NotOp>({&x}, x.value->type);
  }
  return Var();
}

Var emit_gelu(const Var &x, bool tanh_approximation) {
  ir::GeluOp::Properties p;
  p.tanh_approximation = boolean_attr(tanh_approximation);
  return emit_one<ir::GeluOp>({&x}, x.value->type, p);
}

uint32_t specialized_operands(Binary op) {
  auto bits = [](ArrayRef<int64_t> operands) {
    uint32_t mask = 0;
    for (int64_t i : operands)
      mask |= uint32_t(1) << i;
    return mask;
  };
  switch (op) {
#define WEFT_UNARY(function, record, operands, doc)
#define WEFT_BINARY(function, record, operands, doc)                                               \
  case Binary::k##record: {                                                                        \
    static const uint32_t mask = bits(ir::record##Op::specializedOperands());                      \
    return mask;                                                                                   \
  }
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
  case Binary::kDiv:
  case Binary::kRem:
  case Binary::kAtan2:
  case Binary::kAnd:
  case Binary::kOr:
  case Binary::kXor:
    return 0;
  }
  return 0;
}

Var emit_binary(Binary op, const Var &x, const Var &y) {
  switch (op) {
#define WEFT_UNARY(function, record, operands, doc)
#define WEFT_BINARY(function, record, operands, doc)                                               \
  case Binary::k##record:                                                                          \
    return emit_one<ir::record##Op>({&x, &y}, x.value->type);
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
  case Binary::kDiv:
    return emit_one<ir::DivOp>({&x, &y}, x.value->type);
  case Binary::kRem:
    return emit_one<ir::RemOp>({&x, &y}, x.value->type);
  case Binary::kAtan2:
    return emit_one<ir::Atan2Op>({&x, &y}, x.value->type);
  case Binary::kAnd:
    return emit_one<ir::AndOp>({&x, &y}, x.value->type);
  case Binary::kOr:
    return emit_one<ir::OrOp>({&x, &y}, x.value->type);
  case Binary::kXor:
    return emit_one<ir::XorOp>({&x, &y}, x.value->type);
  }
  return Var();
}

Var emit_compare(Comparison comparison, const Var &x, const Var &y) {
  ir::CompareOp::Properties p;
  p.direction =
      ir::DirectionAttr::get(&recorder().ir->context(), static_cast<ir::Direction>(comparison));
  return emit_one<ir::CompareOp>({&x, &y}, with_dtype(x.type(), DType::kBool), p);
}

Var emit_select(const Var &condition, const Var &x, const Var &y) {
  return emit_one<ir::SelectOp>({&condition, &x, &y}, x.value->type);
}

Var emit_cast(const Var &x, DType dtype) {
  return emit_one<ir::CastOp>({&x}, with_dtype(x.type(), dtype));
}

Var emit_iota(DType dtype, const Shape &shape, int64_t dim) {
  ir::IotaOp::Properties p;
  p.dim = integer(dim);
  return emit_one<ir::IotaOp>({}, type_info(dtype, shape), p);
}

Var emit_reshape(const Var &x, const Shape &shape) {
  return emit_one<ir::ReshapeOp>({&x}, type_info(x.dtype(), shape));
}

Var emit_transpose(const Var &x, std::span<const int64_t> permutation) {
  ir::TransposeOp::Properties p;
  p.permutation = ints(permutation);
  return emit_one<ir::TransposeOp>({&x}, nullptr, p);
}

Var emit_broadcast(const Var &x, const Shape &shape) {
  return emit_one<ir::BroadcastOp>({&x}, type_info(x.dtype(), shape));
}

Var emit_slice(const Var &x, std::span<const int64_t> starts, std::span<const int64_t> limits,
               std::span<const int64_t> steps) {
  ir::SliceOp::Properties p;
  p.starts = ints(starts);
  p.limits = ints(limits);
  p.steps = ints(steps);
  return emit_one<ir::SliceOp>({&x}, nullptr, p);
}

Var emit_insert_slice(const Var &base, const Var &update, std::span<const int64_t> starts,
                      std::span<const int64_t> steps) {
  ir::InsertSliceOp::Properties p;
  p.starts = ints(starts);
  p.steps = ints(steps);
  return emit_one<ir::InsertSliceOp>({&base, &update}, base.value->type, p);
}

Var emit_concat(std::span<const Var> inputs, int64_t dim) {
  SmallVector<const Var *, 8> operands;
  for (const Var &input : inputs)
    operands.push_back(&input);
  ir::ConcatOp::Properties p;
  p.dim = integer(dim);
  return emit_one<ir::ConcatOp>(operands, nullptr, p);
}

Var emit_reduce(ReduceKind kind, const Var &x, std::span<const int64_t> dims) {
  auto with = [&](auto properties) {
    properties.dims = ints(dims);
    return properties;
  };
  switch (kind) {
  case ReduceKind::kSum:
    return emit_one<ir::ReduceSumOp>({&x}, nullptr, with(ir::ReduceSumOp::Properties()));
  case ReduceKind::kMax:
    return emit_one<ir::ReduceMaxOp>({&x}, nullptr, with(ir::ReduceMaxOp::Properties()));
  case ReduceKind::kMin:
    return emit_one<ir::ReduceMinOp>({&x}, nullptr, with(ir::ReduceMinOp::Properties()));
  case ReduceKind::kProd:
    return emit_one<ir::ReduceProdOp>({&x}, nullptr, with(ir::ReduceProdOp::Properties()));
  case ReduceKind::kMean:
    return emit_one<ir::ReduceMeanOp>({&x}, nullptr, with(ir::ReduceMeanOp::Properties()));
  }
  return Var();
}

Var emit_arg(const Var &x, int64_t dim, bool largest) {
  auto with = [&](auto properties) {
    properties.dim = integer(dim);
    return properties;
  };
  if (largest)
    return emit_one<ir::ArgMaxOp>({&x}, nullptr, with(ir::ArgMaxOp::Properties()));
  return emit_one<ir::ArgMinOp>({&x}, nullptr, with(ir::ArgMinOp::Properties()));
}

Var emit_arg_sort(const Var &x, int64_t dim, bool descending, std::optional<int64_t> count) {
  ir::ArgSortOp::Properties p;
  p.dim = integer(dim);
  p.descending = boolean_attr(descending);
  if (count && *count != x.dims()[static_cast<size_t>(dim)])
    p.count = integer(*count);
  return emit_one<ir::ArgSortOp>({&x}, nullptr, p);
}

Var emit_cumsum(const Var &x, int64_t dim) {
  ir::CumsumOp::Properties p;
  p.dim = integer(dim);
  p.reverse = boolean_attr(false);
  return emit_one<ir::CumsumOp>({&x}, x.value->type, p);
}

Var emit_matmul(const Var &x, const Var &y, bool transpose_x, bool transpose_y) {
  ir::MatmulOp::Properties p;
  p.transpose_lhs = boolean_attr(transpose_x);
  p.transpose_rhs = boolean_attr(transpose_y);
  return emit_one<ir::MatmulOp>({&x, &y}, nullptr, p);
}

Var emit_index_select(const Var &x, const Var &indices, int64_t dim) {
  ir::IndexSelectOp::Properties p;
  p.dim = integer(dim);
  return emit_one<ir::IndexSelectOp>({&x, &indices}, nullptr, p);
}

Var emit_index_write(const Var &base, const Var &indices, const Var &source, int64_t dim,
                     bool accumulate) {
  auto with = [&](auto properties) {
    properties.dim = integer(dim);
    return properties;
  };
  if (accumulate)
    return emit_one<ir::IndexAddOp>({&base, &indices, &source}, base.value->type,
                                    with(ir::IndexAddOp::Properties()));
  return emit_one<ir::IndexPutOp>({&base, &indices, &source}, base.value->type,
                                  with(ir::IndexPutOp::Properties()));
}

Var emit_gather(const Var &x, const Var &indices, int64_t dim) {
  ir::GatherOp::Properties p;
  p.dim = integer(dim);
  return emit_one<ir::GatherOp>({&x, &indices}, nullptr, p);
}

Var emit_scatter_add(const Var &base, const Var &indices, const Var &source, int64_t dim) {
  ir::ScatterAddOp::Properties p;
  p.dim = integer(dim);
  return emit_one<ir::ScatterAddOp>({&base, &indices, &source}, base.value->type, p);
}

Var emit_scatter_reduce(Combiner combiner, const Var &base, const Var &indices, const Var &source,
                        int64_t dim) {
  ir::ScatterReduceOp::Properties p;
  p.combiner =
      ir::CombinerAttr::get(&recorder().ir->context(), static_cast<ir::Combiner>(combiner));
  p.dim = integer(dim);
  return emit_one<ir::ScatterReduceOp>({&base, &indices, &source}, base.value->type, p);
}

Var emit_random_uniform(const Var &state, DType dtype, const Shape &shape) {
  ir::RandomUniformOp::Properties p;
  p.offset = integer(0);
  return emit_one<ir::RandomUniformOp>({&state}, type_info(dtype, shape), p);
}

Var emit_random_normal(const Var &state, DType dtype, const Shape &shape) {
  ir::RandomNormalOp::Properties p;
  p.offset = integer(0);
  return emit_one<ir::RandomNormalOp>({&state}, type_info(dtype, shape), p);
}

Var emit_random_advance(const Var &state, int64_t blocks) {
  ir::RandomAdvanceOp::Properties p;
  p.amount = integer(blocks);
  return emit_one<ir::RandomAdvanceOp>({&state}, state.value->type, p);
}

Var emit_softmax(const Var &x, int64_t dim) {
  ir::SoftmaxOp::Properties p;
  p.dim = integer(dim);
  return emit_one<ir::SoftmaxOp>({&x}, x.value->type, p);
}

Var emit_log_softmax(const Var &x, int64_t dim) {
  ir::LogSoftmaxOp::Properties p;
  p.dim = integer(dim);
  return emit_one<ir::LogSoftmaxOp>({&x}, x.value->type, p);
}

Var emit_layer_norm(const Var &x, const Var &weight, const Var &bias, int64_t normalized_rank,
                    double eps) {
  SmallVector<const Var *, 3> operands = {&x};
  if (weight)
    operands.push_back(&weight);
  if (bias)
    operands.push_back(&bias);
  ir::LayerNormOp::Properties p;
  p.normalized_rank = integer(normalized_rank);
  p.eps = real(eps);
  p.operandSegmentSizes = {1, weight ? 1 : 0, bias ? 1 : 0};
  return emit_one<ir::LayerNormOp>(operands, nullptr, p);
}

namespace {

template <typename Op>
typename Op::Properties convolution_properties(const ConvolutionGeometry &geometry) {
  typename Op::Properties p;
  p.strides = ints(geometry.strides);
  p.padding = ints(geometry.padding);
  p.dilation = ints(geometry.dilation);
  p.groups = integer(geometry.groups);
  return p;
}

} // namespace

Var emit_conv2d(const Var &x, const Var &weight, const ConvolutionGeometry &geometry) {
  return emit_one<ir::Conv2dOp>({&x, &weight}, nullptr,
                                convolution_properties<ir::Conv2dOp>(geometry));
}

Var emit_conv2d_input_gradient(const Var &gradient, const Var &weight, const Shape &result,
                               const ConvolutionGeometry &geometry) {
  return emit_one<ir::Conv2dInputGradientOp>(
      {&gradient, &weight}, type_info(gradient.dtype(), result),
      convolution_properties<ir::Conv2dInputGradientOp>(geometry));
}

std::pair<Var, Var> emit_max_pool2d(const Var &x, IntPair kernel, IntPair strides, IntPair padding,
                                    IntPair dilation, bool ceil_mode) {
  ir::MaxPool2dOp::Properties p;
  p.kernel = ints(kernel);
  p.strides = ints(strides);
  p.padding = ints(padding);
  p.dilation = ints(dilation);
  p.ceil_mode = boolean_attr(ceil_mode);
  SmallVector<Var, 2> results = emit<ir::MaxPool2dOp>({&x}, p, nullptr);
  return {std::move(results[0]), std::move(results[1])};
}

Var emit_avg_pool2d(const Var &x, IntPair kernel, IntPair strides, IntPair padding, bool ceil_mode,
                    bool count_include_pad) {
  ir::AvgPool2dOp::Properties p;
  p.kernel = ints(kernel);
  p.strides = ints(strides);
  p.padding = ints(padding);
  p.ceil_mode = boolean_attr(ceil_mode);
  p.count_include_pad = boolean_attr(count_include_pad);
  return emit_one<ir::AvgPool2dOp>({&x}, nullptr, p);
}

BatchNormResults emit_batch_norm(const Var &x, const Var &weight, const Var &bias, double eps) {
  SmallVector<const Var *, 3> operands = {&x};
  if (weight)
    operands.push_back(&weight);
  if (bias)
    operands.push_back(&bias);
  ir::BatchNormOp::Properties p;
  p.eps = real(eps);
  p.operandSegmentSizes = {1, weight ? 1 : 0, bias ? 1 : 0};
  SmallVector<Var, 2> results = emit<ir::BatchNormOp>(operands, p, nullptr);
  return {std::move(results[0]), std::move(results[1]), std::move(results[2])};
}

Var emit_attention(const Var &query, const Var &key, const Var &value, const Var &mask, bool causal,
                   double scale) {
  SmallVector<const Var *, 4> operands = {&query, &key, &value};
  if (mask)
    operands.push_back(&mask);
  ir::AttentionOp::Properties p;
  p.causal = boolean_attr(causal);
  p.scale = real(scale);
  return emit_one<ir::AttentionOp>(operands, nullptr, p);
}

Var emit_check_index(const Var &indices, int64_t size, std::optional<int64_t> ignore_index,
                     const char *user) {
  ir::CheckIndexOp::Properties p;
  p.size = integer(size);
  if (ignore_index)
    p.ignore_index = integer(*ignore_index);
  p.user = builder().getStringAttr(user);
  return emit_one<ir::CheckIndexOp>({&indices}, indices.value->type, p);
}

Var emit_cross_entropy(const Var &logits, const Var &targets, int64_t ignore_index) {
  ir::CrossEntropyOp::Properties p;
  p.ignore_index = integer(ignore_index);
  return emit_one<ir::CrossEntropyOp>({&logits, &targets}, nullptr, p);
}

Var emit_dropout(const Var &x, const Var &state, double rate) {
  ir::DropoutOp::Properties p;
  p.rate = real(rate);
  p.offset = integer(0);
  return emit_one<ir::DropoutOp>({&x, &state}, nullptr, p);
}

Var emit_constant(Scalar scalar, DType dtype) {
  IrState &ir = *recorder().ir;
  ir::HostTensor host(dtype, {});
  if (scalar.dtype == DType::kFloat64)
    host.set(0, scalar.d);
  else
    host.setInt(0, scalar.i);
  ir::ConstantOp::Properties p;
  p.value = host.toAttribute(&ir.context());
  return emit_one<ir::ConstantOp>({}, type_info(dtype, {}), p);
}

} // namespace weft::recorder
