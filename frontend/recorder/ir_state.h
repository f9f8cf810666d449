// What the record knows of MLIR: the types, locations and signatures of its ops in a context of its
// own. An op in the record is its signature and its operands; it becomes an MLIR op where a slice
// is compiled, and where a signature or a derivative is met for the first time. Private to this
// folder.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "dialects/weft/ir/Weft.h"
#include "frontend/recorder/generalize.h"
#include "frontend/recorder/recorder.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

namespace weft::recorder {

struct Signature;

// What the derivative rule of a signature records for cotangents of these results where gradients
// of these operands are wanted. The rule is run once and gives this; from then on the ops are
// recorded from here. Values have numbers: first the op's operands, its results and their
// cotangents, then the results of the steps.
struct Derivative {
  struct Step {
    Signature *signature; // counts among its refs
    llvm::SmallVector<uint32_t, 3> operands;
  };
  llvm::SmallVector<bool, 8>
      asked; // which operands want a gradient, then which results have a cotangent
  std::vector<Step> steps;
  uint32_t made = 0;                                       // results of all steps
  llvm::SmallVector<std::optional<uint32_t>, 3> gradients; // by operand
};

// An op but for its operands. Two ops with one signature do the same to operands of the same types.
struct Signature {
  mlir::OperationName name;
  void *properties = nullptr; // a copy of its own
  llvm::SmallVector<const TypeInfo *, 3> operands;
  llvm::SmallVector<const TypeInfo *, 1> results;
  uint64_t hash = 0;
  uint32_t id = 0;   // the same in every context of this process
  uint32_t refs = 0; // nodes and gradient nodes
  const ir::WeftOp::Concept *rules = nullptr;
  bool differentiable = false;
  bool checks = false; // may end a run: it looks at indices from data, or is a user's kernel
  llvm::ArrayRef<int64_t> saved_operands, saved_results;
  int64_t result_bytes = 0;
  std::string properties_text; // to make them anew in another context
  std::vector<std::shared_ptr<const Derivative>> derivatives;
  Signature *next = nullptr; // with the same hash

  explicit Signature(mlir::OperationName name) : name(name) {}
  ~Signature();
  mlir::OpaqueProperties opaque() const {
    return mlir::OpaqueProperties(properties);
  }
};

// What keys and messages know of a signature after its context is gone.
struct SignatureText {
  std::string name; // "weft.matmul"
  std::string text; // properties and types
  uint32_t operands;
  uint32_t structure;        // the same for signatures that differ in ints only
  std::vector<int64_t> ints; // in the structure's order
};

template <typename... Ops> bool is(const Node *node) {
  mlir::TypeID id = node->signature->name.getTypeID();
  return ((id == mlir::TypeID::get<Ops>()) || ...);
}

// Values of given types that stand for operands, while an op on them tells what its signature is,
// or a derivative rule what it records.
class StandIns {
public:
  explicit StandIns(IrState &ir) : ir_(ir) {}
  ~StandIns();
  StandIns(const StandIns &) = delete;
  StandIns &operator=(const StandIns &) = delete;
  mlir::Value add(const TypeInfo *type);
  llvm::ArrayRef<mlir::Value> values() const {
    return values_;
  }

private:
  IrState &ir_;
  llvm::SmallVector<mlir::Value, 4> values_;
};

class IrState {
public:
  IrState();
  ~IrState();

  mlir::MLIRContext &context() {
    return *context_;
  }
  mlir::Location location(SourceLine *line);
  mlir::RankedTensorType type(const TypeInfo *type);
  // Of a type that ops in this context have.
  const TypeInfo *info(mlir::Type type);

  // The signature of an op on operands of these types that was met before, else null. result: its
  // only result's type; null where the op's own rule says what its results are.
  Signature *find(mlir::OperationName name, mlir::OpaqueProperties properties,
                  llvm::ArrayRef<const TypeInfo *> operands, const TypeInfo *result) const;
  // The signature of an op on stand-ins of these types.
  Signature *intern(mlir::Operation *op, llvm::ArrayRef<const TypeInfo *> operands);
  // A new op at the end of the record.
  Node *enter(Signature *signature, llvm::ArrayRef<Value *> operands, SourceLine *line);
  void release(Signature *signature) {
    --signature->refs;
  }

  // How many distinct types and signatures this context has made: it never frees them.
  int64_t uniqued() const {
    return uniqued_;
  }
  // Makes everything anew in a fresh context.
  void renew();

  const SignatureText &text(uint32_t id) const {
    return *texts_[id];
  }
  // What the ints of a structure are.
  const std::vector<IntPosition> &positions(uint32_t structure) const {
    return structures_[structure].positions;
  }
  // Its op, properties, dtypes and ranks: the same in every process.
  const std::string &structure_text(uint32_t structure) const {
    return *structures_[structure].text;
  }
  // The first diagnostic since it was last taken.
  std::string take_diagnostic();

private:
  void open();
  void fill(Signature *signature, mlir::Operation *op);

  std::unique_ptr<mlir::MLIRContext> context_;
  llvm::DenseMap<const void *, const TypeInfo *> types_;
  llvm::DenseMap<uint64_t, Signature *> signatures_;
  std::unordered_map<std::string, uint32_t> ids_;
  std::vector<std::unique_ptr<SignatureText>> texts_;
  std::unordered_map<std::string, uint32_t> structure_ids_;
  struct Structure {
    std::vector<IntPosition> positions;
    const std::string *text; // in structure_ids_
  };
  std::deque<Structure> structures_;
  std::vector<SourceLine *> lines_; // with a location in this context
  std::string diagnostic_;
  int64_t uniqued_ = 0;
};

} // namespace weft::recorder
