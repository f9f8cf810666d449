// The recorder's IR: one block of weft ops in a context of its own, and the tables that make appending to it cheap. Private to this folder.
#pragma once

#include <deque>
#include <memory>
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
  Signature *next = nullptr;   // with the same hash

  explicit Signature(mlir::OperationName name) : name(name) {}
  ~Signature();
  mlir::OpaqueProperties opaque() const { return mlir::OpaqueProperties(properties); }
};

// What keys and messages know of a signature after its context is gone.
struct SignatureText {
  std::string name; // "weft.matmul"
  std::string text; // properties and types
  uint32_t operands;
  uint32_t structure;        // the same for signatures that differ in ints only
  std::vector<int64_t> ints; // in the structure's order
};

inline mlir::Value to_value(void *ir) { return mlir::Value::getFromOpaquePointer(ir); }
inline mlir::Operation *to_op(void *op) { return static_cast<mlir::Operation *>(op); }

class IrState {
public:
  IrState();
  ~IrState();

  mlir::MLIRContext &context() { return *context_; }
  mlir::Block &block() { return *block_; }
  mlir::Location location(SourceLine *line);
  mlir::RankedTensorType type(const TypeInfo *type);
  // Of a type that ops in this context have.
  const TypeInfo *info(mlir::Type type);
  // The value in the IR; a leaf gets its weft.leaf op here.
  mlir::Value value(Value *value);

  // A new op at the end of the block.
  mlir::Operation *create(mlir::OperationState &state);
  // Takes an op of the block into the record. The operands are its operands' values.
  Node *enter(mlir::Operation *op, llvm::ArrayRef<Value *> operands, SourceLine *line);
  void release(Signature *signature) { --signature->refs; }

  // How many distinct types and signatures this context has made: it never frees them.
  int64_t uniqued() const { return uniqued_; }
  // Makes everything anew in a fresh context.
  void renew();

  const SignatureText &text(uint32_t id) const { return *texts_[id]; }
  // What the ints of a structure are.
  const std::vector<IntPosition> &positions(uint32_t structure) const { return structures_[structure].positions; }
  // Its op, properties, dtypes and ranks: the same in every process.
  const std::string &structure_text(uint32_t structure) const { return *structures_[structure].text; }
  // The first diagnostic since it was last taken.
  std::string take_diagnostic();

private:
  void open();
  Signature *intern(mlir::Operation *op, llvm::ArrayRef<Value *> operands);
  void fill(Signature *signature, mlir::Operation *op);

  std::unique_ptr<mlir::MLIRContext> context_;
  std::unique_ptr<mlir::Block> block_;
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
