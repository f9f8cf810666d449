// Carries recorded collectives out: a run for each, on the executor of its group.
#include "frontend/distributed/runner.h"

#include <map>
#include <mutex>

#include "frontend/recorder/exchange.h"
#include "runtime/executable/run_failure.h"
#include "runtime/memory/buffer.h"

namespace weft::distributed {
namespace {

using recorder::CollectiveCall;
using runtime::Collective;

// As CollectiveCall::Kind has them.
constexpr Collective kKinds[] = {Collective::kAllReduce, Collective::kAllGather,
                                 Collective::kReduceScatter, Collective::kAllToAll,
                                 Collective::kBroadcast};

class CollectiveExecutable : public runtime::Executable {
public:
  CollectiveExecutable(std::shared_ptr<GroupState> group, runtime::CollectiveCall call,
                       int64_t bytes_in, int64_t bytes_out, bool in_place)
      : group_(std::move(group)), call_(std::move(call)) {
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
    return std::make_unique<runtime::RunResources>();
  }

  absl::Status run(const runtime::RunContext &, runtime::RunResources &,
                   std::span<runtime::Buffer *const> inputs,
                   std::span<runtime::Buffer *const> outputs) override {
    runtime::CollectiveCall call = call_;
    call.input = inputs[0]->data();
    call.output = outputs[0]->data();
    absl::Status status = group_->group->run(std::move(call));
    if (status.ok())
      return status;
    status = runtime::with_location(status, call_.place);
    return input_.donatable ? status : runtime::with_kept_inputs(std::move(status));
  }

private:
  std::shared_ptr<GroupState> group_;
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
  void remove(const std::string &id) {
    std::shared_ptr<GroupState> last; // its end waits for what runs
    std::lock_guard lock(mutex_);
    if (auto found = groups_.find(id); found != groups_.end()) {
      last = std::move(found->second);
      groups_.erase(found);
    }
  }

  absl::StatusOr<recorder::ExchangeRun> prepare(const CollectiveCall &recorded) override {
    std::shared_ptr<GroupState> state;
    {
      std::lock_guard lock(mutex_);
      auto found = groups_.find(recorded.group);
      if (found == groups_.end())
        return absl::FailedPreconditionError("the group has ended");
      state = found->second;
    }
    runtime::CollectiveCall call;
    call.kind = kKinds[static_cast<size_t>(recorded.kind)];
    call.reduction = static_cast<runtime::Reduction>(recorded.reduction);
    call.dtype = recorded.input->dtype;
    call.peer = static_cast<int32_t>(recorded.root);
    call.place = recorded.place;
    // Of one part.
    bool divided = call.kind == Collective::kReduceScatter || call.kind == Collective::kAllToAll;
    call.count = recorded.input->elements / (divided ? state->group->size() : 1);
    bool in_place = recorded.may_overwrite &&
                    (call.kind == Collective::kAllReduce || call.kind == Collective::kBroadcast);
    runtime::Executor *executor = state->calls.get();
    return recorder::ExchangeRun{
        executor, std::make_shared<CollectiveExecutable>(std::move(state), std::move(call),
                                                         recorded.input->bytes,
                                                         recorded.result->bytes, in_place)};
  }

private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<GroupState>> groups_;
};

} // namespace

void register_group(std::shared_ptr<GroupState> state) {
  Runner::instance().add(std::move(state));
}
void forget_group(const GroupState &state) {
  Runner::instance().remove(state.id);
}

} // namespace weft::distributed
