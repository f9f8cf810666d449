// One function for each weft op: builds it, takes it into the record, attaches history.
#include "frontend/recorder/emit.h"

#include "frontend/recorder/replaced_ops.h"
#include "frontend/recorder/state.h"

namespace weft::recorder {

using llvm::ArrayRef;
using llvm::SmallVector;

static void save(ValueRef &place, Value *value) {
  place = ValueRef(value);
  value->is_saved = true;
}

// Out of line, as emit_new() is: most calls keep no history, or know their signature, and need
// small frames.
[[gnu::noinline]] GradRef make_history(Signature *s, SourceLine *line,
                                       ArrayRef<const Var *> operands, ArrayRef<Value *> results) {
  auto *grad = new GradNode;
  GradRef history(grad);
  grad->number = recorder().next_grad_number++;
  grad->signature = s;
  ++s->refs;
  grad->line = line;
  grad->edges.reserve(operands.size());
  for (const Var *operand : operands)
    grad->edges.push_back(GradEdge{operand->grad, operand->grad_index});
  grad->operands.resize(operands.size());
  grad->results.resize(s->results.size());
  for (int64_t i : s->saved_operands)
    if (i < static_cast<int64_t>(operands.size()))
      save(grad->operands[i], operands[i]->value.get());
  for (int64_t i : s->saved_results)
    if (i < static_cast<int64_t>(s->results.size()))
      save(grad->results[i], results[i]);
  return history;
}

// What the call of the node has for derivatives; null where no operand has a history.
static GradRef history_of(Node *node, ArrayRef<const Var *> operands) {
  bool any = false;
  for (const Var *operand : operands)
    any = any || operand->grad;
  return any && grad_mode() && node->signature->differentiable
             ? make_history(node->signature, node->line, operands,
                            {node->results.begin(), node->results.size()})
             : GradRef();
}

static Var result_of(Node *node, uint32_t i, GradRef history) {
  Var result{ValueRef(node->results[i]), GradRef(), 0};
  if (history && is_floating(result.dtype())) {
    result.grad = std::move(history);
    result.grad_index = i;
  }
  return result;
}

void record_op(Signature *signature, ArrayRef<const Var *> operands, SourceLine *line,
               llvm::SmallVectorImpl<Var> &results) {
  if (signature->is_indirect()) [[unlikely]]
    return record_indirectly(signature, operands, line, results);
  record_itself(signature, operands, line, results);
}

void record_itself(Signature *signature, ArrayRef<const Var *> operands, SourceLine *line,
                   llvm::SmallVectorImpl<Var> &results) {
  Node *node = recorder().ir->enter(signature, operands, line);
  GradRef history = history_of(node, operands);
  for (uint32_t i = 0; i < node->results.size(); ++i)
    results.push_back(result_of(node, i, history));
}

static SmallVector<Var, 2> record_all(Signature *signature, ArrayRef<const Var *> operands) {
  SmallVector<Var, 2> results;
  record_op(signature, operands, Session::line(), results);
  return results;
}

// Of an op with one result.
static Var record_one(Signature *signature, ArrayRef<const Var *> operands) {
  if (signature->is_indirect()) [[unlikely]]
    return std::move(record_all(signature, operands)[0]);
  Node *node = recorder().ir->enter(signature, operands, Session::line());
  return result_of(node, 0, history_of(node, operands));
}

namespace {

// Where no such op was recorded yet, or an operand has to be moved to the others' device.
template <typename Op, auto kRecord>
[[gnu::noinline]] auto emit_new(ArrayRef<const Var *> operands,
                                const typename Op::Properties &properties, const TypeInfo *result) {
  IrState &ir = *recorder().ir;
  Aligned aligned;
  bool moved = align_devices(Op::getOperationName(), operands, aligned);
  if (moved || (result && result->part)) {
    if (result) // whole: its parts follow from the operands'
      result =
          type_info(result->dtype, result->dims, moved ? operands[0]->device() : result->device);
    if (Signature *known = ir.find<Op>(properties, operands, result))
      return kRecord(known, operands);
  }
  typename Op::Properties copy = properties;
  mlir::OperationName name(Op::getOperationName(), &ir.context());
  return kRecord(make_signature(name, mlir::OpaqueProperties(&copy), operands, result,
                                /*by_name=*/false),
                 operands);
}

// Records `Op` on the operands with these properties, by kRecord. result: its type, or null to ask
// the op's own rule.
template <typename Op, auto kRecord>
auto emit_by(ArrayRef<const Var *> operands, const typename Op::Properties &properties,
             const TypeInfo *result) {
  if (Signature *known = recorder().ir->find<Op>(properties, operands, result)) [[likely]]
    return kRecord(known, operands);
  return emit_new<Op, kRecord>(operands, properties, result);
}

template <typename Op>
SmallVector<Var, 2> emit(ArrayRef<const Var *> operands, const typename Op::Properties &properties,
                         const TypeInfo *result) {
  return emit_by<Op, record_all>(operands, properties, result);
}

template <typename Op>
Var emit_one(ArrayRef<const Var *> operands, const TypeInfo *result,
             const typename Op::Properties &properties = {}) {
  if constexpr (Op::template hasTrait<mlir::OpTrait::OneResult>())
    return emit_by<Op, record_one>(operands, properties, result);
  else
    return std::move(emit<Op>(operands, properties, result)[0]);
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

template <typename Op> typename Op::Properties along(int64_t dim) {
  typename Op::Properties p;
  p.dim = integer(dim);
  return p;
}
// An op that has a dim, and nothing else.
template <typename Op>
Var emit_along(ArrayRef<const Var *> operands, const TypeInfo *result, int64_t dim) {
  return emit_one<Op>(operands, result, along<Op>(dim));
}

template <typename Op> Var emit_reduction(const Var &x, std::span<const int64_t> dims) {
  typename Op::Properties p;
  p.dims = ints(dims);
  return emit_one<Op>({&x}, nullptr, p);
}

const TypeInfo *with_dtype(const TypeInfo &type, DType dtype) {
  return type_info(dtype, type.dims, type.device);
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
  return emit_one<ir::GeluOp>({&x}, x.value->type,
                              {.tanh_approximation = boolean_attr(tanh_approximation)});
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
  default:
    return 0;
  }
}

Var emit_binary(Binary op, const Var &x, const Var &y) {
  switch (op) {
#define WEFT_RECORD(record)                                                                        \
  case Binary::k##record:                                                                          \
    return emit_one<ir::record##Op>({&x, &y}, x.value->type);
#define WEFT_UNARY(function, record, operands, doc)
#define WEFT_BINARY(function, record, operands, doc) WEFT_RECORD(record)
#include "weft/ops/elementwise.inc"
#undef WEFT_UNARY
#undef WEFT_BINARY
    WEFT_RECORD(Div)
    WEFT_RECORD(Rem)
    WEFT_RECORD(Atan2)
    WEFT_RECORD(And)
    WEFT_RECORD(Or)
    WEFT_RECORD(Xor)
    WEFT_RECORD(ShiftLeft)
    WEFT_RECORD(ShiftRight)
#undef WEFT_RECORD
  }
  return Var();
}

Var emit_compare(Comparison comparison, const Var &x, const Var &y) {
  return emit_one<ir::CompareOp>(
      {&x, &y}, with_dtype(x.type(), DType::kBool),
      {.direction = ir::DirectionAttr::get(&recorder().ir->context(),
                                           static_cast<ir::Direction>(comparison))});
}

Var emit_mask(Comparison comparison, const Var &x, const Var &y) {
  const Var *operands[] = {&x, &y};
  return with_flat_history(emit_compare(comparison, x, y), operands);
}

Var emit_select(const Var &condition, const Var &x, const Var &y) {
  return emit_one<ir::SelectOp>({&condition, &x, &y}, x.value->type);
}

Var emit_cast(const Var &x, DType dtype) {
  return emit_one<ir::CastOp>({&x}, with_dtype(x.type(), dtype));
}

Var emit_transfer(const Var &x, uint8_t device) {
  return emit_one<ir::TransferOp>({&x}, type_info(x.dtype(), x.dims(), device),
                                  {.from = builder().getStringAttr(device_text(x.device())),
                                   .to = builder().getStringAttr(device_text(device))});
}

Var on_device(Var x, uint8_t device) {
  if (x.device() == device)
    return x;
  if (!x.value->is_scalar || x.grad)
    return emit_transfer(x, device);
  auto *there = new Value(type_info(x.dtype(), x.dims(), device));
  there->is_scalar = true;
  there->bits = x.value->bits;
  there->was_constant = x.value->was_constant;
  return Var{ValueRef(there), GradRef(), 0};
}

namespace {
template <typename Op> typename Op::Properties among(const RankGroup &group) {
  typename Op::Properties p;
  p.group = builder().getStringAttr(group.group);
  if constexpr (requires { p.operand; })
    if (!group.operand.empty())
      p.operand = builder().getStringAttr(group.operand);
  p.ranks = integer(group.ranks);
  return p;
}
// The record's enumeration, which TableGen makes, has the order of the list that all else shares.
constexpr bool is_same(runtime::Reduction reduction, ir::Reduction record) {
  return static_cast<uint32_t>(reduction) == static_cast<uint32_t>(record);
}
static_assert(is_same(runtime::Reduction::kSum, ir::Reduction::sum) &&
              is_same(runtime::Reduction::kMean, ir::Reduction::mean) &&
              is_same(runtime::Reduction::kMin, ir::Reduction::min) &&
              is_same(runtime::Reduction::kMax, ir::Reduction::max) &&
              is_same(runtime::Reduction::kProduct, ir::Reduction::prod) &&
              ir::getMaxEnumValForReduction() ==
                  static_cast<uint32_t>(runtime::Reduction::kProduct));
ir::ReductionAttr reduction_attr(runtime::Reduction reduction) {
  return ir::ReductionAttr::get(&recorder().ir->context(), static_cast<ir::Reduction>(reduction));
}
} // namespace

Var emit_all_reduce(const Var &x, runtime::Reduction reduction, const RankGroup &group) {
  auto p = among<ir::AllReduceOp>(group);
  p.reduction = reduction_attr(reduction);
  return emit_one<ir::AllReduceOp>({&x}, x.value->type, p);
}
Var emit_all_gather(const Var &x, const RankGroup &group) {
  return emit_one<ir::AllGatherOp>({&x}, nullptr, among<ir::AllGatherOp>(group));
}
Var emit_reduce_scatter(const Var &x, runtime::Reduction reduction, const RankGroup &group) {
  auto p = among<ir::ReduceScatterOp>(group);
  p.reduction = reduction_attr(reduction);
  return emit_one<ir::ReduceScatterOp>({&x}, nullptr, p);
}
Var emit_all_to_all(const Var &x, const RankGroup &group) {
  return emit_one<ir::AllToAllOp>({&x}, x.value->type, among<ir::AllToAllOp>(group));
}
Var emit_send_receive(const Var &x, int64_t to, int64_t from, const RankGroup &group) {
  auto p = among<ir::SendReceiveOp>(group);
  p.to = integer(to);
  p.from = integer(from);
  return emit_one<ir::SendReceiveOp>({&x}, x.value->type, p);
}
Var emit_broadcast_from(const Var &x, int64_t root, const RankGroup &group) {
  auto p = among<ir::BroadcastFromOp>(group);
  p.root = integer(root);
  p.rank = integer(group.rank);
  return emit_one<ir::BroadcastFromOp>({&x}, x.value->type, p);
}

Var emit_iota(DType dtype, const Shape &shape, int64_t dim) {
  return emit_along<ir::IotaOp>({}, type_info(dtype, shape), dim);
}

Var emit_reshape(const Var &x, const Shape &shape) {
  return emit_one<ir::ReshapeOp>({&x}, type_info(x.dtype(), shape, x.device()));
}

static Var record_history(Signature *signature, ArrayRef<const Var *> operands) {
  Var result = *operands[0];
  result.grad = make_history(signature, Session::line(), operands, {result.value.get()});
  result.grad_index = 0;
  return result;
}

Var with_own_history(const Var &x) {
  if (!x.grad || !grad_mode())
    return x.without_history();
  return emit_by<ir::ReshapeOp, record_history>({&x}, {}, x.value->type);
}

Var with_flat_history(const Var &x, std::span<const Var *const> of) {
  auto has_history = [](const Var *operand) {
    return static_cast<bool>(operand->grad);
  };
  if (!grad_mode() || std::none_of(of.begin(), of.end(), has_history))
    return x;
  Var result = emit_by<ir::ReshapeOp, record_history>({&x}, {}, x.value->type);
  result.grad->is_flat = true;
  result.grad->edges.clear();
  for (const Var *operand : of)
    if (operand->grad)
      result.grad->edges.push_back(GradEdge{operand->grad, operand->grad_index});
  return result;
}

Var emit_transpose(const Var &x, std::span<const int64_t> permutation) {
  return emit_one<ir::TransposeOp>({&x}, nullptr, {.permutation = ints(permutation)});
}

Var emit_broadcast(const Var &x, const Shape &shape) {
  return emit_one<ir::BroadcastOp>({&x}, type_info(x.dtype(), shape, x.device()));
}

Var emit_slice(const Var &x, std::span<const int64_t> starts, std::span<const int64_t> limits,
               std::span<const int64_t> steps) {
  return emit_one<ir::SliceOp>(
      {&x}, nullptr, {.limits = ints(limits), .starts = ints(starts), .steps = ints(steps)});
}

Var emit_insert_slice(const Var &base, const Var &update, std::span<const int64_t> starts,
                      std::span<const int64_t> steps) {
  return emit_one<ir::InsertSliceOp>({&base, &update}, base.value->type,
                                     {.starts = ints(starts), .steps = ints(steps)});
}

Var emit_concat(std::span<const Var> inputs, int64_t dim) {
  SmallVector<const Var *, 8> operands;
  for (const Var &input : inputs)
    operands.push_back(&input);
  return emit_along<ir::ConcatOp>(operands, nullptr, dim);
}

Var emit_reduce(ReduceKind kind, const Var &x, std::span<const int64_t> dims) {
  switch (kind) {
  case ReduceKind::kSum:
    return emit_reduction<ir::ReduceSumOp>(x, dims);
  case ReduceKind::kMax:
    return emit_reduction<ir::ReduceMaxOp>(x, dims);
  case ReduceKind::kMin:
    return emit_reduction<ir::ReduceMinOp>(x, dims);
  case ReduceKind::kProd:
    return emit_reduction<ir::ReduceProdOp>(x, dims);
  case ReduceKind::kMean:
    return emit_reduction<ir::ReduceMeanOp>(x, dims);
  }
  return Var();
}

Var emit_arg(const Var &x, int64_t dim, bool largest) {
  return largest ? emit_along<ir::ArgMaxOp>({&x}, nullptr, dim)
                 : emit_along<ir::ArgMinOp>({&x}, nullptr, dim);
}

Var emit_arg_sort(const Var &x, int64_t dim, bool descending, std::optional<int64_t> count) {
  auto p = along<ir::ArgSortOp>(dim);
  p.descending = boolean_attr(descending);
  if (count && *count != x.dims()[static_cast<size_t>(dim)])
    p.count = integer(*count);
  return emit_one<ir::ArgSortOp>({&x}, nullptr, p);
}

Var emit_cumsum(const Var &x, int64_t dim) {
  return emit_one<ir::CumsumOp>({&x}, x.value->type,
                                {.dim = integer(dim), .reverse = boolean_attr(false)});
}

Var emit_cumprod(const Var &x, int64_t dim) {
  return emit_along<ir::CumprodOp>({&x}, x.value->type, dim);
}

Var emit_recurrence(const Var &factor, const Var &x, int64_t dim) {
  return emit_one<ir::RecurrenceOp>({&factor, &x}, x.value->type,
                                    {.dim = integer(dim), .reverse = boolean_attr(false)});
}

Var emit_cum_arg(const Var &x, int64_t dim, bool largest) {
  return largest ? emit_along<ir::CumArgMaxOp>({&x}, nullptr, dim)
                 : emit_along<ir::CumArgMinOp>({&x}, nullptr, dim);
}

Var emit_matmul(const Var &x, const Var &y, bool transpose_x, bool transpose_y) {
  return emit_one<ir::MatmulOp>(
      {&x, &y}, nullptr,
      {.transpose_lhs = boolean_attr(transpose_x), .transpose_rhs = boolean_attr(transpose_y)});
}

// Of an op that looks at indices: errors of its runs name the call that records it.
template <typename Op> static typename Op::Properties indexing(int64_t dim, const char *user = "") {
  auto p = along<Op>(dim);
  p.user = builder().getStringAttr(*user ? user : std::string("weft.") + Session::op());
  return p;
}

Var emit_index_select(const Var &x, const Var &indices, int64_t dim, const char *user) {
  return emit_one<ir::IndexSelectOp>({&x, &indices}, nullptr,
                                     indexing<ir::IndexSelectOp>(dim, user));
}

Var emit_index_write(const Var &base, const Var &indices, const Var &source, int64_t dim,
                     bool accumulate, const char *user) {
  if (accumulate)
    return emit_one<ir::IndexAddOp>({&base, &indices, &source}, base.value->type,
                                    indexing<ir::IndexAddOp>(dim, user));
  return emit_one<ir::IndexPutOp>({&base, &indices, &source}, base.value->type,
                                  indexing<ir::IndexPutOp>(dim, user));
}

Var emit_gather(const Var &x, const Var &indices, int64_t dim) {
  return emit_one<ir::GatherOp>({&x, &indices}, nullptr, indexing<ir::GatherOp>(dim));
}

Var emit_scatter_add(const Var &base, const Var &indices, const Var &source, int64_t dim) {
  return emit_one<ir::ScatterAddOp>({&base, &indices, &source}, base.value->type,
                                    indexing<ir::ScatterAddOp>(dim));
}

Var emit_scatter_reduce(Combiner combiner, const Var &base, const Var &indices, const Var &source,
                        int64_t dim) {
  auto p = indexing<ir::ScatterReduceOp>(dim);
  p.combiner =
      ir::CombinerAttr::get(&recorder().ir->context(), static_cast<ir::Combiner>(combiner));
  return emit_one<ir::ScatterReduceOp>({&base, &indices, &source}, base.value->type, p);
}

Var emit_random_uniform(const Var &state, DType dtype, const Shape &shape) {
  return emit_one<ir::RandomUniformOp>({&state}, type_info(dtype, shape, state.device()),
                                       {.offset = integer(0)});
}

Var emit_random_normal(const Var &state, DType dtype, const Shape &shape) {
  return emit_one<ir::RandomNormalOp>({&state}, type_info(dtype, shape, state.device()),
                                      {.offset = integer(0)});
}

Var emit_random_advance(const Var &state, int64_t blocks) {
  return emit_one<ir::RandomAdvanceOp>({&state}, state.value->type, {.amount = integer(blocks)});
}

Var emit_softmax(const Var &x, int64_t dim) {
  return emit_along<ir::SoftmaxOp>({&x}, x.value->type, dim);
}

Var emit_log_softmax(const Var &x, int64_t dim) {
  return emit_along<ir::LogSoftmaxOp>({&x}, x.value->type, dim);
}

// The operands of a norm, whose weight and bias may be missing.
static SmallVector<const Var *, 3> with_affine(const Var &x, const Var &weight, const Var &bias) {
  SmallVector<const Var *, 3> operands = {&x};
  if (weight)
    operands.push_back(&weight);
  if (bias)
    operands.push_back(&bias);
  return operands;
}

Var emit_layer_norm(const Var &x, const Var &weight, const Var &bias, int64_t normalized_rank,
                    double eps) {
  return emit_one<ir::LayerNormOp>(with_affine(x, weight, bias), nullptr,
                                   {.eps = real(eps),
                                    .normalized_rank = integer(normalized_rank),
                                    .operandSegmentSizes = {1, weight ? 1 : 0, bias ? 1 : 0}});
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
      {&gradient, &weight}, type_info(gradient.dtype(), result, gradient.device()),
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
  return emit_one<ir::AvgPool2dOp>({&x}, nullptr,
                                   {.ceil_mode = boolean_attr(ceil_mode),
                                    .count_include_pad = boolean_attr(count_include_pad),
                                    .kernel = ints(kernel),
                                    .padding = ints(padding),
                                    .strides = ints(strides)});
}

BatchNormResults emit_batch_norm(const Var &x, const Var &weight, const Var &bias, double eps) {
  ir::BatchNormOp::Properties p;
  p.eps = real(eps);
  p.operandSegmentSizes = {1, weight ? 1 : 0, bias ? 1 : 0};
  SmallVector<Var, 2> results = emit<ir::BatchNormOp>(with_affine(x, weight, bias), p, nullptr);
  return {std::move(results[0]), std::move(results[1]), std::move(results[2])};
}

Var emit_batch_norm_inference(const Var &x, const Var &mean, const Var &variance, const Var &weight,
                              const Var &bias, double eps) {
  ir::BatchNormInferenceOp::Properties p;
  p.eps = real(eps);
  p.operandSegmentSizes = {1, 1, 1, weight ? 1 : 0, bias ? 1 : 0};
  SmallVector<const Var *, 5> operands = {&x, &mean, &variance};
  if (weight)
    operands.push_back(&weight);
  if (bias)
    operands.push_back(&bias);
  return emit_one<ir::BatchNormInferenceOp>(operands, nullptr, p);
}

Var emit_attention(const Var &query, const Var &key, const Var &value, const Var &mask, bool causal,
                   double scale) {
  SmallVector<const Var *, 4> operands = {&query, &key, &value};
  if (mask)
    operands.push_back(&mask);
  return emit_one<ir::AttentionOp>(operands, nullptr,
                                   {.causal = boolean_attr(causal), .scale = real(scale)});
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
  return emit_one<ir::CrossEntropyOp>({&logits, &targets}, nullptr,
                                      {.ignore_index = integer(ignore_index)});
}

Var emit_dropout(const Var &x, const Var &state, double rate) {
  return emit_one<ir::DropoutOp>({&x, &state}, nullptr, {.offset = integer(0), .rate = real(rate)});
}

Var emit_constant(Scalar scalar, DType dtype) {
  IrState &ir = *recorder().ir;
  ir::HostTensor host(dtype, {});
  uint64_t bits = scalar_bits(scalar, dtype);
  std::memcpy(host.bytes.data(), &bits, host.bytes.size());
  return emit_one<ir::ConstantOp>({}, type_info(dtype, {}),
                                  {.value = host.toAttribute(&ir.context())});
}

} // namespace weft::recorder
