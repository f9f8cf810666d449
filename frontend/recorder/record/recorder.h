// The place where calls become ops: one record of weft ops per process, guarded by one lock. This
// header is what the rest of the frontend sees of it; MLIR stays behind it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "frontend/recorder/record/lock.h"
#include "frontend/recorder/record/values.h"
#include "weft/config.h"
#include "weft/explain.h"

namespace weft::recorder {

class IrState;
namespace attributes {
enum class Reduction : uint32_t;
}

// What a thread knows of the call that it is in.
struct CurrentCall {
  const char *op = nullptr; // null outside of a session
  Location location;
  SourceLine *line = nullptr; // counts as a user
  uint64_t first_history = 0;
  const ModuleName *module = nullptr;
};

// Every public call opens one: takes the lock and says where the call stands. Nested ones keep the
// outer location.
class Session : Scope {
public:
  Session(const char *op, Location location);
  ~Session();

  // The name and the location that errors show: the outermost session's.
  static const char *op();
  static Location location();
  // In the module that the call belongs to.
  static SourceLine *line();
  // Without it.
  static SourceLine *plain_line();
  // The call reads a tensor of this name: it is its module's, unless it is one's that is not around
  // it.
  static void note_read(const TensorName &name);
  // Histories with a lower GradNode::number are older than the outermost session.
  static uint64_t first_history();

  // While it lives, this thread is in no session: a function of the user records, whose ops have
  // names and lines of their own.
  class Outside : Scope {
  public:
    Outside();
    ~Outside();

  private:
    CurrentCall call_;
  };

private:
  bool outermost_;
};

// Throws at the session's location: "OP: message".
[[noreturn]] void fail(ErrorKind kind, const std::string &message);

// "float32 [2, 3]"
std::string describe(const Var &x);
std::string describe(const TypeInfo &type);
// "float32 [2, 3] on cpu:0": describe() names every device but the host.
std::string placed(const TypeInfo &type);

// Where a call makes what it makes of no tensor: on the device of the first tensor that it reads,
// until then on the thread's.
struct CallDevice {
  uint8_t device = 0;
  bool is_known = false; // a tensor has decided
};
extern constinit thread_local CallDevice call_device;
extern constinit thread_local int16_t thread_device; // a DeviceScope's; -1: Config::device
// A tensor without dimensions on the host goes where the others are: it decides only until another
// one does.
inline bool goes_along(const TypeInfo &type) {
  return type.device == 0 && type.dims.empty();
}
// The call reads a tensor of this type.
inline void note_device(const TypeInfo &type) {
  if ((type.device | call_device.device) != 0 && !call_device.is_known)
    call_device = {type.device, !goes_along(type)};
}
// "cpu:1"
std::string device_text(uint8_t device);
// Whether the host reads and writes the device's memory.
bool host_reads(uint8_t device);
// The thread's: its innermost DeviceScope's, else Config::device.
uint8_t default_device();

const TypeInfo *type_info(DType dtype, const Shape &dims, uint8_t device);
inline const TypeInfo *type_info(DType dtype, const Shape &dims) {
  return type_info(dtype, dims, call_device.device);
}

// Where the ranks of a job are threads of this process, the thread's rank: its collectives are its
// own, since a rank that ran another's would wait for itself. 0 for all other threads.
extern constinit thread_local uint32_t thread_rank;

// Whether calls keep history.
extern constinit thread_local bool thread_grad_mode;
inline bool grad_mode() {
  return thread_grad_mode;
}
// While it lives, calls keep history or not: those that record a derivative.
class DerivativeScope : Scope {
public:
  explicit DerivativeScope(bool with_history) : before_(thread_grad_mode) {
    thread_grad_mode = with_history;
  }
  ~DerivativeScope() {
    thread_grad_mode = before_;
  }

private:
  bool before_;
};

// --- Parts of tensors (frontend/sharding) ---
// x cut as `type` is, which has its dtype, dims and device; x itself where that changes nothing.
Var resharded(const Var &x, const TypeInfo *type);
// The same for a gradient that this call has recorded: where it is a sum over ranks that nobody
// else reads, parts are added up instead.
Var resharded_gradient(const Var &gradient, const TypeInfo *type);
// What tells sums over ranks apart that can be exchanged as one.
struct RankSum {
  std::string group;
  attributes::Reduction reduction;
  int64_t ranks;
  DType dtype;
  uint8_t device;
  bool operator==(const RankSum &) const = default;
};
// Of a gradient, which has one handle, that is such a sum and that nobody else has read.
std::optional<RankSum> rank_sum_of(const Var &gradient);
// Such a gradient before ranks add it up: its value is what this rank has. That the sum was
// recorded is forgotten, so that no evaluation exchanges it.
Var withdrawn(Var gradient);
// Has ranks add up gradients of one kind, given as withdrawn() gives them, which are of these types
// then: one exchange, which is recorded now.
void exchange_together(const RankSum &sum, std::span<Var> gradients,
                       std::span<const TypeInfo *const> types);
// "cut over (data, -)"
std::string describe(const Sharding &sharding);

// --- Leaves ---
Var make_leaf(const TypeInfo *type, std::shared_ptr<runtime::Buffer> buffer, bool borrowed = false);
// x in memory of its own, where it lies in what from_blob was lent. Not while a function is
// recorded: each call has the memory's contents of its time.
Var owned(Var x);
// The scalar's bytes in dtype; numpy's conversions.
uint64_t scalar_bits(const Scalar &scalar, DType dtype);
// A rank-0 leaf that holds the scalar, converted to dtype.
Var make_scalar(Scalar scalar, DType dtype);
// As make_scalar, but a constant of the program until a second value is seen at this session's line
// for operand position `operand`.
Var make_specialized_scalar(Scalar scalar, DType dtype, int operand);
// In the device's memory.
std::shared_ptr<runtime::Buffer> allocate_buffer(int64_t bytes, uint8_t device);
// A buffer there with these bytes.
std::shared_ptr<runtime::Buffer> buffer_of(const void *bytes, int64_t count, uint8_t device);

// --- Writes in place ---
// The storage is about to be given the recorded or computed value: what it held is what it goes
// back to if the run fails.
void note_write(TensorImpl &storage, Value *value);
// It never goes back.
void forget_write(TensorImpl &storage);
// Whether a failed run has lost the value of the leaf, and somebody was told.
bool is_lost(const Value *leaf);

// --- History ---
GradRef make_grad_leaf(const TypeInfo *type);
// How many results the call that the node stands for has.
uint32_t result_count(const GradNode &node);
// What a slice in steps of 1 takes of its operand: [start, limit) of one dim, all of the others.
// Nothing for any other call.
struct Band {
  int64_t dim, start, limit;
  const TypeInfo *from; // the operand's
};
std::optional<Band> band_of(const GradNode &node);
// Of a product of few rows, x [M, K] as it lies times y [K, N] (or, transposed, [N, K]), M at most
// `rows`: whether y is transposed. Nothing for any other call.
std::optional<bool> row_product_of(const GradNode &node, int64_t rows);
// The gradients of the node's operands for the cotangents of its results (null Var: zero). Null
// where the edge wants none. With history, the recorded ops can be differentiated again.
// `except`: an operand whose gradient is not wanted.
std::vector<Var> differentiate(GradNode &node, std::span<const Var> cotangents, bool with_history,
                               std::optional<uint32_t> except = std::nullopt);
// "; OP (LINE) has no derivative: REASON", to end an error: of those that are recorded and not run,
// the nearest op that gives numbers of numbers and has none by its record. What it gives has no
// history, as in PyTorch. Empty where there is none.
std::string without_derivative(const Var &output);

// --- Functions that are recorded as a whole (frontend/programs) ---
// Whether the line is one of the standard library's headers, where a std::function calls what it
// holds: it says nothing to the user.
bool is_of_library(const Location &line);
// Sees what a function touches while this thread records it.
class Trace {
public:
  Trace(const char *what, Location line) : what(what), line(line) {}
  virtual ~Trace() = default;
  virtual void on_read(TensorImpl *storage) = 0;
  virtual void on_write(TensorImpl *storage) = 0;
  // What detach() made is about to get another history of its own (View::own).
  virtual void on_own_history(TensorImpl *detached) = 0;
  virtual void on_grad(GradNode *leaf) = 0;
  // Of set_requires_grad(); its storage is begun (note_requires_grad).
  virtual void on_requires_grad(TensorImpl *tensor, bool changes) = 0;

  const char *const what;  // "jit" or "trace"
  const Location line;     // the user's, who has the function recorded
  uint32_t tracer = 0;     // Node::tracer of what is recorded
  bool evaluating = false; // it computes what was recorded before the function
  bool many_sizes = false; // it must record the same ops at other sizes
  // Its program has derivatives of its own, which follow from the ops: where a gradient by an input
  // stops, an op says so (without_gradient).
  bool has_derivatives = false;
  // It was called where no history is kept: its program has a derivative all the same.
  const bool without_history = !grad_mode();
  std::unordered_map<Value *, std::pair<ValueRef, Var>>
      without_gradient;    // of what was made without history
  std::string exchange;    // where the function exchanges with other ranks first
  // GradNode::number: the function's own have this one or a higher one.
  uint64_t first_gradient = 0;
};
extern constinit thread_local Trace *thread_trace; // null outside of such a function
// Null also where its program has no derivatives.
inline Trace *trace_with_derivatives() {
  return thread_trace && thread_trace->has_derivatives ? thread_trace : nullptr;
}
// Null also while the trace evaluates: then all is as outside.
inline Trace *active_trace() {
  return thread_trace && !thread_trace->evaluating ? thread_trace : nullptr;
}

} // namespace weft::recorder
