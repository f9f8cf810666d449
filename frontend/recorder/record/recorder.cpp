// Sessions, leaves, and the deaths of values and ops.
#include <algorithm>
#include <pthread.h>

#include "dialects/weft/reference/HostTensor.h"
#include "frontend/compile/environment.h"
#include "frontend/recorder/record/emit.h"
#include "frontend/recorder/record/limits.h"
#include "frontend/recorder/record/state.h"
#include "runtime/core/caches.h"
#include "runtime/core/float16.h"
#include "runtime/executor/device.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"
#include "runtime/threading/parallel_for.h"
#include "llvm/ADT/Hashing.h"

namespace weft::recorder {

constinit std::atomic<Recorder *> the_recorder{nullptr};
constinit thread_local bool thread_grad_mode = true;
constinit thread_local Trace *thread_trace = nullptr;
constinit thread_local uint32_t thread_rank = 0;

void use_threads(int threads) {
  runtime::cpu_device().executor().set_threads(threads > 0 ? threads : runtime::default_threads());
}

Recorder &make_recorder() {
  // Before, since plugins may use Weft while they are loaded: the recorder is made for them then.
  load_plugins();
  // Never destroyed: tensors in static variables outlive main().
  static Recorder *recorder = [] {
    auto *made = new Recorder;
    made->config = config_from_environment();
    use_threads(made->config.num_threads);
    made->default_device = static_cast<uint8_t>(*runtime::find_device(made->config.device));
    made->ir = std::make_unique<IrState>();
    // The child of a fork() ends with the lock: no thread that is not there may hold it.
    static RecorderMutex &mutex = made->mutex;
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });
    return made;
  }();
  the_recorder.store(recorder, std::memory_order_release);
  return *recorder;
}

template <typename Table> static runtime::CacheUse use_of(const Table &table) {
  return {table.size(), -1, table.most(recorder().config.context_bound), -1};
}

static const char *const kSwept =
    "a call that finds the table full, if nothing refers to the entry";
static const runtime::RegisteredCache types("types", kSwept,
                                            [] { return use_of(recorder().types); });
static const runtime::RegisteredCache lines("source lines", kSwept,
                                            [] { return use_of(recorder().lines); });
static const runtime::RegisteredCache
    pools("records", "nothing: the memory of the longest record serves the next ones",
          [] { return runtime::CacheUse{-1, PoolMemory::bytes, -1, -1}; });

RecorderMutex &recorder_mutex() {
  return recorder().mutex;
}

//===-- Sessions ------------------------------------------------------------------------------===//

namespace {

struct ThreadCall : CurrentCall {
  const ModuleName *in_module = nullptr; // InModule's
};
thread_local ThreadCall current;

// Brings tables back below their bounds. Between calls: whatever refers to a type, a line or the
// context is a handle, or belongs to a call that is giving the lock up meanwhile and has handles to
// what it goes on with. Out of line, as what each call does but seldom is: it would enlarge the
// frame of each call.
[[gnu::noinline]] void tidy() {
  Recorder &r = recorder();
  int64_t bound = r.config.context_bound;
  if (r.ir->uniqued() > bound)
    r.ir->renew();
  if (r.types.crowded(bound))
    r.types.sweep(bound, [&](const TypeInfo &type) { r.ir->forget(type); });
  if (r.lines.crowded(bound))
    r.lines.sweep(bound, [](const SourceLine &) {});
  r.crowded = false;
}

} // namespace

Session::Session(const char *op, Location location) : outermost_(current.op == nullptr) {
  Recorder &r = recorder();
  r.mutex.lock();
  if (!outermost_)
    return;
  static_cast<CurrentCall &>(current) = {op, CallerScope::resolve(location), nullptr,
                                         r.next_grad_number, current.in_module};
  call_device = {thread_device < 0 ? r.default_device.load(std::memory_order_relaxed)
                                   : static_cast<uint8_t>(thread_device),
                 false};
  if (r.crowded && r.replacing == 0)
    tidy();
}

Session::~Session() {
  if (outermost_) {
    current.op = nullptr;
    if (current.line)
      --std::exchange(current.line, nullptr)->users;
  }
  recorder().mutex.unlock();
}

Session::Outside::Outside() : call_(current) {
  current.op = nullptr;
}
Session::Outside::~Outside() {
  static_cast<CurrentCall &>(current) = call_;
}

const ModuleName *thread_module() {
  return current.in_module;
}
const ModuleName *set_thread_module(const ModuleName *module) {
  return std::exchange(current.in_module, module);
}

const char *Session::op() {
  return current.op ? current.op : "weft";
}
Location Session::location() {
  return current.location;
}
uint64_t Session::first_history() {
  return current.first_history;
}
SourceLine *Session::line() {
  if (!current.line || current.line->module != current.module) {
    SourceLine *line = source_line(current.location, current.module);
    ++line->users;
    if (current.line)
      --current.line->users;
    current.line = line;
  }
  return current.line;
}
SourceLine *Session::plain_line() {
  return &Session::line()->without_module();
}
void Session::note_read(const TensorName &name) {
  const ModuleName *module = name.module;
  if (module != current.module && (!current.module || is_inside(module, current.module)))
    current.module = module;
}

size_t SourceLine::hash(const LineKey &key) {
  return (reinterpret_cast<uintptr_t>(key.file) ^ reinterpret_cast<uintptr_t>(key.module) * 3 ^
          key.line ^ uint64_t(key.column) << 32) *
         0x9e3779b97f4a7c15u;
}

// Out of line, see tidy().
[[gnu::noinline]] static SourceLine *new_line(const LineKey &key, Location location) {
  Recorder &r = recorder();
  auto line = std::make_unique<SourceLine>();
  line->where = key;
  line->file = key.file;
  line->module = Ref<const ModuleName>(key.module);
  if (key.module)
    line->plain = source_line(location);
  else
    line->in_class = class_of_function(location.function_name());
  return r.add(r.lines, std::move(line));
}

SourceLine *source_line(Location location, const ModuleName *module) {
  Recorder &r = recorder(); // first, so that the key stays in registers
  LineKey key{location.file_name(), location.line(), location.column(), module};
  SourceLine *known = r.lines.find(key);
  return known ? known : new_line(key, location);
}

void fail(ErrorKind kind, const std::string &message) {
  throw Error(kind, std::string(Session::op()) + ": " + message, Session::location());
}

void check(const absl::Status &status, ErrorKind kind, const std::string &what) {
  if (!status.ok())
    fail(kind, what + std::string(status.message()));
}

std::string describe(const TypeInfo &type) {
  return std::string(name(type.dtype)) + " " + to_string(type.dims) +
         (type.device == 0 ? "" : " on " + device_text(type.device)) +
         (type.sharding ? " " + describe(*type.sharding) : "");
}
std::string describe(const Var &x) {
  return describe(x.type());
}
std::string describe(const Node *node) {
  std::string text = node->signature->name.getStringRef().str();
  if (!node->line->file.empty())
    text += " (" + node->line->place() + ")";
  return text;
}

std::string placed(const TypeInfo &type) {
  return describe(type) + (type.device == 0 ? " on " + device_text(0) : "");
}

//===-- Types and leaves ----------------------------------------------------------------------===//

size_t TypeInfo::hash(const TypeKey &key) {
  return llvm::hash_combine(key.dtype, key.device, key.sharding,
                            llvm::hash_combine_range(key.dims.begin(), key.dims.end()));
}

// What a process of x86-64 can address. Programs add sizes up, which they must not overflow.
static constexpr int64_t kMostBytes = int64_t{1} << 47;

const TypeInfo *type_info(DType dtype, const Shape &dims, uint8_t device) {
  Recorder &r = recorder();
  TypeKey key{dtype, dims, device};
  if (const TypeInfo *known = r.types.find(key))
    return known;
  int64_t elements = 1, bytes;
  for (int64_t dim : dims) {
    if (dim < 0)
      fail(ErrorKind::kShape, "a shape must not be negative, got " + to_string(dims));
    if (__builtin_mul_overflow(elements, dim, &elements))
      fail(ErrorKind::kShape,
           "a tensor of shape " + to_string(dims) + " has more elements than an int64 counts");
  }
  if (__builtin_mul_overflow(elements, byte_size(dtype), &bytes))
    fail(ErrorKind::kShape,
         "a tensor of shape " + to_string(dims) + " has more bytes than an int64 counts");
  if (bytes > kMostBytes)
    fail(ErrorKind::kShape, "a tensor of shape " + to_string(dims) + " takes " +
                                std::to_string(bytes) + " bytes as " + name(dtype) +
                                ", more than a process can address (2^47)");
  auto type = std::make_unique<TypeInfo>();
  type->dtype = dtype;
  type->device = device;
  type->dims = dims;
  type->elements = elements;
  type->bytes = bytes;
  return r.add(r.types, std::move(type));
}

Var make_leaf(const TypeInfo *type, std::shared_ptr<runtime::Buffer> buffer, bool borrowed) {
  auto *value = new Value(type);
  value->cell = new Cell{.buffer = std::move(buffer), .owners = 1, .borrowed = borrowed};
  return Var{value};
}

std::shared_ptr<runtime::Buffer> allocate_buffer(int64_t bytes, uint8_t device) {
  auto made = runtime::device(device).memory()->allocate(bytes, "tensor");
  if (!made.ok())
    throw Error(ErrorKind::kMemory,
                "no memory for a tensor on " + device_text(device) + ": " +
                    std::string(made.status().message()),
                Session::location());
  return *std::move(made);
}

std::shared_ptr<runtime::Buffer> buffer_of(const void *bytes, int64_t count, uint8_t device) {
  std::shared_ptr<runtime::Buffer> buffer = allocate_buffer(count, device);
  check(runtime::device(device).write(buffer->data(), bytes, count), ErrorKind::kRun);
  return buffer;
}

Var owned(Var x) {
  const Cell *cell = x.value->cell;
  if (cell && cell->lent && !active_trace())
    x.value =
        make_leaf(x.value->type, buffer_of(cell->buffer->data(), cell->buffer->bytes(), x.device()))
            .value;
  return x;
}

namespace {

template <typename T> uint64_t bits_of(T x) {
  uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  return bits;
}

} // namespace

uint64_t scalar_bits(const Scalar &scalar, DType dtype) {
  double d = scalar.as_double();
  int64_t i = scalar.dtype == DType::kFloat64 ? ir::saturating_int64(d) : scalar.i; // as weft.cast
  switch (dtype) {
  case DType::kFloat32:
    return bits_of(static_cast<float>(d));
  case DType::kFloat64:
    return bits_of(d);
  case DType::kInt32:
    return bits_of(static_cast<int32_t>(i));
  case DType::kInt64:
    return bits_of(i);
  case DType::kBool:
    return bits_of(static_cast<uint8_t>(scalar.dtype == DType::kFloat64 ? d != 0 : i != 0));
  case DType::kBFloat16:
    return double_to_bfloat16(d);
  case DType::kFloat16:
    return double_to_float16(d);
  case DType::kInt8:
    return bits_of(static_cast<int8_t>(i));
  case DType::kInt16:
    return bits_of(static_cast<int16_t>(i));
  case DType::kUInt8:
    return bits_of(static_cast<uint8_t>(i));
  }
  return 0;
}

Var make_scalar(Scalar scalar, DType dtype) {
  static const Shape kScalarShape;
  static auto *types = new TypeRef[16]; // rank 0, on the host, by dtype: the hot path of literals
  TypeRef &known = types[static_cast<int>(dtype)];
  if (!known)
    known = type_info(dtype, kScalarShape, 0);
  auto *value = new Value(call_device.device == 0 ? known.get() : type_info(dtype, kScalarShape));
  value->is_scalar = true;
  value->bits = scalar_bits(scalar, dtype);
  return Var{value};
}

Var make_specialized_scalar(Scalar scalar, DType dtype, int operand) {
  uint64_t bits = scalar_bits(scalar, dtype);
  std::vector<SpecializedSite> &sites = Session::plain_line()->sites;
  auto site = llvm::find_if(sites, [&](const SpecializedSite &each) {
    return each.operand == operand && each.dtype == dtype;
  });
  if (site == sites.end())
    site = sites.insert(site, {operand, dtype, bits});
  if (site->parameter)
    return make_scalar(scalar, dtype);
  if (site->bits == bits)
    return emit_constant(scalar, dtype);
  site->parameter = true;
  Var x = make_scalar(scalar, dtype);
  x.value->was_constant = true;
  return x;
}

//===-- Deaths --------------------------------------------------------------------------------===//

void drop_unkept(Cell *cell) {
  if (cell->owners > 0)
    return;
  if (!cell->has_keepers())
    delete cell;
  else if (cell->keepers[Cell::kHoldingStorage] == 0)
    cell->buffer.reset();
}

void release_cell(Cell *cell) {
  --cell->owners;
  drop_unkept(cell);
}

// Of a value without uses and handles, which no op defines.
static void drop(Value *value) {
  if (value->cell)
    release_cell(std::exchange(value->cell, nullptr));
  value->is_scalar = false;
  if (value->weak == 0)
    delete value;
}

void erase_node(Node *node) {
  Recorder &r = recorder();
  (node->previous ? node->previous->next : r.first) = node->next;
  (node->next ? node->next->previous : r.last) = node->previous;
  --r.live_ops;
  r.live_bytes -= node->signature->result_bytes;
  for (Value *operand : node->operands) {
    if (--operand->uses > 0)
      continue;
    if (std::exchange(operand->is_left, false)) [[unlikely]] {
      r.input_bytes -= operand->type->bytes;
      r.held_input_bytes = std::min(r.held_input_bytes, r.input_bytes);
    }
    if (operand->handles > 0)
      continue;
    if (operand->node)
      bury(operand);
    else
      drop(operand);
  }
  delete node;
}

void bury(Value *value) {
  ++value->weak; // while it waits, lest the last weak reference to it frees it
  recorder().dying.add(value, [](Value *dead) {
    --dead->weak;
    if (Node *node = std::exchange(dead->node, nullptr)) {
      node->results[dead->index] = nullptr;
      if (--node->live_results == 0 && !node->claimed)
        erase_node(node);
    }
    drop(dead);
  });
}

void release_weak(Value &value) {
  UnderLock lock;
  if (--value.weak == 0 && value.handles == 0 && value.uses == 0)
    delete &value;
}

// Memory that stays anyway does not count: another value's, what a storage may go back to, which
// the storage's next value takes over, and a file's.
void note_left(Value &value) {
  const Cell *cell = value.cell;
  if (value.is_left || value.handles > 0 || value.uses == 0 || !cell || !cell->buffer ||
      cell->owners > 1 || cell->keeping_storages() > 0 || cell->buffer->is_constant())
    return;
  value.is_left = true;
  recorder().input_bytes += value.type->bytes;
}

void release(Value &value) {
  UnderLock lock;
  if (--value.handles > 0)
    return;
  if (value.uses == 0)
    bury(&value);
  else if (!value.node)
    note_left(value);
}

void retain(GradNode &node) {
  UnderLock lock;
  ++node.refs;
}

void release(GradNode &node) {
  UnderLock lock;
  if (--node.refs > 0)
    return;
  recorder().dying_grads.add(&node, [](GradNode *dead) { delete dead; });
}

GradRef make_grad_leaf(const TypeInfo *type) {
  auto *node = new GradNode;
  node->number = recorder().next_grad_number++;
  node->leaf_type = type;
  return node;
}

} // namespace weft::recorder
