// The place where calls become ops: one record of weft ops per process, guarded by one lock. This
// header is what the rest of the frontend sees of it; MLIR stays behind it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>

#include "frontend/recorder/lock.h"
#include "frontend/recorder/values.h"
#include "weft/config.h"
#include "weft/explain.h"

namespace weft::recorder {

class IrState;
class Launcher;

// Every public call opens one: takes the lock and says where the call stands. Nested ones keep the
// outer location.
class Session {
public:
  Session(const char *op, Location location);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  // The name and the location that errors show: the outermost session's.
  static const char *op();
  static Location location();
  static SourceLine *line();

  // While it lives, this thread is in no session: a function of the user records, whose ops have
  // names and lines of their own.
  class Outside {
  public:
    Outside();
    ~Outside();
    Outside(const Outside &) = delete;
    Outside &operator=(const Outside &) = delete;

  private:
    const char *op_;
    Location location_;
    SourceLine *line_; // counts as a user
  };

private:
  bool outermost_;
};

// Throws at the session's location: "OP: message".
[[noreturn]] void fail(ErrorKind kind, const std::string &message);

// "float32 [2, 3]"
std::string describe(const Var &x);
std::string describe(const TypeInfo &type);

const TypeInfo *type_info(DType dtype, const Shape &dims);

bool grad_mode();
void set_grad_mode(bool on);

// --- Leaves ---
Var make_leaf(const TypeInfo *type, std::shared_ptr<runtime::Buffer> buffer, bool borrowed = false);
// The scalar's bytes in dtype; numpy's conversions.
uint64_t scalar_bits(const Scalar &scalar, DType dtype);
// A rank-0 leaf that holds the scalar, converted to dtype.
Var make_scalar(Scalar scalar, DType dtype);
// As make_scalar, but a constant of the program until a second value is seen at this session's line
// for operand position `operand`.
Var make_specialized_scalar(Scalar scalar, DType dtype, int operand);
std::shared_ptr<runtime::Buffer> allocate_buffer(int64_t bytes);

// --- Evaluation ---
struct EvaluateRequest {
  CutReason reason;
  Location location;
};
// Submits the slice that computes the values; they are leaves afterwards, maybe in flight.
void submit(std::span<Value *const> roots, const EvaluateRequest &request);
// Waits for a leaf's buffer; raises its run's error.
const void *wait_for(Value *leaf, Location location);
// Waits until nothing reads or writes the leaf's buffer, which nobody shares afterwards.
void *make_writable(Value *leaf, Location location);
void synchronize_all();
// After a public call: with WEFT_EAGER=1 computes x, and cuts when a budget is reached.
void after_call(Tensor &x);
// A step's or a backward's end: where a budget may cut.
void mark();

// --- History ---
GradRef make_grad_leaf(const TypeInfo *type);
// The gradients of the node's operands for the cotangents of its results (null Var: zero). Null
// where the edge wants none. With history, the recorded ops can be differentiated again.
// `except`: an operand whose gradient is not wanted.
std::vector<Var> differentiate(GradNode &node, std::span<const Var> cotangents, bool with_history,
                               std::optional<uint32_t> except = std::nullopt);

// --- Functions that are recorded as a whole (frontend/programs) ---
// Sees what a function touches while this thread records it.
class Trace {
public:
  explicit Trace(const char *what) : what(what) {}
  virtual ~Trace() = default;
  virtual void on_read(TensorImpl *storage) = 0;
  virtual void on_write(TensorImpl *storage) = 0;
  virtual void on_grad(GradNode *leaf) = 0;

  const char *const what;  // "jit" or "trace"
  uint32_t tracer = 0;     // Node::tracer of what is recorded
  bool evaluating = false; // it computes what was recorded before the function
};
// This thread's; null outside of such a function.
Trace *&current_trace();
// Null also while the trace evaluates: then all is as outside.
Trace *active_trace();

} // namespace weft::recorder
