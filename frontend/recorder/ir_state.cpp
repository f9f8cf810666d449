#include "frontend/recorder/ir_state.h"

#include "dialects/weft/ir/Custom.h"
#include "dialects/weft/ir/IndexBounds.h"
#include "frontend/recorder/state.h"
#include "frontend/recorder/state_api.h"
#include "frontend/recorder/structure.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::recorder {
namespace {

std::string print(mlir::Attribute attribute) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (attribute) attribute.print(stream);
  return text;
}

std::string print(const TypeInfo &type) {
  std::string text;
  for (int64_t dim : type.dims) text += std::to_string(dim) + "x";
  return text + info(type.dtype).ir_name;
}

} // namespace

Signature::~Signature() {
  if (!properties) return;
  name.destroyOpProperties(opaque());
  ::operator delete(properties, std::align_val_t(8));
}

IrState::IrState() { open(); }

IrState::~IrState() {
  for (auto &entry : signatures_)
    for (Signature *s = entry.second; s;) delete std::exchange(s, s->next);
}

void IrState::open() {
  context_ = std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED);
  context_->loadDialect<ir::WeftDialect>();
  context_->getDiagEngine().registerHandler([this](mlir::Diagnostic &diagnostic) {
    if (diagnostic_.empty()) diagnostic_ = diagnostic.str();
    return mlir::success();
  });
  block_ = std::make_unique<mlir::Block>();
}

std::string IrState::take_diagnostic() { return std::exchange(diagnostic_, std::string()); }

mlir::Location IrState::location(SourceLine *line) {
  if (!line->ir) {
    line->ir = mlir::Location(mlir::FileLineColLoc::get(context_.get(), line->file, line->line, line->column)).getAsOpaquePointer();
    lines_.push_back(line);
  }
  return mlir::Location::getFromOpaquePointer(line->ir);
}

mlir::RankedTensorType IrState::type(const TypeInfo *type) {
  if (!type->ir) {
    auto made = mlir::RankedTensorType::get(type->dims, ir::elementType(type->dtype, context_.get()));
    const_cast<TypeInfo *>(type)->ir = made.getAsOpaquePointer();
    types_[type->ir] = type;
    ++uniqued_;
  }
  return mlir::cast<mlir::RankedTensorType>(mlir::Type::getFromOpaquePointer(type->ir));
}

const TypeInfo *IrState::info(mlir::Type type) {
  auto it = types_.find(type.getAsOpaquePointer());
  if (it != types_.end()) return it->second;
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  const TypeInfo *found = type_info(ir::dtypeOf(tensor.getElementType()), Shape(tensor.getShape().begin(), tensor.getShape().end()));
  this->type(found);
  return found;
}

mlir::Value IrState::value(Value *value) {
  if (!value->ir) {
    mlir::OperationState state(mlir::UnknownLoc::get(context_.get()), ir::LeafOp::getOperationName());
    state.addTypes(type(value->type));
    value->ir = create(state)->getResult(0).getAsOpaquePointer();
  }
  return to_value(value->ir);
}

mlir::Operation *IrState::create(mlir::OperationState &state) {
  mlir::Operation *op = mlir::Operation::create(state);
  block_->push_back(op);
  return op;
}

void IrState::fill(Signature *signature, mlir::Operation *op) {
  if (int size = signature->name.getOpPropertyByteSize()) {
    signature->properties = ::operator new(size, std::align_val_t(8));
    signature->name.initOpProperties(signature->opaque(), op->getPropertiesStorage());
  }
  signature->rules = signature->name.getInterface<ir::WeftOp>();
}

// cross_entropy becomes ops with a check where it is decomposed; kernels of users say whether they failed.
static bool may_end_run(mlir::Operation *op) { return ir::indexBounds(op) || mlir::isa<ir::CrossEntropyOp, ir::CustomOp>(op); }

Signature *IrState::intern(mlir::Operation *op, llvm::ArrayRef<Value *> operands) {
  mlir::OperationName name = op->getName();
  llvm::hash_code hash = llvm::hash_combine(name.getAsOpaquePointer(), name.hashOpProperties(op->getPropertiesStorage()));
  for (Value *operand : operands) hash = llvm::hash_combine(hash, operand->type);
  for (mlir::Type type : op->getResultTypes()) hash = llvm::hash_combine(hash, type.getAsOpaquePointer());
  // DenseMap keeps two keys for itself.
  uint64_t key = static_cast<size_t>(hash) >> 2;
  Signature *&head = signatures_[key];
  for (Signature *s = head; s; s = s->next) {
    if (s->name != name || s->operands.size() != operands.size() || s->results.size() != op->getNumResults()) continue;
    bool same = !s->properties || name.compareOpProperties(s->opaque(), op->getPropertiesStorage());
    for (size_t i = 0; same && i < operands.size(); ++i) same = s->operands[i] == operands[i]->type;
    for (size_t i = 0; same && i < s->results.size(); ++i) same = s->results[i]->ir == op->getResult(i).getType().getAsOpaquePointer();
    if (same) return s;
  }
  auto *s = new Signature(name);
  s->hash = key;
  for (Value *operand : operands) s->operands.push_back(operand->type);
  for (mlir::Type type : op->getResultTypes()) {
    s->results.push_back(info(type));
    s->result_bytes += s->results.back()->bytes;
  }
  fill(s, op);
  s->checks = may_end_run(op);
  s->differentiable = s->rules && s->rules->missingRule(ir::RuleKind::Derivative).empty();
  if (s->rules) {
    s->saved_operands = s->rules->savedOperands();
    s->saved_results = s->rules->savedResults();
  }
  s->properties_text = s->properties ? print(op->getPropertiesAsAttribute()) : std::string();
  std::string text = s->properties_text + " (";
  for (const TypeInfo *type : s->operands) text += print(*type) + ", ";
  text += ") -> (";
  for (const TypeInfo *type : s->results) text += print(*type) + ", ";
  text += ")";
  auto [it, fresh] = ids_.try_emplace(name.getStringRef().str() + text, static_cast<uint32_t>(texts_.size()));
  if (fresh) {
    auto properties = mlir::dyn_cast_if_present<mlir::DictionaryAttr>(s->properties ? op->getPropertiesAsAttribute() : mlir::Attribute());
    SignatureInts split = split_ints(name.getStringRef(), properties, s->operands, s->results);
    auto [structure, added] = structure_ids_.try_emplace(std::move(split.structure), static_cast<uint32_t>(structures_.size()));
    if (added) structures_.push_back({std::move(split.positions), &structure->first});
    texts_.push_back(std::make_unique<SignatureText>(
        SignatureText{name.getStringRef().str(), text, static_cast<uint32_t>(operands.size()), structure->second, std::move(split.ints)}));
  }
  s->id = it->second;
  s->next = head;
  // `head` may have moved: info() above interns types only, not signatures.
  head = s;
  ++uniqued_;
  return s;
}

Node *IrState::enter(mlir::Operation *op, llvm::ArrayRef<Value *> operands, SourceLine *line) {
  Recorder &r = recorder();
  auto *node = new Node;
  node->op = op;
  node->signature = intern(op, operands);
  ++node->signature->refs;
  node->line = line;
  node->number = r.next_number++;
  node->may_fail = node->signature->checks;
  node->operands.reserve(operands.size());
  for (Value *operand : operands) {
    node->may_fail = node->may_fail || (operand->node && operand->node->may_fail);
    node->lost = node->lost || (operand->node ? operand->node->lost : is_lost(operand));
    ++operand->uses;
    node->operands.push_back(operand);
  }
  const auto &types = node->signature->results;
  node->results.reserve(types.size());
  for (unsigned i = 0; i < types.size(); ++i) {
    auto *value = new Value(types[i]);
    value->index = i;
    value->node = node;
    value->ir = op->getResult(i).getAsOpaquePointer();
    node->results.push_back(value);
  }
  node->live_results = types.size();
  node->previous = r.last;
  (r.last ? r.last->next : r.first) = node;
  r.last = node;
  ++r.live_ops;
  r.live_bytes += node->signature->result_bytes;
  ++r.statistics.recorded_ops;
  return node;
}

void IrState::renew() {
  Recorder &r = recorder();
  // Signatures that nobody uses go; the others, the types and the live ops are made anew. Ids stay, so that cached programs are still
  // found.
  llvm::DenseMap<uint64_t, Signature *> old_signatures;
  std::swap(old_signatures, signatures_);
  llvm::DenseMap<const void *, const TypeInfo *> old_types;
  std::swap(old_types, types_);
  for (auto &[ir, type] : old_types) const_cast<TypeInfo *>(type)->ir = nullptr;
  for (SourceLine *line : lines_) line->ir = nullptr;
  lines_.clear();
  uniqued_ = 0;

  std::unique_ptr<mlir::MLIRContext> old_context = std::move(context_);
  std::unique_ptr<mlir::Block> old_block = std::move(block_);
  open();

  llvm::SmallVector<Signature *> kept;
  for (auto &entry : old_signatures)
    for (Signature *s = entry.second; s;) {
      Signature *signature = std::exchange(s, s->next);
      if (signature->refs == 0) {
        delete signature;
        continue;
      }
      kept.push_back(signature);
    }
  // Leaves get their op again when something refers to them.
  for (Node *node = r.first; node; node = node->next)
    for (Value *operand : node->operands)
      if (!operand->node) operand->ir = nullptr;
  // One op for each signature gives it its new properties; live ops are made from those.
  for (Signature *s : kept) {
    if (s->properties) {
      s->name.destroyOpProperties(s->opaque());
      ::operator delete(s->properties, std::align_val_t(8));
      s->properties = nullptr;
    }
    mlir::OperationState state(mlir::UnknownLoc::get(context_.get()), s->name.getStringRef());
    for (const TypeInfo *type : s->results) state.addTypes(this->type(type));
    llvm::SmallVector<mlir::Operation *> leaves;
    for (const TypeInfo *type : s->operands) {
      mlir::OperationState leaf(mlir::UnknownLoc::get(context_.get()), ir::LeafOp::getOperationName());
      leaf.addTypes(this->type(type));
      leaves.push_back(mlir::Operation::create(leaf));
      state.addOperands(leaves.back()->getResult(0));
    }
    if (!s->properties_text.empty()) state.propertiesAttr = mlir::parseAttribute(s->properties_text, context_.get());
    mlir::Operation *op = mlir::Operation::create(state);
    s->name = op->getName();
    fill(s, op);
    llvm::hash_code hash = llvm::hash_combine(s->name.getAsOpaquePointer(), s->name.hashOpProperties(op->getPropertiesStorage()));
    for (const TypeInfo *type : s->operands) hash = llvm::hash_combine(hash, type);
    for (const TypeInfo *type : s->results) hash = llvm::hash_combine(hash, type->ir);
    s->hash = static_cast<size_t>(hash) >> 2;
    Signature *&head = signatures_[s->hash];
    s->next = head;
    head = s;
    ++uniqued_;
    op->destroy();
    for (mlir::Operation *leaf : leaves) leaf->destroy();
  }
  for (Node *node = r.first; node; node = node->next) {
    mlir::OperationState state(location(node->line), node->signature->name);
    for (Value *operand : node->operands) state.addOperands(value(operand));
    for (const TypeInfo *type : node->signature->results) state.addTypes(this->type(type));
    mlir::Operation *op = mlir::Operation::create(state);
    if (node->signature->properties) op->copyProperties(node->signature->opaque());
    block_->push_back(op);
    node->op = op;
    for (Value *result : node->results)
      if (result) result->ir = op->getResult(result->index).getAsOpaquePointer();
  }
  old_block->dropAllDefinedValueUses();
  for (mlir::Operation &op : *old_block) op.dropAllReferences();
  old_block->clear();
  ++r.statistics.context_rebuilds;
}

} // namespace weft::recorder
