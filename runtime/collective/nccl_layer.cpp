// The layer "nccl": NVIDIA's collectives on the memory and streams of CUDA devices, opened at run
// time. Sums are in NCCL's order.
//
// Communicators do not block: what NCCL's ranks do together is waited for here, with an end, and
// beside abort().
#include <dlfcn.h>

#include <chrono>
#include <climits>
#include <cstring>
#include <exception>
#include <list>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "runtime/abi/weft_collective.h"
#include "runtime/core/dtype.h"

namespace weft::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Of nccl.h.
using Comm = void *;
struct UniqueId {
  char bytes[128];
};
struct Config { // as of version 2.18; NCCL fills in what came later
  size_t size;
  unsigned magic, version;
  int blocking, cga_cluster_size, min_ctas, max_ctas;
  const char *net_name;
  int split_share;
};
constexpr int kInProgress = 7, kLeastVersion = 21800;
enum NcclType { kInt8, kUint8, kInt32, kUint32, kInt64, kUint64, kHalf, kFloat, kDouble, kBrain };
enum NcclReduction { kSum, kProduct, kMax, kMin, kAverage };
// Of cuda.h.
constexpr int kMemoryType = 2, kDeviceOrdinal = 9, kDeviceMemory = 2;

#define WEFT_NCCL_FUNCTIONS(F)                                                                     \
  F(GetVersion, (int *))                                                                           \
  F(GetUniqueId, (UniqueId *))                                                                     \
  F(CommInitRankConfig, (Comm *, int, UniqueId, int, Config *))                                    \
  F(CommSplit, (Comm, int, int, Comm *, Config *))                                                 \
  F(CommGetAsyncError, (Comm, int *))                                                              \
  F(CommCuDevice, (Comm, int *))                                                                   \
  F(CommFinalize, (Comm))                                                                          \
  F(CommDestroy, (Comm))                                                                           \
  F(CommAbort, (Comm))                                                                             \
  F(AllReduce, (const void *, void *, size_t, int, int, Comm, void *))                             \
  F(ReduceScatter, (const void *, void *, size_t, int, int, Comm, void *))                         \
  F(AllGather, (const void *, void *, size_t, int, Comm, void *))                                  \
  F(Broadcast, (const void *, void *, size_t, int, int, Comm, void *))                             \
  F(Send, (const void *, size_t, int, int, Comm, void *))                                          \
  F(Recv, (void *, size_t, int, int, Comm, void *))                                                \
  F(GroupStart, ())                                                                                \
  F(GroupEnd, ())

struct Nccl {
#define WEFT_NCCL_MEMBER(name, arguments) int(*name) arguments = nullptr;
  WEFT_NCCL_FUNCTIONS(WEFT_NCCL_MEMBER)
#undef WEFT_NCCL_MEMBER
  const char *(*GetErrorString)(int) = nullptr;
  int (*PointerGetAttribute)(void *, int, unsigned long long) = nullptr;
  std::string wrong; // why it cannot be used

  Nccl() {
    wrong = open();
  }
  static const Nccl &instance() {
    static const Nccl *nccl = new Nccl;
    return *nccl;
  }
  std::string error(int result, const char *what) const {
    return result == 0 || result == kInProgress ? ""
                                                : std::string(what) + ": " + GetErrorString(result);
  }

private:
  std::string open() {
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char *why = dlerror();
      return std::string("NCCL was not found (") + (why ? why : "unknown error") +
             "): install it (NVIDIA's package libnccl2)";
    }
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver)
      return "NVIDIA's driver was not found (libcuda.so.1)";
    std::string missing;
    auto find = [&missing](void *from, const std::string &symbol, auto &function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          dlsym(from, symbol.c_str()));
      if (!function)
        missing += (missing.empty() ? "" : ", ") + symbol;
    };
#define WEFT_FIND(name, arguments) find(library, "nccl" #name, name);
    WEFT_NCCL_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
    find(library, "ncclGetErrorString", GetErrorString);
    find(driver, "cuPointerGetAttribute", PointerGetAttribute);
    int version = 0;
    if (missing.empty() && GetVersion(&version) == 0 && version >= kLeastVersion)
      return "";
    return missing.empty() ? "NCCL has version " + std::to_string(version) + "; it takes " +
                                 std::to_string(kLeastVersion) + " (2.18.0) or later"
                           : "NCCL lacks " + missing + "; it takes version 2.18 or later";
  }
};

Config config() {
  Config config = {};
  config.size = sizeof config;
  config.magic = 0xcafebeef;
  config.version = kLeastVersion;
  config.blocking = 0;
  config.cga_cluster_size = config.min_ctas = config.max_ctas = config.split_share = INT_MIN;
  return config;
}

struct Connection {
  std::mutex mutex; // of all below, and of calls of NCCL
  bool aborted = false;
  Comm world = nullptr;
  std::set<Comm> comms; // the world and groups
  int device = 0;
  milliseconds timeout;
};

const char *keep(std::string text) {
  thread_local std::string kept;
  kept = std::move(text);
  return kept.empty() ? nullptr : kept.c_str();
}

constexpr const char *kClosed = "this rank has closed the connection";

// Waits until NCCL has done what it began; what went wrong otherwise. `comm` may be set meanwhile.
std::string settle(Connection &own, Comm comm, milliseconds timeout, const char *what) {
  const Nccl &nccl = Nccl::instance();
  const auto end = steady_clock::now() + timeout;
  for (;;) {
    {
      std::lock_guard lock(own.mutex);
      if (own.aborted)
        return kClosed;
      int state = 0, result = nccl.CommGetAsyncError(comm, &state);
      if (std::string wrong = nccl.error(result ? result : state, what); !wrong.empty())
        return wrong;
      if (state != kInProgress)
        return "";
    }
    if (steady_clock::now() >= end)
      return std::string(what) + ": not all ranks have come within " +
             std::to_string(timeout.count()) + " ms";
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

// What NCCL may still write after an error: for good.
void leave_to_nccl(std::shared_ptr<void> memory) {
  static std::mutex *mutex = new std::mutex;
  static auto *all = new std::list<std::shared_ptr<void>>;
  std::lock_guard lock(*mutex);
  all->push_back(std::move(memory));
}

void abort(void *connection) {
  auto &own = *static_cast<Connection *>(connection);
  std::lock_guard lock(own.mutex);
  own.aborted = true;
  for (Comm comm : own.comms)
    Nccl::instance().CommAbort(comm);
  own.comms.clear();
}

const char *connect(const weft_collective_world *world, void **connection) {
  try {
    const Nccl &nccl = Nccl::instance();
    if (!nccl.wrong.empty())
      return keep(nccl.wrong);
    UniqueId id = {};
    if (world->rank == 0) {
      if (std::string wrong = nccl.error(nccl.GetUniqueId(&id), "ncclGetUniqueId"); !wrong.empty())
        return keep(wrong);
      if (const char *why = world->set(world->store, "nccl", &id, sizeof id))
        return why;
    } else {
      int64_t bytes = 0;
      if (const char *why = world->get(world->store, "nccl", &id, sizeof id, &bytes))
        return why;
    }
    auto own = std::make_unique<Connection>();
    own->timeout = milliseconds(world->timeout_ms);
    Config given = config();
    std::string wrong =
        nccl.error(nccl.CommInitRankConfig(&own->world, world->size, id, world->rank, &given),
                   "ncclCommInitRankConfig");
    if (own->world)
      own->comms.insert(own->world);
    if (wrong.empty())
      wrong = settle(*own, own->world, own->timeout, "ncclCommInitRankConfig");
    if (wrong.empty())
      wrong = nccl.error(nccl.CommCuDevice(own->world, &own->device), "ncclCommCuDevice");
    if (!wrong.empty()) {
      abort(own.get());
      leave_to_nccl(std::move(own)); // it may yet say there which communicator it has made
      return keep(wrong);
    }
    *connection = own.release();
    return nullptr;
  } catch (const std::exception &error) {
    return keep(error.what());
  }
}

// Empty, or why NCCL cannot have these bytes.
std::string check_memory(const Connection &own, const void *data, int64_t bytes, const char *what) {
  const Nccl &nccl = Nccl::instance();
  for (int64_t at : {int64_t{0}, bytes - 1}) {
    const auto address = reinterpret_cast<unsigned long long>(data) + static_cast<uint64_t>(at);
    unsigned type = 0;
    int device = -1;
    if (nccl.PointerGetAttribute(&type, kMemoryType, address) != 0 || type != kDeviceMemory)
      return std::string("the ") + what +
             " is not in a device's memory: copy it there, or start the call on the host";
    if (nccl.PointerGetAttribute(&device, kDeviceOrdinal, address) != 0 || device != own.device)
      return std::string("the ") + what + " is in the memory of device " + std::to_string(device) +
             ", and this rank is connected with device " + std::to_string(own.device);
  }
  return "";
}

// What NCCL calls a reduction of these elements.
std::string find_reduction(const weft_collective_call &call, int &type, int &reduction) {
  constexpr int kTypes[] = {kFloat, kDouble, kInt32, kInt64, kUint8,
                            kBrain, kHalf,   kInt8,  -1,     kUint8};
  constexpr int kReductions[] = {kSum, kAverage, kMin, kMax, kProduct};
  type = kTypes[call.dtype];
  reduction = kReductions[call.reduction];
  const auto dtype = static_cast<DType>(call.dtype);
  if (dtype == DType::kBool) // 0 or 1
    reduction = reduction == kSum || reduction == kMax ? kMax : kMin;
  return type >= 0 ? "" : "NCCL has no reductions of int16: cast to int32";
}

// The call itself, under the lock.
std::string call_nccl(const weft_collective_call &call, Comm comm, int64_t bytes) {
  const Nccl &nccl = Nccl::instance();
  const auto count = static_cast<size_t>(call.count), all = static_cast<size_t>(bytes);
  int type = 0, reduction = 0;
  if (call.kind == WEFT_ALL_REDUCE || call.kind == WEFT_REDUCE_SCATTER)
    if (std::string wrong = find_reduction(call, type, reduction); !wrong.empty())
      return wrong;
  // What only moves goes as bytes.
  switch (call.kind) {
  case WEFT_ALL_REDUCE:
    return nccl.error(
        nccl.AllReduce(call.input, call.output, count, type, reduction, comm, call.stream),
        "ncclAllReduce");
  case WEFT_REDUCE_SCATTER:
    return nccl.error(
        nccl.ReduceScatter(call.input, call.output, count, type, reduction, comm, call.stream),
        "ncclReduceScatter");
  case WEFT_ALL_GATHER:
    return nccl.error(nccl.AllGather(call.input, call.output, all, kUint8, comm, call.stream),
                      "ncclAllGather");
  case WEFT_BROADCAST: // of other ranks the input is not read
    return nccl.error(nccl.Broadcast(call.input ? call.input : call.output, call.output, all,
                                     kUint8, call.peer, comm, call.stream),
                      "ncclBroadcast");
  case WEFT_SEND:
    return nccl.error(nccl.Send(call.input, all, kUint8, call.peer, comm, call.stream), "ncclSend");
  case WEFT_RECEIVE:
    return nccl.error(nccl.Recv(call.output, all, kUint8, call.peer, comm, call.stream),
                      "ncclRecv");
  case WEFT_ALL_TO_ALL: {
    // Together, since each waits for its counterpart.
    std::string wrong = nccl.error(nccl.GroupStart(), "ncclGroupStart");
    if (!wrong.empty())
      return wrong;
    for (int rank = 0; rank < call.size && wrong.empty(); ++rank) {
      const char *from = static_cast<const char *>(call.input) + rank * bytes;
      char *to = static_cast<char *>(call.output) + rank * bytes;
      wrong = nccl.error(nccl.Send(from, all, kUint8, rank, comm, call.stream), "ncclSend");
      if (wrong.empty())
        wrong = nccl.error(nccl.Recv(to, all, kUint8, rank, comm, call.stream), "ncclRecv");
    }
    std::string end = nccl.error(nccl.GroupEnd(), "ncclGroupEnd");
    return wrong.empty() ? end : wrong;
  }
  default:
    return "NCCL has no collective of kind " + std::to_string(call.kind);
  }
}

const char *enqueue(void *connection, const weft_collective_call *call) {
  auto &own = *static_cast<Connection *>(connection);
  try {
    const int64_t bytes = call->count * byte_size(static_cast<DType>(call->dtype));
    const bool takes_all = call->kind == WEFT_REDUCE_SCATTER || call->kind == WEFT_ALL_TO_ALL,
               gives_all = call->kind == WEFT_ALL_GATHER || call->kind == WEFT_ALL_TO_ALL;
    Comm comm = call->group ? call->group : own.world;
    std::string wrong;
    if (call->input && call->kind != WEFT_RECEIVE)
      wrong = check_memory(own, call->input, bytes * (takes_all ? call->size : 1), "input");
    if (wrong.empty() && call->output && call->kind != WEFT_SEND)
      wrong = check_memory(own, call->output, bytes * (gives_all ? call->size : 1), "output");
    if (!wrong.empty())
      return keep(wrong);
    {
      std::lock_guard lock(own.mutex);
      if (own.aborted)
        return kClosed;
      if (wrong = call_nccl(*call, comm, bytes); !wrong.empty())
        return keep(wrong);
    }
    // Only then is it on the stream, before what comes after it. The first call of a group waits
    // for those of other ranks here.
    return keep(settle(own, comm, own.timeout, "NCCL"));
  } catch (const std::exception &error) {
    return keep(error.what());
  }
}

const char *split(void *connection, void *group, int32_t color, int32_t rank, int64_t timeout_ms,
                  void **made) {
  auto &own = *static_cast<Connection *>(connection);
  try {
    const Nccl &nccl = Nccl::instance();
    Comm parent = group ? group : own.world;
    auto slot = std::make_unique<Comm>(nullptr);
    {
      std::lock_guard lock(own.mutex);
      if (own.aborted)
        return kClosed;
      Config given = config();
      if (std::string wrong =
              nccl.error(nccl.CommSplit(parent, color, rank, slot.get(), &given), "ncclCommSplit");
          !wrong.empty())
        return keep(wrong);
    }
    // Until the parent has settled, it is not known whether there is a new one.
    const milliseconds timeout(timeout_ms);
    if (std::string wrong = settle(own, parent, timeout, "ncclCommSplit"); !wrong.empty()) {
      leave_to_nccl(std::move(slot));
      return keep(wrong);
    }
    Comm comm = *slot;
    if (comm) {
      {
        std::lock_guard lock(own.mutex);
        if (own.aborted)
          return kClosed;
        own.comms.insert(comm);
      }
      if (std::string wrong = settle(own, comm, timeout, "ncclCommSplit"); !wrong.empty())
        return keep(wrong);
    }
    *made = comm;
    return nullptr;
  } catch (const std::exception &error) {
    return keep(error.what());
  }
}

// After what was enqueued.
void end(Connection &own, Comm comm) {
  const Nccl &nccl = Nccl::instance();
  {
    std::lock_guard lock(own.mutex);
    if (own.aborted)
      return;
    nccl.CommFinalize(comm);
  }
  bool settled = settle(own, comm, own.timeout, "ncclCommFinalize").empty();
  std::lock_guard lock(own.mutex);
  if (own.comms.erase(comm))
    settled ? nccl.CommDestroy(comm) : nccl.CommAbort(comm);
}

void leave(void *connection, void *group) {
  end(*static_cast<Connection *>(connection), group);
}

void close(void *connection) {
  std::unique_ptr<Connection> own(static_cast<Connection *>(connection));
  end(*own, own->world);
}

const char *const kRegistered = [] {
  weft_collective_layer layer = {};
  layer.struct_size = sizeof layer;
  layer.version = WEFT_COLLECTIVE_ABI_VERSION;
  layer.name = "nccl";
  layer.connect = connect;
  layer.abort = abort;
  layer.close = close;
  layer.enqueue = enqueue;
  layer.split = split;
  layer.leave = leave;
  return weft_register_collective_layer(&layer);
}();

} // namespace
} // namespace weft::runtime
