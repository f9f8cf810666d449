#include "frontend/recorder/record/ir_state.h"

#include "dialects/weft/ir/IndexBounds.h"
#include "dialects/weft/ir/MayFail.h"
#include "dialects/weft/rules/RuleChecks.h"
#include "frontend/recorder/record/checkpoint.h"
#include "frontend/recorder/record/state.h"
#include "frontend/tensor/impl.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "runtime/core/caches.h"
#include "llvm/ADT/SmallVectorExtras.h"

namespace weft::recorder {
namespace {

const runtime::RegisteredCache
    signatures("signatures", "a new context, if no recorded op or history has it", [] {
      const IrState &ir = *recorder().ir;
      return runtime::CacheUse{ir.signatures(), -1, ir.most_signatures(), -1};
    });
const runtime::RegisteredCache
    texts("signatures' texts", "the last signature, program or family that has it", [] {
      IrState &ir = *recorder().ir;
      return runtime::CacheUse{ir.texts().size() + ir.structures().size(), -1, -1, -1};
    });

// What the op's own rule finds is left out: it is looked for by whoever does not know it yet.
uint64_t hash_of(mlir::OperationName name, mlir::OpaqueProperties properties,
                 llvm::ArrayRef<const TypeInfo *> operands,
                 llvm::ArrayRef<const TypeInfo *> results) {
  llvm::hash_code hash =
      llvm::hash_combine(name.getAsOpaquePointer(), name.hashOpProperties(properties),
                         llvm::hash_combine_range(operands.begin(), operands.end()));
  if (!name.hasInterface<mlir::InferTypeOpInterface>())
    hash = llvm::hash_combine(hash, llvm::hash_combine_range(results.begin(), results.end()));
  return static_cast<size_t>(hash);
}

} // namespace

Signature::Signature(mlir::OperationName name, llvm::ArrayRef<const TypeInfo *> operands,
                     llvm::ArrayRef<const TypeInfo *> results)
    : name(name), operands(operands), results(results) {
  for (const TypeInfo *type : llvm::concat<const TypeInfo *const>(operands, results))
    types.emplace_back(type);
}

BareOp bare_op(mlir::OperationName name, mlir::OpaqueProperties from) {
  BareOp op(mlir::Operation::create(mlir::UnknownLoc::get(name.getContext()), name,
                                    mlir::TypeRange(), mlir::ValueRange(), mlir::NamedAttrList(),
                                    from));
  if (!from && op->getPropertiesStorage())
    name.populateDefaultProperties(op->getPropertiesStorage());
  return op;
}

void Signature::adopt(BareOp op) {
  name = op->getName();
  properties = op->getPropertiesStorage();
  rules = name.getInterface<ir::WeftOp>();
  bare = std::move(op);
}

IrState::IrState() {
  open();
}

int64_t IrState::most_signatures() const {
  return signatures_left_ + recorder().config.context_bound;
}

void IrState::open() {
  context_ = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  // The constructor leaves its tables to several threads: each entry would be made in memory of the
  // thread's own, which goes before objects that may record. The recorder's lock is all it needs.
  context_->disableMultithreading();
  context_->loadDialect<ir::WeftDialect>();
  context_->getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
    if (!diagnostic_.message.empty())
      return mlir::success();
    diagnostic_.message = diagnostic.str();
    if (ir::isDtypeError(diagnostic.getLocation()))
      diagnostic_.kind = ErrorKind::kDType;
    return mlir::success();
  });
}

IrState::Refusal IrState::take_diagnostic() {
  return std::exchange(diagnostic_, Refusal());
}

void IrState::count_uniqued() {
  Recorder &r = recorder();
  r.crowded = ++uniqued_ > r.config.context_bound || r.crowded;
}

mlir::Location IrState::location(SourceLine *line) {
  line = &line->without_module();
  if (!line->ir) {
    line->ir = mlir::Location(mlir::FileLineColLoc::get(context_.get(), line->file,
                                                        line->where.line, line->where.column))
                   .getAsOpaquePointer();
    count_uniqued();
  }
  return mlir::Location::getFromOpaquePointer(line->ir);
}

mlir::Location IrState::location(SourceLine *line, const ModuleName *module) {
  mlir::Location plain = location(line);
  if (!module)
    return plain;
  if (!line->named_ir || line->named_for != module || line->named_at != module_tree) {
    std::string path = module->path();
    mlir::Location named =
        path.empty() ? plain
                     : mlir::NameLoc::get(mlir::StringAttr::get(context_.get(), path), plain);
    line->named_ir = named.getAsOpaquePointer();
    line->named_for = module;
    line->named_at = module_tree;
    count_uniqued();
  }
  return mlir::Location::getFromOpaquePointer(line->named_ir);
}

mlir::RankedTensorType IrState::type(const TypeInfo *type) {
  if (type->part)
    type = type->part;
  if (!type->ir) {
    auto made =
        mlir::RankedTensorType::get(type->dims, ir::elementType(type->dtype, context_.get()));
    type->ir = made.getAsOpaquePointer();
    types_[{type->ir, type->device}] = type;
    count_uniqued();
  }
  return mlir::cast<mlir::RankedTensorType>(mlir::Type::getFromOpaquePointer(type->ir));
}

mlir::RankedTensorType IrState::whole_type(const TypeInfo *type) {
  return type->part
             ? mlir::RankedTensorType::get(type->dims, ir::elementType(type->dtype, context_.get()))
             : this->type(type);
}

const TypeInfo *IrState::info(mlir::Type type, uint8_t device) {
  auto it = types_.find({type.getAsOpaquePointer(), device});
  if (it != types_.end())
    return it->second;
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  const TypeInfo *found =
      type_info(ir::dtypeOf(tensor.getElementType()),
                Shape(tensor.getShape().begin(), tensor.getShape().end()), device);
  this->type(found);
  return found;
}

mlir::Value IrState::stand_in(mlir::Block &block, const TypeInfo *type) {
  return block.addArgument(whole_type(type), mlir::UnknownLoc::get(context_.get()));
}

void NumberedValues::add(mlir::Value value, const TypeInfo *type) {
  if (value)
    numbers[value] = static_cast<uint32_t>(types.size());
  types.push_back(type);
}

Derivative::Step NumberedValues::add(IrState &ir, mlir::Operation *op, uint8_t device) {
  Derivative::Step step;
  llvm::SmallVector<const TypeInfo *, 4> given;
  for (mlir::Value operand : op->getOperands()) {
    step.operands.push_back((*this)[operand]);
    given.push_back(type(operand));
  }
  step.signature = ir.intern(op, given, device);
  for (auto [value, type] : llvm::zip(op->getResults(), step.signature->results))
    add(value, type);
  return step;
}

bool may_end_run(mlir::Operation *op) {
  auto weft = mlir::dyn_cast<ir::WeftOp>(op);
  return ir::indexBounds(op) || ir::mayFail(op) || mlir::isa<ir::CrossEntropyOp>(op) ||
         (weft && weft.kind() == ir::Kind::Exchange);
}

llvm::SmallVector<const TypeInfo *, 4> types_of(llvm::ArrayRef<const Var *> operands) {
  return llvm::map_to_vector<4>(operands, [](const Var *x) { return &x->type(); });
}

Signature *IrState::find(mlir::OperationName name, mlir::OpaqueProperties properties,
                         Types operands, Types results) const {
  auto [first, last] = signatures_.equal_range(hash_of(name, properties, operands, results));
  for (; first != last; ++first)
    if (Signature *s = first->second.get();
        s->name == name && Types(s->operands) == operands &&
        (results.empty() || Types(s->results) == results) &&
        (!s->properties || name.compareOpProperties(s->properties, properties)))
      return s;
  return nullptr;
}

Signature *IrState::find(mlir::OperationName name, mlir::OpaqueProperties properties,
                         llvm::ArrayRef<const Var *> operands, const TypeInfo *result) const {
  return find(name, properties, types_of(operands), result ? Types(result) : Types());
}

Signature *IrState::keep(std::unique_ptr<Signature> s) {
  uint64_t hash = hash_of(s->name, s->properties, s->operands, s->results);
  return signatures_.emplace(hash, std::move(s))->second.get();
}

Signature *IrState::intern(mlir::Operation *op, llvm::ArrayRef<const TypeInfo *> operands,
                           uint8_t device) {
  mlir::OperationName name = op->getName();
  llvm::SmallVector<const TypeInfo *, 2> results;
  for (mlir::Type type : op->getResultTypes())
    results.push_back(info(type, device));
  if (Signature *known = find(name, op->getPropertiesStorage(), operands, results))
    return known;
  auto s = std::make_unique<Signature>(name, operands, results);
  for (const TypeInfo *type : results)
    s->result_bytes += type->bytes;
  s->adopt(bare_op(name, op->getPropertiesStorage()));
  s->checks = may_end_run(op);
  if (mlir::isa<ir::TransferOp>(op))
    s->exchange = Exchange::kTransfer;
  else if (s->rules && s->rules->kind() == ir::Kind::Exchange && ir::isOwn(op))
    s->exchange = Exchange::kCollective;
  s->device = device;
  s->is_sharded = llvm::any_of(operands, [](const TypeInfo *type) { return type->part.get(); });
  s->replacement = replacement_of(name.getStringRef());
  llvm::StringRef no_derivative =
      s->rules ? s->rules->missingRule(ir::RuleKind::Derivative) : "it is no op of Weft's";
  s->differentiable = no_derivative.empty() || ir::isDeferred(no_derivative);
  if (s->rules) {
    s->saved_operands = s->rules->savedOperands();
    s->saved_results = s->rules->savedResults();
  }
  s->text = text_of(*s, s->properties ? op->getPropertiesAsAttribute() : mlir::Attribute());
  s->id = s->text->id;
  count_uniqued();
  return keep(std::move(s));
}

void IrState::replace(llvm::StringRef op, const std::shared_ptr<const OpReplacement> &replacement) {
  for (auto &[hash, s] : signatures_)
    if (s->name.getStringRef() == op)
      s->replacement = replacement;
}

mlir::Operation *IrState::make_op(const Signature &s, mlir::ValueRange operands) {
  llvm::SmallVector<mlir::Type, 2> results;
  for (const TypeInfo *type : s.results)
    results.push_back(this->type(type));
  return mlir::Operation::create(mlir::UnknownLoc::get(context_.get()), s.name, results, operands,
                                 mlir::NamedAttrList(), s.properties);
}

mlir::Attribute IrState::properties_of(const Signature &s) {
  std::string text = s.text->properties();
  return text.empty() ? mlir::Attribute() : mlir::parseAttribute(text, context_.get());
}

Signature *IrState::fit(Signature *s, llvm::ArrayRef<const Var *> operands) {
  if (has_types(*s, operands, nullptr))
    return s;
  llvm::SmallVector<const TypeInfo *, 4> types = types_of(operands);
  if (Signature *known =
          find(s->name, s->properties, types, s->results.size() == 1 ? Types(s->results) : Types()))
    return known;
  mlir::Block block;
  for (const TypeInfo *type : types)
    stand_in(block, type);
  mlir::Operation *op = make_op(*s, block.getArguments());
  Signature *made = intern(op, types, s->device);
  op->destroy();
  return made;
}

// A collective that this thread has recorded. Out of line: other ops need a small frame.
[[gnu::noinline]] static void note_collective(Node *node) {
  Trace *trace = thread_trace;
  if (trace && trace->exchange.empty())
    trace->exchange = node->line->place();
  if (!node->tracer)
    recorder().pending_collectives[thread_rank].emplace(node->number, node->results[0]);
}

void IrState::fail_at_end() {
  fail(ErrorKind::kState, runtime::why_not_compute());
}

Node *IrState::enter(Signature *signature, llvm::ArrayRef<const Var *> operands, SourceLine *line) {
  refuse_at_end();
  Recorder &r = recorder();
  auto *node = new Node;
  node->signature = signature;
  node->rank = thread_rank;
  node->line = line;
  node->number = r.next_number++;
  if (const Trace *trace = thread_trace)
    node->tracer = trace->tracer;
  bool may_fail = signature->checks, lost = false;
  node->operands.reserve(operands.size());
  for (const Var *operand : operands) {
    Value *value = operand->value;
    if (const Node *maker = value->node) {
      may_fail |= maker->may_fail;
      lost |= maker->lost;
    } else {
      lost |= is_lost(value);
    }
    ++value->uses;
    node->operands.push_back(value);
  }
  node->may_fail = may_fail;
  node->lost = lost;
  for (const TypeInfo *type : signature->results) {
    auto *value = new Value(type);
    value->index = node->live_results++;
    value->node = node;
    node->results.push_back(value);
  }
  node->previous = r.last;
  (r.last ? r.last->next : r.first) = node;
  r.last = node;
  ++r.live_ops;
  r.live_bytes += signature->result_bytes;
  ++r.statistics.recorded_ops;
  if (signature->exchange == Exchange::kCollective)
    note_collective(node);
  if (thread_checkpoint) [[unlikely]]
    note_recorded(*thread_checkpoint, *node);
  return node;
}

void IrState::renew() {
  if (runtime::detail::has_ended)
    return; // what a context keeps for the thread has gone
  Recorder &r = recorder();
  // Signatures that nobody uses go; the others and the types are made anew. What cached keys know
  // of them stays, so that the programs are still found.
  std::unique_ptr<mlir::MLIRContext> old_context = std::move(context_); // outlives what is in it
  auto old_signatures = std::exchange(signatures_, {});
  for (auto &[hash, s] : old_signatures) {
    s->derivatives.clear();
    s->partition = nullptr;
  }
  reshardings_.clear();
  recent_.fill(nullptr);
  recent_attributes_.fill(nullptr);
  types_.clear();
  uniqued_ = 0;
  for (const auto &[key, type] : r.types)
    type->ir = nullptr;
  for (const auto &[key, line] : r.lines)
    line->ir = line->named_ir = nullptr;

  open();

  for (auto &[hash, s] : old_signatures) {
    if (s->users == 0)
      continue;
    for (const TypeInfo *type : s->types)
      this->type(type);
    mlir::OperationState state(mlir::UnknownLoc::get(context_.get()), s->name.getStringRef());
    state.propertiesAttr = properties_of(*s);
    s->adopt(mlir::Operation::create(state));
    keep(std::move(s));
  }
  uniqued_ = 0; // what is in use does not count
  signatures_left_ = signatures();
  ++r.statistics.context_rebuilds;
}

} // namespace weft::recorder
