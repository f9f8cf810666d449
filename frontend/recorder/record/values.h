// What the recorder keeps beside the IR: values, the ops that define them, and the history that
// derivatives need. Everything here is touched under the recorder's lock only, and nothing here
// knows MLIR: types and locations are opaque pointers into the current context.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "frontend/recorder/record/interned.h"
#include "frontend/recorder/record/module_name.h"
#include "frontend/recorder/record/pool.h"
#include "weft/tensor.h"

namespace weft::runtime {
class Buffer;
}

namespace weft::recorder {

struct Node;
struct GradNode;
class TensorImpl;
class EvaluationRecord;
struct Sharding;

struct TypeKey {
  DType dtype;
  const Shape &dims;
  uint8_t device;
  const Sharding *sharding = nullptr;
  bool operator==(const TypeKey &other) const {
    return dtype == other.dtype && device == other.device && sharding == other.sharding &&
           dims == other.dims;
  }
};

struct TypeInfo;
using TypeRef = Ref<const TypeInfo>;

// A dtype with a static shape, on a device. Where ranks have parts of the tensor, dims and elements
// are the whole tensor's.
struct TypeInfo : Interned {
  DType dtype;
  uint8_t device; // its index (weft/device.h)
  Shape dims;
  int64_t elements;
  int64_t bytes;                            // in this rank's memory
  std::shared_ptr<const Sharding> sharding; // null: the rank has all of it
  TypeRef part;                             // what the rank has; null as `sharding` is
  mutable const void *ir = nullptr;         // the mlir::Type in the current context
  int64_t ndim() const {
    return std::ssize(dims);
  }
  TypeKey key() const {
    return {dtype, dims, device, sharding.get()};
  }
  static size_t hash(const TypeKey &key);
};
inline void unused(const TypeInfo &) {}

// A literal that programs have as a constant until a second value of it is seen.
struct SpecializedSite {
  int operand;
  DType dtype;
  uint64_t bits;
  bool parameter = false; // a second value was seen
};

struct LineKey {
  const char *file; // as the compiler has it: compared by address, and never read
  uint32_t line, column;
  const ModuleName *module = nullptr;
  bool operator==(const LineKey &) const = default;
};

struct SourceLine;
using LineRef = Ref<SourceLine>;

// A source line of the user's, in one of the modules that it is run for.
struct SourceLine : Interned {
  LineKey where;
  Ref<const ModuleName> module; // null where the call is in none, as far as it is known
  LineRef plain;                // the line itself, where there is a module
  std::string file;
  std::string in_class;     // of a line without a module: the class whose member's it is
  const void *ir = nullptr; // of such a line: the mlir::Location in the current context
  // The same with the path of a module, and what it was read for.
  const void *named_ir = nullptr;
  const ModuleName *named_for = nullptr;
  uint64_t named_at = 0;
  std::vector<SpecializedSite> sites; // of the literals in it, where there is no module
  bool keeps_values = false; // what it records is no temporary of its own (temporaries.cpp); alike
  LineKey key() const {
    return where;
  }
  SourceLine &without_module() {
    return plain ? *plain : *this;
  }
  // "train.cpp:12"
  std::string place() const {
    return file + ":" + std::to_string(where.line);
  }
  static size_t hash(const LineKey &key);
};
inline void unused(SourceLine &) {}

// A buffer and the number of values that share it: one that a single dead value owns may be written
// by the next program.
struct Cell {
  std::shared_ptr<runtime::Buffer> buffer;
  uint32_t owners = 0;
  uint64_t used_contents = 0; // what the buffer held when a slice last read it
  // Who may go back to it (Before), and keeps the cell for that: a storage, which may hold the
  // buffer as well, or a run, which holds the memory itself.
  enum Keeper : uint8_t { kStorage, kHoldingStorage, kRun };
  std::array<uint32_t, 3> keepers{};
  Ref<const TensorName> name = {}; // of the parameter or buffer that it was read as last
  bool has_writer = false;         // a pointer from mutable_data() may still write it
  bool borrowed = false; // the user's own memory, or memory that a pointer from data() may still
                         // read: never donated
  bool lent = false; // by from_blob's caller, who may write it or take it back: nothing else but
                     // what stands for that tensor lies in it, and no call writes it
  // What data() gave of memory that the host does not read.
  std::shared_ptr<runtime::Buffer> on_host = nullptr;

  uint32_t keeping_storages() const {
    return keepers[kStorage] + keepers[kHoldingStorage];
  }
  bool has_keepers() const {
    return keeping_storages() + keepers[kRun] > 0;
  }
};

// One SSA value: the result of a recorded op, or a leaf (a buffer in memory or in flight, or a
// scalar).
struct Value : Pooled<Value> {
  explicit Value(const TypeInfo *type) : type(type) {}

  TypeRef type;
  uint32_t handles = 0; // ValueRefs, by tensors and saved values
  uint32_t uses = 0;    // operands of recorded ops
  uint32_t weak = 0;    // WeakRefs: caches of views compute it again when it is gone
  uint32_t index = 0;   // which result of `node`
  Node *node = nullptr; // the op that defines it; null for a leaf, and when it is gone
  Cell *cell = nullptr; // of a leaf
  std::shared_ptr<EvaluationRecord> evaluation; // what computed it
  bool is_scalar = false;                       // a leaf whose value is `bits`
  bool was_constant = false; // such a leaf, at the first call where a literal stopped being a
                             // constant of the program
  bool is_saved = false;     // by a history: a derivative may read it
  bool withdrawn = false;    // inside a claimed slice, or being donated: views must not pick it up
                             // again
  bool is_left = false;      // a leaf that recorded ops alone keep: see Recorder::input_bytes
  bool of_input = false;     // in a trace with derivatives: an input, or computed of one ...
  bool no_grad = false;      // ... without history
  uint8_t stability = 0;     // scratch of slicing, as are the next two and `epoch`
  uint32_t slice_uses = 0;
  uint32_t number = 0;
  uint64_t bits = 0;             // a scalar's bytes, in its dtype
  TensorImpl *writers = nullptr; // of a recorded value: the storages that were given it in place
                                 // and can go back (undo.h), as a list
  uint64_t epoch = 0;

  bool gone() const {
    return !node && !cell && !is_scalar;
  }
  bool is_leaf() const {
    return !node;
  }
};

// Makes the value an output of the slice that computes it.
using ValueRef = Ref<Value>;
inline void retain(Value &value) {
  UnderLock lock;
  ++value.handles;
}
void release(Value &value);
// A view's cache, or what may go back, lets go of a value; frees it when it was the last that knew
// it.
void release_weak(Value &value);
struct WeaklyCounted {
  static void add(Value &value) {
    UnderLock lock;
    ++value.weak;
  }
  static void drop(Value &value) {
    release_weak(value);
  }
};
// Knows the value, which may be gone.
using WeakRef = Ref<Value, WeaklyCounted>;

using GradRef = Ref<GradNode>;
void retain(GradNode &node);
void release(GradNode &node);

// What a storage held before writes in place that are yet to be computed. It does not keep the
// memory from becoming a result's: a run that ends at a check of an index leaves what is in it
// (undo.h).
class Before {
public:
  Before() = default;
  Before(Value *leaf, Cell::Keeper keeper);
  Before(Before &&other) noexcept = default;
  Before &operator=(Before other) noexcept {
    std::swap(value_, other.value_);
    std::swap(cell_, other.cell_);
    std::swap(keeper_, other.keeper_);
    return *this;
  }
  ~Before() {
    if (value_)
      release();
  }
  // From a storage that may lose the memory to one that holds it, since what is written may fail
  // before it is read; and from either to a run. Nothing where it is there or further.
  void give_to(Cell::Keeper keeper);

  explicit operator bool() const {
    return static_cast<bool>(value_);
  }
  Value *value() const {
    return value_;
  } // may be gone
  Cell *cell() const {
    return cell_;
  } // null for a scalar

private:
  void release();

  WeakRef value_; // null: nothing
  Cell *cell_ = nullptr;
  Cell::Keeper keeper_ = Cell::kStorage;
};

// A value with its history: result `index` of `grad`, or nothing to differentiate.
struct Var {
  ValueRef value;
  GradRef grad = {};
  uint32_t grad_index = 0;

  const TypeInfo &type() const {
    return *value->type;
  }
  DType dtype() const {
    return value->type->dtype;
  }
  const Shape &dims() const {
    return value->type->dims;
  }
  uint8_t device() const {
    return value->type->device;
  }
  int64_t ndim() const {
    return value->type->ndim();
  }
  explicit operator bool() const {
    return static_cast<bool>(value);
  }
  Var without_history() const {
    return Var{value};
  }
};

// Everything about an op but its operands: name, properties, types. One object for each in use.
struct Signature; // ir_state.h
using SignatureRef = Ref<Signature>;

// Node::tracer of what is left of a recording that has ended.
inline constexpr uint32_t kEnded = ~uint32_t(0);

// One recorded op.
struct Node : Pooled<Node> {
  SignatureRef signature;
  LineRef line;
  uint64_t number = 0; // in the order of recording
  uint64_t epoch = 0;  // of the last walk that saw it
  uint32_t live_results = 0;
  bool claimed = false;
  uint32_t tracer = 0;   // the recording of a function that alone may use it; 0 for none, kEnded
                         // after that: nobody may
  bool may_fail = false; // it checks indices, or reads what recorded ops that do compute
  bool stays = false;    // it was computed for others, and stayed recorded (temporaries.cpp)
  bool lost = false;     // it reads, maybe through others, what a failed run has lost
  uint32_t rank = 0;     // of the thread that recorded it, where ranks are threads (thread_rank)
  absl::InlinedVector<Value *, 3> operands; // each counts as a use
  absl::InlinedVector<Value *, 1> results;  // null once nobody refers to it
  LineRef again; // it computes again what a checkpoint did not keep: the checkpoint's line
  Node *previous = nullptr, *next = nullptr; // all live ops, in order

  // Whether a cut may compute it that was not asked for it.
  bool is_open() const {
    return !claimed && !tracer && !lost;
  }
};

struct GradEdge {
  GradRef node;
  uint32_t index = 0;
};

struct Checkpoint;

// A saved value that is not kept: value `number` of the checkpoint, which computes it again.
struct GivenUp {
  std::shared_ptr<Checkpoint> checkpoint;
  uint32_t number;
  uint32_t index; // in GradNode::saved
};

// What is done with the gradient of a result once all of it is there: a function of the user's
// makes another one of it, or it is added to what a tensor keeps (retain_grad).
struct GradHook {
  uint32_t index = 0;  // of the result
  unsigned number = 0; // by which it is removed
  TypeRef type;        // the result's
  // Shared by the copies that a backward makes: a function may have a state.
  std::shared_ptr<std::function<Tensor(const Tensor &)>> function;
  GradRef kept; // where there is no function: a leaf, where the gradient adds up
};

// A call whose derivative can be recorded, or (signature null) a leaf where gradients add up.
struct GradNode : Pooled<GradNode> {
  uint32_t refs = 0;
  uint64_t number = 0; // higher than that of all its edges
  SignatureRef signature;
  LineRef line;
  bool released = false;
  // The derivative by each edge is 0: of a comparison, or of what was overwritten.
  bool is_flat = false;
  absl::InlinedVector<GradEdge, 2> edges; // one an operand; null where no gradient is wanted
  absl::InlinedVector<ValueRef, 3> saved; // operands, then results; null those that are not
  std::vector<GivenUp> given_up;          // saved ones that are null for now (checkpoint.h)
  TypeRef leaf_type;
  Tensor grad;                                  // of a leaf
  Ref<const TensorName> name = {};              // of the parameter that it is the leaf of
  std::unique_ptr<std::vector<GradHook>> hooks; // mostly none

  bool is_leaf() const {
    return !signature;
  }
};

} // namespace weft::recorder
