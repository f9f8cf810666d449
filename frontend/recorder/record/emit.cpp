// Builds ops, takes them into the record, attaches history. The functions that record one op each
// come from the op records (tools/opgen); those that need more stand below them.
#include "frontend/recorder/record/emit.h"

#include "frontend/recorder/record/attributes.h"

namespace weft::recorder {

using llvm::ArrayRef;
using llvm::SmallVector;

static void save(ValueRef &place, Value *value) {
  place = value;
  value->is_saved = true;
}

// Out of line, as emit_new() is: most calls keep no history, or know their signature, and need
// small frames.
[[gnu::noinline]] static GradRef make_history(Signature *s, SourceLine *line,
                                              ArrayRef<const Var *> operands,
                                              ArrayRef<Value *> results) {
  auto *grad = new GradNode;
  GradRef history(grad);
  grad->number = recorder().next_grad_number++;
  grad->signature = s;
  grad->line = line;
  grad->edges.reserve(operands.size());
  for (const Var *operand : operands)
    grad->edges.push_back(GradEdge{operand->grad, operand->grad_index});
  grad->saved.resize(operands.size() + s->results.size());
  for (int64_t i : s->saved_operands)
    if (i < std::ssize(operands))
      save(grad->saved[i], operands[i]->value);
  for (int64_t i : s->saved_results)
    if (i < std::ssize(s->results))
      save(grad->saved[operands.size() + i], results[i]);
  return history;
}

GradRef history_of(Signature *signature, SourceLine *line, ArrayRef<const Var *> operands,
                   ArrayRef<Value *> results) {
  bool any = false;
  for (const Var *operand : operands)
    any = any || operand->grad;
  return any && grad_mode() && signature->differentiable
             ? make_history(signature, line, operands, results)
             : GradRef();
}
static GradRef history_of(Node *node, ArrayRef<const Var *> operands) {
  return history_of(node->signature, node->line, operands,
                    {node->results.begin(), node->results.size()});
}

void give_history(Var &result, GradRef history, uint32_t index) {
  if (!history || !is_floating(result.dtype()))
    return;
  result.grad = std::move(history);
  result.grad_index = index;
}

static Var result_of(Node *node, uint32_t i, GradRef history) {
  Var result{node->results[i]};
  give_history(result, std::move(history), i);
  return result;
}

static bool keeps_none(const Trace &trace) {
  return !grad_mode() && !trace.without_history;
}

// In a trace with derivatives. What was made of an input without history is read, where history is
// kept, through an op that stops gradients; what a stop gives is of no input.
[[gnu::noinline]] static Node *enter_traced(Trace &trace, Signature *signature,
                                            ArrayRef<const Var *> operands, SourceLine *line) {
  const bool no_grad = keeps_none(trace);
  const bool stops = signature->name.getTypeID() == mlir::TypeID::get<ir::DetachOp>();
  bool of_input = false;
  SmallVector<const Var *, 8> read(operands);
  for (const Var *&operand : read) {
    Value *value = operand->value;
    of_input |= value->of_input;
    if (!value->no_grad || no_grad || stops)
      continue;
    auto known = trace.without_gradient.find(value);
    if (known == trace.without_gradient.end())
      known = trace.without_gradient
                  .emplace(value, std::pair(operand->value, without_gradient(*operand)))
                  .first;
    operand = &known->second.second;
  }
  Node *node = recorder().ir->enter(signature, read, line);
  for (Value *result : node->results) {
    result->of_input = of_input && !stops;
    result->no_grad = result->of_input && no_grad && is_floating(result->type->dtype);
  }
  return node;
}

Node *enter(Signature *signature, ArrayRef<const Var *> operands, SourceLine *line) {
  if (Trace *trace = trace_with_derivatives()) [[unlikely]]
    return enter_traced(*trace, signature, operands, line);
  return recorder().ir->enter(signature, operands, line);
}

void record_op(Signature *signature, ArrayRef<const Var *> operands, SourceLine *line,
               llvm::SmallVectorImpl<Var> &results) {
  if (signature->is_indirect()) [[unlikely]]
    return record_indirectly(signature, operands, line, results);
  record_itself(signature, operands, line, results);
}

void record_itself(Signature *signature, ArrayRef<const Var *> operands, SourceLine *line,
                   llvm::SmallVectorImpl<Var> &results) {
  Node *node = enter(signature, operands, line);
  GradRef history = history_of(node, operands);
  for (uint32_t i = 0; i < node->results.size(); ++i)
    results.push_back(result_of(node, i, history));
}

// Of an op with so many results.
template <size_t N>
static std::array<Var, N> record_all(Signature *signature, ArrayRef<const Var *> operands) {
  SmallVector<Var, N> made;
  record_op(signature, operands, Session::line(), made);
  std::array<Var, N> results;
  std::move(made.begin(), made.end(), results.begin());
  return results;
}

static Var record_one(Signature *signature, ArrayRef<const Var *> operands) {
  if (signature->is_indirect()) [[unlikely]]
    return std::move(record_all<1>(signature, operands)[0]);
  Node *node = enter(signature, operands, Session::line());
  return result_of(node, 0, history_of(node, operands));
}

namespace {

// Where no such op was recorded yet, or an operand has to be moved to the others' device.
template <typename Op, auto kRecord>
[[gnu::noinline]] auto emit_new(ArrayRef<const Var *> operands,
                                const typename Op::Properties &properties, const TypeInfo *result) {
  IrState &ir = *recorder().ir;
  std::vector<Var> aligned = align_devices(Op::getOperationName(), operands);
  SmallVector<const Var *, 8> moved = pointers(aligned);
  if (!moved.empty())
    operands = moved;
  if (!moved.empty() || (result && result->part)) {
    if (result) // whole: its parts follow from the operands'
      result = type_info(result->dtype, result->dims,
                         moved.empty() ? result->device : moved[0]->device());
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

// Of an op with so many results.
template <typename Op, size_t N = 1>
auto emit(ArrayRef<const Var *> operands, const TypeInfo *result,
          const typename Op::Properties &properties = {}) {
  if constexpr (N == 1)
    return emit_by<Op, record_one>(operands, properties, result);
  else
    return emit_by<Op, record_all<N>>(operands, properties, result);
}

// What errors of an op's runs name: `user`, else the call that records it.
std::string caller(std::string_view user) {
  return user.empty() ? std::string("weft.") + Session::op() : std::string(user);
}

// Those that are there.
SmallVector<const Var *, 8> given(std::initializer_list<const Var *> operands) {
  return llvm::to_vector<8>(llvm::make_filter_range(
      operands, [](const Var *operand) { return static_cast<bool>(*operand); }));
}

} // namespace

#include "frontend/recorder/record/emit_ops.inc"

Var on_device(Var x, uint8_t device) {
  if (x.device() == device)
    return x;
  if (!x.value->is_scalar || x.grad)
    return emit<ir::TransferOp>(
        {&x}, type_info(x.dtype(), x.dims(), device),
        {.from = attribute(device_text(x.device())), .to = attribute(device_text(device))});
  auto *there = new Value(type_info(x.dtype(), x.dims(), device));
  there->is_scalar = true;
  there->bits = x.value->bits;
  there->was_constant = x.value->was_constant;
  return Var{there};
}

Var emit_mask(Comparison comparison, const Var &x, const Var &y) {
  const Var *operands[] = {&x, &y};
  return with_flat_history(emit_compare(comparison, x, y), operands);
}

static Var record_history(Signature *signature, ArrayRef<const Var *> operands) {
  Var result = *operands[0];
  result.grad = make_history(signature, Session::line(), operands, {result.value});
  result.grad_index = 0;
  return result;
}

Var with_own_history(const Var &x) {
  if (!x.grad || !grad_mode())
    return x.without_history();
  return emit_by<ir::ReshapeOp, record_history>({&x}, {}, x.value->type);
}

Var without_gradient(const Var &x) {
  Var alone = x.without_history();
  if (!is_floating(x.dtype()) || !trace_with_derivatives() || !x.value->of_input)
    return alone;
  return emit<ir::DetachOp>({&alone}, x.value->type);
}

bool may_have_gradient(const Var &x) {
  const Trace *trace = trace_with_derivatives();
  return (x.grad && grad_mode()) || (trace && x.value->of_input && !keeps_none(*trace));
}

Var made_in_trace(Var x) {
  const Trace *trace = trace_with_derivatives();
  return trace && keeps_none(*trace) && !x.value->no_grad ? without_gradient(x) : std::move(x);
}

Var with_flat_history(const Var &x, std::span<const Var *const> of) {
  auto has_history = [](const Var *operand) {
    return static_cast<bool>(operand->grad);
  };
  if (!grad_mode() || llvm::none_of(of, has_history))
    return x;
  Var result = emit_by<ir::ReshapeOp, record_history>({&x}, {}, x.value->type);
  result.grad->is_flat = true;
  result.grad->edges.clear();
  for (const Var *operand : of)
    if (operand->grad)
      result.grad->edges.push_back(GradEdge{operand->grad, operand->grad_index});
  return result;
}

Var emit_constant(Scalar scalar, DType dtype) {
  IrState &ir = *recorder().ir;
  ir::HostTensor host(dtype, {});
  uint64_t bits = scalar_bits(scalar, dtype);
  std::memcpy(host.bytes.data(), &bits, host.bytes.size());
  return emit<ir::ConstantOp>({}, type_info(dtype, {}), {.value = host.toAttribute(&ir.context())});
}

} // namespace weft::recorder
