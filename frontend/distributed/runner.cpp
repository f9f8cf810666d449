// Carries recorded collectives out: a run for each, on the executor of its group.
#include "frontend/distributed/runner.h"

#include <map>
#include <mutex>

#include "frontend/recorder/runs/exchange.h"
#include "runtime/executable/run_failure.h"
#include "runtime/memory/buffer.h"

namespace weft::distributed {
namespace {

using recorder::RecordedCollective;
using runtime::Collective;

absl::Status does_not_come(const runtime::Communicator &job, const std::string &call) {
  return absl::AbortedError("rank " + std::to_string(job.world()->rank()) + " does not come to " +
                            call);
}

// A call that is to come: other ranks wait for it. The job ends where it does not come, since what
// it takes was lost.
class Turn : public runtime::RunResources {
public:
  Turn(std::shared_ptr<runtime::Communicator> job, const runtime::CollectiveCall &call)
      : job_(std::move(job)), what_(describe(call) + " at " + call.place) {}
  ~Turn() override {
    if (job_)
      job_->fail(does_not_come(*job_, what_ + ": " + recorder::kLostOperand));
  }
  void take() {
    job_ = nullptr;
  }

private:
  std::shared_ptr<runtime::Communicator> job_;
  std::string what_;
};

// Knows the runtime's group alone: the executor that runs it belongs to the library's.
class CollectiveExecutable : public runtime::Executable {
public:
  CollectiveExecutable(const GroupState &state, runtime::CollectiveCall call, int64_t bytes_in,
                       int64_t bytes_out, bool in_place)
      : job_(state.job), group_(state.group), call_(std::move(call)) {
    input_.bytes = bytes_in;
    output_.bytes = bytes_out;
    input_.donatable = in_place;
    output_.donated_input = in_place ? 0 : -1;
  }

  std::span<const runtime::InputSpec> input_specs() const override {
    return {&input_, 1};
  }
  std::span<const runtime::OutputSpec> output_specs() const override {
    return {&output_, 1};
  }
  int64_t arena_bytes() const override {
    return 0;
  }
  // It waits for other ranks: never on the caller's thread.
  bool is_serial() const override {
    return false;
  }
  absl::StatusOr<std::unique_ptr<runtime::RunResources>>
  acquire(const runtime::RunContext &) override {
    return std::make_unique<Turn>(job_, call_);
  }

  absl::Status run(const runtime::RunContext &, runtime::RunResources &turn,
                   std::span<runtime::Buffer *const> inputs,
                   std::span<runtime::Buffer *const> outputs) override {
    static_cast<Turn &>(turn).take();
    runtime::CollectiveCall call = call_;
    call.input = inputs[0]->data();
    call.output = outputs[0]->data();
    absl::Status status = group_->run(std::move(call));
    if (status.ok())
      return status;
    status = runtime::with_location(status, call_.place);
    return input_.donatable ? status : runtime::with_kept_inputs(std::move(status));
  }

private:
  std::shared_ptr<runtime::Communicator> job_;
  std::shared_ptr<runtime::Group> group_;
  runtime::CollectiveCall call_;
  runtime::InputSpec input_;
  runtime::OutputSpec output_;
};

class Runner : public recorder::CollectiveRunner {
public:
  static Runner &instance() {
    static auto *runner = [] {
      auto *made = new Runner;
      recorder::set_collective_runner(made);
      return made;
    }();
    return *runner;
  }

  void add(std::shared_ptr<GroupState> state) {
    std::lock_guard lock(mutex_);
    std::string id = state->id;
    groups_[std::move(id)] = std::move(state);
  }
  void remove(uint32_t rank) {
    std::vector<std::shared_ptr<GroupState>> last = of(rank); // their end waits for what runs
    std::lock_guard lock(mutex_);
    std::erase_if(groups_, [&](const auto &entry) { return entry.second->rank == rank; });
  }
  std::vector<std::shared_ptr<GroupState>> of(uint32_t rank) {
    std::vector<std::shared_ptr<GroupState>> found;
    std::lock_guard lock(mutex_);
    for (const auto &[id, state] : groups_)
      if (state->rank == rank)
        found.push_back(state);
    return found;
  }

  std::vector<std::shared_ptr<runtime::Executor>> executors() override {
    std::vector<std::shared_ptr<runtime::Executor>> found;
    for (const std::shared_ptr<GroupState> &state : of(recorder::thread_rank))
      found.push_back(state->calls);
    return found;
  }

  void abandon(const std::string &group, const std::string &call_and_why) override {
    std::shared_ptr<GroupState> state = find(group);
    if (!state)
      return;
    // After the calls before it.
    state->calls->submit([job = state->job, call_and_why](const runtime::RunContext &) {
      job->fail(does_not_come(*job, call_and_why));
      return absl::OkStatus();
    });
  }

  absl::Status prepare(const RecordedCollective &recorded, recorder::FoundProgram &found) override {
    std::shared_ptr<GroupState> state = find(recorded.group);
    if (!state)
      return absl::FailedPreconditionError("the group has ended");
    runtime::CollectiveCall call = recorded.call;
    if (call.kind == Collective::kReduceScatter || call.kind == Collective::kAllToAll)
      call.count /= state->group->size(); // of one part
    bool in_place = recorded.may_overwrite &&
                    (call.kind == Collective::kAllReduce || call.kind == Collective::kBroadcast);
    found.executor = state->calls;
    found.program->executable = std::make_shared<CollectiveExecutable>(
        *state, std::move(call), recorded.bytes_in, recorded.bytes_out, in_place);
    return absl::OkStatus();
  }

  std::shared_ptr<GroupState> find(const std::string &id) {
    std::lock_guard lock(mutex_);
    auto found = groups_.find(id);
    return found == groups_.end() ? nullptr : found->second;
  }

private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<GroupState>> groups_;
};

} // namespace

void register_group(std::shared_ptr<GroupState> state) {
  Runner::instance().add(std::move(state));
}
std::weak_ptr<GroupState> find_group(const std::string &id) {
  return Runner::instance().find(id);
}
void forget_groups(uint32_t rank) {
  Runner::instance().remove(rank);
}
size_t count_groups(uint32_t rank) {
  return Runner::instance().of(rank).size();
}
void finish_groups() {
  for (const std::shared_ptr<runtime::Executor> &executor : Runner::instance().executors())
    executor->synchronize();
}

} // namespace weft::distributed
