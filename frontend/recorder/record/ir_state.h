// What the record knows of MLIR: the types, locations and signatures of its ops in a context of its
// own. An op in the record is its signature and its operands; it becomes an MLIR op where a slice
// is compiled, and where a signature or a derivative is met for the first time.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>

#include "dialects/weft/ir/Weft.h"
#include "frontend/recorder/record/limits.h"
#include "frontend/recorder/record/recorder.h"
#include "frontend/recorder/record/signature_text.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "runtime/core/ends.h"
#include "weft/extend.h"
#include "llvm/ADT/DenseMap.h"

namespace weft::recorder {

struct Signature;

// What the derivative rule of a signature records for cotangents of these results where gradients
// of these operands are wanted. The rule is run once and gives this; from then on the ops are
// recorded from here. Values have numbers: first the op's operands, its results and their
// cotangents, then the results of the steps.
struct Derivative {
  struct Step {
    SignatureRef signature;
    llvm::SmallVector<uint32_t, 3> operands;
  };
  llvm::SmallVector<bool, 8>
      asked; // which operands want a gradient, then which results have a cotangent
  std::vector<Step> steps;
  uint32_t made = 0;                                       // results of all steps
  llvm::SmallVector<std::optional<uint32_t>, 3> gradients; // by operand
};

// How the ranks of a mesh carry out an op whose operands they have parts of, or come from parts to
// other parts: values have numbers as a derivative's have, first the operands'.
struct Partition {
  std::vector<Derivative::Step> steps;
  llvm::SmallVector<std::pair<uint32_t, TypeRef>, 1> results; // and their types
};

// Whether the runtime carries an op out between programs, and how.
enum class Exchange : uint8_t { kNone, kTransfer, kCollective };

// Values by their numbers, while ops that are built on them become steps.
struct NumberedValues {
  llvm::DenseMap<mlir::Value, uint32_t> numbers;
  llvm::SmallVector<const TypeInfo *, 16> types; // by number

  // The next one; null where nobody reads it.
  void add(mlir::Value value, const TypeInfo *type);
  // Its results are the next ones, on the device.
  Derivative::Step add(IrState &ir, mlir::Operation *op, uint8_t device);
  uint32_t operator[](mlir::Value value) const {
    return numbers.find(value)->second;
  }
  const TypeInfo *type(mlir::Value value) const {
    return types[(*this)[value]];
  }
};

// An op without operands and results, which holds properties: a copy of these, else the defaults.
using BareOp = mlir::OwningOpRef<mlir::Operation *>;
BareOp bare_op(mlir::OperationName name, mlir::OpaqueProperties from = nullptr);

// An op but for its operands. Two ops with one signature do the same to operands of the same types.
struct Signature : Interned {
  mlir::OperationName name;
  BareOp bare;
  mlir::OpaqueProperties properties = nullptr; // in it; null where the op has none
  llvm::SmallVector<const TypeInfo *, 3> operands;
  llvm::SmallVector<const TypeInfo *, 1> results;
  llvm::SmallVector<TypeRef, 4> types; // of both
  // Its results have histories. The derivative may not be written yet: backward says so then.
  bool differentiable = false;
  bool checks = false;     // may end a run: it looks at indices from data, or is a user's kernel
  bool is_sharded = false; // of an operand this rank has a part: no node has it, but its steps'
  Exchange exchange = Exchange::kNone;
  uint8_t device = 0; // that its results are on
  int64_t result_bytes = 0;
  std::shared_ptr<const OpReplacement> replacement; // null for most
  const ir::WeftOp::Concept *rules = nullptr;
  llvm::ArrayRef<int64_t> saved_operands, saved_results;
  Ref<const SignatureText> text; // which has the same id
  std::vector<std::shared_ptr<const Derivative>> derivatives;
  std::shared_ptr<const Partition> partition; // of a sharded one, once it was recorded

  Signature(mlir::OperationName name, llvm::ArrayRef<const TypeInfo *> operands,
            llvm::ArrayRef<const TypeInfo *> results);
  // No node has it as it is (record_indirectly).
  bool is_indirect() const {
    return is_sharded || replacement;
  }
  // Its name, its properties, and the rules of its name.
  void adopt(BareOp op);
};

inline void unused(const Signature &) {} // a new context goes without it

template <typename... Ops> bool is(const Node *node) {
  mlir::TypeID id = node->signature->name.getTypeID();
  return ((id == mlir::TypeID::get<Ops>()) || ...);
}

// The properties of such an op; null of another one.
template <typename Op> const typename Op::Properties *properties_if(const Signature &signature) {
  return signature.name.getTypeID() == mlir::TypeID::get<Op>()
             ? signature.properties.as<const typename Op::Properties *>()
             : nullptr;
}

// Whether a program with this op may end at it: it looks at indices from data, is decomposed into
// ops that do (cross_entropy), is a kernel of a user's, which says whether it failed, or an
// exchange with other ranks, which may be gone.
bool may_end_run(mlir::Operation *op);

llvm::SmallVector<const TypeInfo *, 4> types_of(llvm::ArrayRef<const Var *> operands);

class IrState {
public:
  IrState();

  // An error where the thread's end has begun, as in enter().
  mlir::MLIRContext &context() {
    refuse_at_end();
    return *context_;
  }
  // The place of an attribute whose value has this hash, among those that were made last.
  mlir::Attribute &recent_attribute(uint64_t hash) {
    refuse_at_end();
    return recent_attributes_[hash * 0x9e3779b97f4a7c15u >> (64 - kLimits.recent_attribute_bits)];
  }
  // The line alone, and with the path of a module, where there is one.
  mlir::Location location(SourceLine *line);
  mlir::Location location(SourceLine *line, const ModuleName *module);
  // In the rank's memory, and of the whole tensor.
  mlir::RankedTensorType type(const TypeInfo *type);
  mlir::RankedTensorType whole_type(const TypeInfo *type);
  // Of a type that ops in this context have. Devices are not in it: a program has one.
  const TypeInfo *info(mlir::Type type, uint8_t device);

  // The signature of an op on these operands that was met before, else null. result: its only
  // result's type; null where the op's own rule says what its results are.
  template <typename Op>
  Signature *find(const typename Op::Properties &properties, llvm::ArrayRef<const Var *> operands,
                  const TypeInfo *result) {
    mlir::TypeID op = mlir::TypeID::get<Op>();
    uint64_t hash = reinterpret_cast<uintptr_t>(op.getAsOpaquePointer()) ^
                    reinterpret_cast<uintptr_t>(result) * 3;
    for (const Var *operand : operands)
      hash = hash * 31 + reinterpret_cast<uintptr_t>(&operand->type());
    Signature *&recent =
        recent_[hash * 0x9e3779b97f4a7c15u >> (64 - kLimits.recent_signature_bits)];
    if (recent && recent->name.getTypeID() == op && has_types(*recent, operands, result)) {
      if constexpr (std::is_same_v<typename Op::Properties, mlir::EmptyProperties>)
        return recent;
      else if (*recent->properties.as<const typename Op::Properties *>() == properties)
        return recent;
    }
    typename Op::Properties copy = properties;
    if (Signature *found = find(*mlir::RegisteredOperationName::lookup(op, context_.get()),
                                mlir::OpaqueProperties(&copy), operands, result))
      return recent = found;
    return nullptr;
  }
  // A further argument of the block, that stands for an operand while an op on it tells what its
  // signature is, or a derivative rule what it records.
  mlir::Value stand_in(mlir::Block &block, const TypeInfo *type);
  // The signature of an op on stand-ins of these types, with results on the device.
  Signature *intern(mlir::Operation *op, llvm::ArrayRef<const TypeInfo *> operands, uint8_t device);
  // The op of a signature, on values of its operands' whole types. Nobody's yet.
  mlir::Operation *make_op(const Signature &signature, mlir::ValueRange operands);
  // Its properties as an attribute of this context; null where it has none.
  mlir::Attribute properties_of(const Signature &signature);
  // The signature of the same op on these operands.
  Signature *fit(Signature *signature, llvm::ArrayRef<const Var *> operands);
  // Partitions that take values of one type to those of another: by which way, along which axis.
  using Resharding = std::tuple<const TypeInfo *, const TypeInfo *, int, int32_t>;
  using Reshardings = std::map<Resharding, std::shared_ptr<const Partition>>;
  Reshardings &reshardings() {
    return reshardings_;
  }
  // From now on what replaces the op; null: nothing does.
  void replace(llvm::StringRef op, const std::shared_ptr<const OpReplacement> &replacement);
  // A new op at the end of the record. MLIR's objects, and lists of the ops' rules, may have gone
  // where the thread's end has begun: an error.
  Node *enter(Signature *signature, llvm::ArrayRef<const Var *> operands, SourceLine *line);

  // How many distinct types, signatures and locations this context has made beyond those that it
  // began with: it never frees them.
  int64_t uniqued() const {
    return uniqued_;
  }
  // Makes everything anew in a fresh context.
  void renew();

  // The type is about to go.
  void forget(const TypeInfo &type) {
    if (type.ir)
      types_.erase({type.ir, type.device});
    if (type.part)
      reshardings_.clear();
  }
  InternTable<SignatureText, std::string_view> &texts() {
    return texts_;
  }
  InternTable<SignatureStructure, std::string_view> &structures() {
    return structures_;
  }
  int64_t signatures() const {
    return std::ssize(signatures_);
  }
  int64_t most_signatures() const; // before the context is made anew
  // The first diagnostic since it was last taken.
  struct Refusal {
    std::string message;
    ErrorKind kind = ErrorKind::kShape;
  };
  Refusal take_diagnostic();

private:
  static void refuse_at_end() {
    if (runtime::detail::has_ended) [[unlikely]]
      fail_at_end();
  }
  [[noreturn]] static void fail_at_end();
  static bool has_types(const Signature &signature, llvm::ArrayRef<const Var *> operands,
                        const TypeInfo *result) {
    return signature.operands.size() == operands.size() &&
           std::equal(operands.begin(), operands.end(), signature.operands.begin(),
                      [](const Var *x, const TypeInfo *type) { return x->value->type == type; }) &&
           (!result || (signature.results.size() == 1 && signature.results[0] == result));
  }
  using Types = llvm::ArrayRef<const TypeInfo *>;
  // results: of those that have these; empty where nobody asks.
  Signature *find(mlir::OperationName name, mlir::OpaqueProperties properties, Types operands,
                  Types results) const;
  Signature *find(mlir::OperationName name, mlir::OpaqueProperties properties,
                  llvm::ArrayRef<const Var *> operands, const TypeInfo *result) const;
  Signature *keep(std::unique_ptr<Signature> signature); // among those that are found
  void open();
  void count_uniqued();
  Ref<const SignatureText> text_of(const Signature &signature, mlir::Attribute properties);

  std::unique_ptr<mlir::MLIRContext> context_;
  llvm::DenseMap<std::pair<const void *, unsigned>, const TypeInfo *> types_; // with the device
  std::unordered_multimap<uint64_t, std::unique_ptr<Signature>> signatures_;  // by hash_of()
  Reshardings reshardings_;
  // Those that calls found last, by a hash of the op and its types.
  std::array<Signature *, size_t(1) << kLimits.recent_signature_bits> recent_{};
  std::array<mlir::Attribute, size_t(1) << kLimits.recent_attribute_bits> recent_attributes_{};
  int64_t signatures_left_ = 0; // when the context was made
  InternTable<SignatureText, std::string_view> texts_;
  InternTable<SignatureStructure, std::string_view> structures_;
  Refusal diagnostic_;
  int64_t uniqued_ = 0;
};

} // namespace weft::recorder
