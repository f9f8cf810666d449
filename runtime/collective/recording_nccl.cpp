// Records what ranks, which are threads of this process, call; moves no data. What NCCL's ranks do
// together is in progress until all have come.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/collective/recording_nccl.h"

namespace {

struct Comm;

// A communicator of all its ranks.
struct Shared {
  std::string name;
  int size = 0;
  std::vector<Comm *> ranks;      // those that have come
  std::vector<std::string> calls; // in order, as the first rank made them
  struct Request {                // to split it
    Comm *from;
    int color, key;
    void **made;
  };
  std::vector<std::vector<Request>> splits; // by number
};

struct Comm {
  std::shared_ptr<Shared> shared;
  int rank = 0, of_first = 0; // of this communicator; of the first one
  size_t calls = 0, splits = 0;
  bool splitting = false, ended = false, finalized = false;
};

struct UniqueId {
  char bytes[128];
};
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

std::mutex mutex; // of all below
std::map<std::string, std::shared_ptr<Shared>> worlds;
std::vector<std::unique_ptr<Comm>> comms; // kept, so that a late use is seen
std::map<int, std::string> logs;
std::string errors;
int worlds_made = 0, live = 0;
thread_local int open_groups = 0;

void wrong(const std::string &what) {
  errors += what + "\n";
}

Comm *make(std::shared_ptr<Shared> shared, int rank, int of_first) {
  comms.push_back(std::make_unique<Comm>());
  Comm *comm = comms.back().get();
  comm->shared = std::move(shared);
  comm->rank = rank;
  comm->of_first = of_first;
  comm->shared->ranks.push_back(comm);
  ++live;
  return comm;
}

// `same`: what all ranks of the communicator call alike; empty where two ranks call it for each
// other.
int record(void *given, const std::string &same, const std::string &own) {
  std::lock_guard lock(mutex);
  Comm *comm = static_cast<Comm *>(given);
  if (comm->ended)
    wrong("a communicator is used after its end");
  if (comm->splitting || static_cast<int>(comm->shared->ranks.size()) < comm->shared->size)
    wrong("a communicator is used while it is in progress");
  logs[comm->of_first] += comm->shared->name + ": " + own + "\n";
  if (same.empty())
    return 0;
  auto &calls = comm->shared->calls;
  if (comm->calls == calls.size())
    calls.push_back(same);
  else if (calls[comm->calls] != same)
    wrong(comm->shared->name + ": " + calls[comm->calls] + " here, there " + same);
  ++comm->calls;
  return 0;
}

std::string text(const char *format, auto... values) {
  char line[200];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

int end(void *given, bool in_order) {
  std::lock_guard lock(mutex);
  Comm *comm = static_cast<Comm *>(given);
  if (comm->ended)
    wrong("a communicator is ended twice");
  if (in_order && !comm->finalized)
    wrong("a communicator is destroyed before it is finalized");
  comm->ended = true;
  --live;
  logs[comm->of_first] += comm->shared->name + (in_order ? ": destroy\n" : ": abort\n");
  return 0;
}

} // namespace

extern "C" {

const char *weft_recording_nccl_log(int rank) {
  std::lock_guard lock(mutex);
  return logs[rank].c_str();
}
const char *weft_recording_nccl_errors() {
  std::lock_guard lock(mutex);
  return errors.c_str();
}
int weft_recording_nccl_live() {
  std::lock_guard lock(mutex);
  return live;
}
void weft_recording_nccl_reset() {
  std::lock_guard lock(mutex);
  logs.clear();
  errors.clear();
}

int ncclGetVersion(int *version) {
  *version = 21805;
  return 0;
}
const char *ncclGetErrorString(int error) {
  return error == 4 ? "invalid argument" : "an error";
}
int ncclGetUniqueId(UniqueId *id) {
  std::lock_guard lock(mutex);
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->bytes, sizeof id->bytes, "id%d", worlds_made++);
  return 0;
}

int ncclCommInitRankConfig(void **comm, int size, UniqueId id, int rank, Config *config) {
  std::lock_guard lock(mutex);
  if (config->magic != 0xcafebeef || config->blocking != 0)
    return 4;
  std::shared_ptr<Shared> &shared = worlds[id.bytes];
  if (!shared) {
    shared = std::make_shared<Shared>();
    shared->name = "all";
    shared->size = size;
  }
  *comm = make(shared, rank, rank);
  return 7;
}

int ncclCommSplit(void *given, int color, int key, void **made, Config *) {
  std::lock_guard lock(mutex);
  Comm *comm = static_cast<Comm *>(given);
  Shared &shared = *comm->shared;
  *made = nullptr;
  if (shared.splits.size() == comm->splits)
    shared.splits.emplace_back();
  auto &requests = shared.splits[comm->splits++];
  requests.push_back({comm, color, key, made});
  comm->splitting = true;
  if (static_cast<int>(requests.size()) < shared.size)
    return 7;
  std::sort(requests.begin(), requests.end(), [](const auto &a, const auto &b) {
    return a.key != b.key ? a.key < b.key : a.from->rank < b.from->rank;
  });
  std::map<int, std::shared_ptr<Shared>> groups;
  for (const auto &request : requests)
    if (request.color >= 0) {
      std::shared_ptr<Shared> &group = groups[request.color];
      if (!group)
        group = std::make_shared<Shared>();
      group->name = shared.name + "/" + std::to_string(request.color);
      *request.made = make(group, group->size++, request.from->of_first);
    }
  for (const auto &request : requests)
    request.from->splitting = false;
  return 7;
}

int ncclCommGetAsyncError(void *given, int *state) {
  std::lock_guard lock(mutex);
  Comm *comm = static_cast<Comm *>(given);
  if (comm->ended)
    wrong("a communicator is asked after its end");
  bool all = static_cast<int>(comm->shared->ranks.size()) == comm->shared->size;
  // In its first call a rank connects with the others.
  for (const Comm *other : comm->shared->ranks)
    all = all && !(comm->calls == 1 && other->calls == 0);
  *state = comm->splitting || !all ? 7 : 0;
  return 0;
}
int ncclCommCuDevice(void *given, int *device) {
  *device = static_cast<Comm *>(given)->of_first;
  return 0;
}
int ncclCommFinalize(void *given) {
  std::lock_guard lock(mutex);
  static_cast<Comm *>(given)->finalized = true;
  return 7;
}
int ncclCommDestroy(void *comm) {
  return end(comm, true);
}
int ncclCommAbort(void *comm) {
  return end(comm, false);
}

int ncclAllReduce(const void *, void *, size_t count, int type, int op, void *comm, void *stream) {
  std::string call = text("AllReduce %zu type %d op %d", count, type, op);
  return record(comm, call, call + text(" stream %ld", reinterpret_cast<long>(stream)));
}
int ncclReduceScatter(const void *, void *, size_t count, int type, int op, void *comm, void *) {
  std::string call = text("ReduceScatter %zu type %d op %d", count, type, op);
  return record(comm, call, call);
}
int ncclAllGather(const void *, void *, size_t count, int type, void *comm, void *) {
  std::string call = text("AllGather %zu type %d", count, type);
  return record(comm, call, call);
}
int ncclBroadcast(const void *, void *, size_t count, int type, int root, void *comm, void *) {
  std::string call = text("Broadcast %zu type %d from %d", count, type, root);
  return record(comm, call, call);
}
int ncclSend(const void *, size_t count, int type, int peer, void *comm, void *) {
  return record(comm, "",
                text("%sSend %zu type %d to %d", open_groups ? "+" : "", count, type, peer));
}
int ncclRecv(void *, size_t count, int type, int peer, void *comm, void *) {
  return record(comm, "",
                text("%sRecv %zu type %d from %d", open_groups ? "+" : "", count, type, peer));
}
int ncclGroupStart() {
  ++open_groups;
  return 0;
}
int ncclGroupEnd() {
  std::lock_guard lock(mutex);
  if (--open_groups < 0)
    wrong("a group is ended that was not begun");
  return 7;
}

} // extern "C"
