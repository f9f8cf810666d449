#include "frontend/distributed/group_state.h"

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

#include "frontend/compile/environment.h"
#include "frontend/distributed/limits.h"
#include "frontend/distributed/runner.h"
#include "frontend/recorder/record/recorder.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/recorder/runs/exchange.h"
#include "frontend/recorder/runs/executors.h"
#include "runtime/executor/device.h"
#include "runtime/memory/system_allocator.h"
#include "weft/distributed/collectives.h"

namespace weft::distributed {
namespace {

using runtime::Communicator;

[[noreturn]] void fail(const char *op, ErrorKind kind, const std::string &what, Location location) {
  fail_at(location, kind, std::string(op) + ": " + what);
}
[[noreturn]] void fail(const char *op, const absl::Status &status, Location location) {
  fail(op, absl::IsInvalidArgument(status) ? ErrorKind::kValue : ErrorKind::kRun,
       std::string(status.message()), location);
}

// The process's job, and, in run_ranks(), that of the thread's rank.
std::mutex process_mutex;
Group process_world;
thread_local Group thread_world;

Group make_group(std::shared_ptr<Communicator> job, std::shared_ptr<runtime::Group> group,
                 const std::string &prefix) {
  auto state = std::make_shared<GroupState>();
  state->job = std::move(job);
  state->id = prefix + group->name();
  state->group = std::move(group);
  state->rank = recorder::thread_rank;
  state->calls = std::make_shared<runtime::Executor>(runtime::cpu_device().memory(), 1);
  register_group(state);
  return Group(std::move(state));
}

} // namespace

GroupState &checked(const Group &group, const char *op, Location location) {
  if (!group.defined())
    fail(op, ErrorKind::kState, "the group is undefined: this rank is not one of its ranks",
         location);
  return *group.state();
}

int Group::rank(Location location) const {
  return checked(*this, "rank", location).group->rank();
}
int Group::size(Location location) const {
  return checked(*this, "size", location).group->size();
}
std::string Group::name(Location location) const {
  return checked(*this, "name", location).group->name();
}

Group Group::split(int64_t color, int64_t key, const std::string &name, Location location) const {
  return split_off(*this, color, key, name, "split", "split('" + name + "')", location);
}

absl::Status in_order(GroupState &state, const char *op, Location location,
                      std::function<absl::Status()> call) {
  {
    recorder::Session session(op, location);
    recorder::submit({}, {CutReason::kEval, location});
  }
  return state.calls
      ->submit([call = std::move(call)](const runtime::RunContext &) { return call(); })
      ->wait();
}

Group split_off(const Group &of, int64_t color, int64_t key, const std::string &name,
                const char *op, const std::string &call, Location location) {
  GroupState &state = checked(of, op, location);
  location = CallerScope::resolve(location);
  if (const recorder::Trace *trace = recorder::active_trace())
    fail(op, ErrorKind::kState,
         std::string("ranks wait for each other here, which they cannot while weft::") +
             trace->what + " records the function; make the group or mesh before the call",
         location);
  std::string full;
  if (color >= 0 && count_groups(state.rank) >= kLimits.groups)
    full = "has " + std::to_string(kLimits.groups) +
           " groups, as many as a rank may have: each lives as long as its job; make groups and "
           "meshes once, and keep them";
  std::shared_ptr<runtime::Group> part;
  absl::Status status = in_order(state, op, location, [&]() -> absl::Status {
    if (!full.empty()) { // the other ranks wait for this one
      state.job->fail(absl::AbortedError("rank " + std::to_string(state.job->world()->rank()) +
                                         " does not come to " + call + ": it " + full));
      return absl::OkStatus();
    }
    auto made = state.group->split(
        color, key, state.group->name() + "/" + name,
        std::string(location.file_name()) + ":" + std::to_string(location.line()), call);
    if (made.ok())
      part = *std::move(made);
    return made.status();
  });
  if (!full.empty())
    fail(op, ErrorKind::kState, "this rank " + full, location);
  if (!status.ok())
    fail(op, status, location);
  if (!part)
    return Group();
  // Groups of one split have one name, and this rank is in one of them.
  static std::atomic<int> splits = 0;
  try {
    return make_group(state.job, std::move(part), "#" + std::to_string(++splits) + " ");
  } catch (const std::system_error &error) {
    std::string why = std::string("has no thread for the calls of a group (") + error.what() +
                      "): raise the limit of threads, or make fewer groups";
    state.job->fail(
        absl::AbortedError("rank " + std::to_string(state.job->world()->rank()) + " " + why));
    fail(op, ErrorKind::kRun, "this rank " + why, location);
  }
}

Group init(const JoinOptions &options, Location location) {
  if (thread_world.defined())
    return thread_world;
  recorder::load_plugins(); // they may bring the layer
  std::lock_guard lock(process_mutex);
  if (process_world.defined())
    fail("init", ErrorKind::kState, "this process has joined its job already; world() is its group",
         location);
  auto world = runtime::world_from_environment();
  if (!world.ok())
    fail("init", world.status(), location);
  std::string layer = options.layer;
  if (const char *text = std::getenv("WEFT_COLLECTIVE_LAYER"); layer.empty() && text)
    layer = text;
  auto job = Communicator::connect(*world, layer.empty() ? "gloo" : layer);
  if (!job.ok())
    fail("init", job.status(), location);
  auto shared = std::make_shared<Communicator>(*std::move(job));
  auto group = shared->world();
  // Never destroyed: a group's end would wait for ranks that have gone. But the process leaves in
  // order, so that the others can go on among themselves.
  static auto *own = new std::shared_ptr<Communicator>(shared);
  std::atexit([] {
    finish_groups();
    (*own)->leave();
  });
  static auto *kept = new Group(make_group(std::move(shared), std::move(group), ""));
  return process_world = *kept;
}

bool is_initialized() {
  std::lock_guard lock(process_mutex);
  return thread_world.defined() || process_world.defined();
}

Group world(Location location) {
  if (thread_world.defined())
    return thread_world;
  std::lock_guard lock(process_mutex);
  if (!process_world.defined())
    fail("world", ErrorKind::kState,
         "there is no job yet: weft::distributed::init() joins the one that this process is a rank "
         "of",
         location);
  return process_world;
}

void end_job(const std::exception &error) {
  if (!is_initialized())
    return;
  GroupState &state = *world().state();
  state.job->fail(absl::AbortedError("rank " + std::to_string(state.group->rank()) + " of " +
                                     std::to_string(state.group->size()) +
                                     " ended: " + error.what()));
}

void run_ranks(int ranks, const std::function<void()> &rank, Location location) {
  if (ranks < 1)
    fail("run_ranks", ErrorKind::kValue, "there must be at least one rank", location);
  for (int i = 1; i <= ranks; ++i)
    if (auto device = runtime::find_device("cpu:" + std::to_string(i)); !device.ok())
      fail("run_ranks", ErrorKind::kDevice,
           "each rank has a device of its own, and " + std::string(device.status().message()),
           location);
  if (auto here = runtime::world_of_threads(0, ranks); !here.ok())
    fail("run_ranks", here.status(), location);
  std::vector<std::shared_ptr<runtime::Store>> stores;
  for (std::unique_ptr<runtime::Store> &store : runtime::local_stores(ranks))
    stores.push_back(std::move(store));
  static std::atomic<uint32_t> ranks_so_far = 1;
  uint32_t first_rank = ranks_so_far.fetch_add(static_cast<uint32_t>(ranks));
  std::vector<std::exception_ptr> errors(static_cast<size_t>(ranks));
  // Ranks that meet wait for all others: none begins before it is known that all have threads.
  enum Start { kUnknown, kAllRun, kNoneRuns };
  std::atomic<Start> start = kUnknown;
  auto run_rank = [&](int i) {
    start.wait(kUnknown);
    if (start == kNoneRuns)
      return;
    try {
      auto here = runtime::world_of_threads(i, ranks);
      if (!here.ok())
        fail("run_ranks", here.status(), location);
      auto job = Communicator::connect(*here, "local", stores[static_cast<size_t>(i)]);
      if (!job.ok())
        fail("run_ranks", job.status(), location);
      auto shared = std::make_shared<Communicator>(*std::move(job));
      auto group = shared->world();
      Device own("cpu:" + std::to_string(i + 1));
      DeviceScope scope(own);
      recorder::rank_device = static_cast<int16_t>(own.index());
      recorder::thread_rank = first_rank + static_cast<uint32_t>(i);
      try {
        thread_world = make_group(shared, std::move(group),
                                  "thread " + std::to_string(recorder::thread_rank) + " ");
        rank();
        barrier(thread_world, location); // what it recorded has run before it leaves
      } catch (const std::exception &error) {
        shared->fail(absl::AbortedError("rank " + std::to_string(i) + " ended: " + error.what()));
        throw;
      } catch (...) {
        shared->fail(absl::AbortedError("rank " + std::to_string(i) + " ended by an exception"));
        throw;
      }
    } catch (...) {
      errors[static_cast<size_t>(i)] = std::current_exception();
    }
    uint32_t self = recorder::thread_rank;
    recorder::end_rank();
    recorder::rank_device = -1;
    thread_world = Group();
    if (self != 0)
      forget_groups(self);
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(ranks));
  std::string not_started;
  try {
    for (int i = 0; i < ranks; ++i)
      threads.emplace_back(run_rank, i);
  } catch (const std::exception &error) {
    not_started = std::to_string(threads.size()) + " of " + std::to_string(ranks) +
                  " ranks were started, and there is no thread for the next one (" + error.what() +
                  "); run fewer ranks, or raise the limit of threads (ulimit -u, or the "
                  "container's limit of processes) or of memory";
  }
  start = not_started.empty() ? kAllRun : kNoneRuns;
  start.notify_all();
  for (std::thread &thread : threads)
    thread.join();
  if (!not_started.empty())
    fail("run_ranks", ErrorKind::kRun, not_started, location);
  for (const std::exception_ptr &error : errors)
    if (error)
      std::rethrow_exception(error);
}

} // namespace weft::distributed
