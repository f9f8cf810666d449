#include "frontend/recorder/runs/launcher.h"

#include <algorithm>
#include <chrono>

#include "frontend/recorder/runs/exchange.h"
#include "runtime/executable/forwarding_executable.h"
#include "runtime/executable/run_failure.h"
#include "runtime/executable/take_resources.h"
#include "runtime/executor/device.h"
#include "runtime/profile/profile.h"
#include "llvm/Support/SaveAndRestore.h"

namespace weft::recorder {
namespace {

// Tells the record what the run takes, how long it took and how it ended.
class Observed : public runtime::ForwardingExecutable<> {
public:
  Observed(std::shared_ptr<runtime::Executable> executable,
           std::shared_ptr<EvaluationRecord> record)
      : ForwardingExecutable(std::move(executable)), record_(std::move(record)) {}

  ~Observed() override {
    record_->end();
  }

  absl::StatusOr<std::unique_ptr<runtime::RunResources>>
  acquire(const runtime::RunContext &context) override {
    auto resources = runtime::take_resources(target(), context, record_->data.backend);
    if (resources.ok())
      record_->data.planned_peak_bytes = (*resources)->bytes + record_->data.output_bytes;
    return resources;
  }

  absl::Status run(const runtime::RunContext &context, runtime::RunResources &resources,
                   std::span<runtime::Buffer *const> inputs,
                   std::span<runtime::Buffer *const> outputs) override {
    auto start = std::chrono::steady_clock::now();
    runtime::profile::Span span([this] { return label(); },
                                static_cast<int64_t>(record_->data.number));
    absl::Status status = target().run(context, resources, inputs, outputs);
    if (auto failure = runtime::located(status))
      for (const auto &[from, to] : record_->moved_places)
        if (from == failure->file + ":" + std::to_string(failure->line)) {
          status = runtime::moved_to(status, to);
          break;
        }
    // What writes none of its inputs keeps them all, whatever it fails of.
    if (!status.ok() && std::ranges::none_of(input_specs(), &runtime::InputSpec::donatable))
      status = runtime::with_kept_inputs(std::move(status));
    if (!status.ok())
      status = runtime::as_of_thread(std::move(status), record_->thread);
    record_->finish(start, status, resources.prepared);
    return status;
  }

private:
  runtime::profile::Label label() const {
    const Evaluation &data = record_->data;
    std::string line = data.file + ":" + std::to_string(data.line);
    runtime::profile::Args args;
    args.add("asked for at", line)
        .add("ops", data.ops)
        .add("kernels", data.kernels)
        .add("library calls", data.library_calls);
    std::string name = std::string(weft::name(data.reason)) + " " + line;
    return {runtime::profile::Kind::kEvaluation,
            data.exchange.empty() ? name : data.exchange,
            args.take(),
            "evaluation",
            0,
            0};
  }

  std::shared_ptr<EvaluationRecord> record_;
};

// Ranks that are threads each have one line for all that they run on the host's processors. In an
// executor that they shared, a run that waits for the other ranks would keep these from their turn,
// and all of them would wait for ever.
runtime::Executor &executor_of(const Launch &launch) {
  runtime::Executor &given =
      launch.executor ? *launch.executor : runtime::device(launch.device).executor();
  if (rank_device < 0)
    return given;
  for (runtime::Device *device : runtime::devices_in_use())
    if (device->is_host_memory() && &device->executor() == &given)
      return runtime::device(rank_device).executor();
  return given; // of a group's calls, or of another kind of device
}

} // namespace

constinit thread_local int16_t rank_device = -1;

absl::StatusOr<runtime::Executor::Started> start(Launch &launch,
                                                 std::shared_ptr<EvaluationRecord> record) {
  runtime::AskingRun asks; // who traces memory is told what it is for
  llvm::SaveAndRestore asking(runtime::asking.run);
  if (runtime::asking_is_traced > 0) {
    asks = {record->data.file + ":" + std::to_string(record->data.line), launch.origins};
    runtime::asking.run = &asks;
  }
  auto observed = std::make_shared<Observed>(launch.executable, std::move(record));
  std::shared_ptr<runtime::Memory> results;
  if (launch.executor || rank_device >= 0)
    results = runtime::device(launch.result_device)
                  .memory(); // another executor's memory is not the device's
  return executor_of(launch).start(std::move(observed), std::move(launch.inputs), launch.outputs,
                                   std::move(launch.after), launch.end, results.get());
}

// The executors that the thread waits for: all of the process, but of a rank that is a thread of it
// only its own, and that of a device without processors of the host's that it computes on. Others
// may wait for this one.
static std::vector<std::shared_ptr<runtime::Executor>> executors() {
  std::vector<std::shared_ptr<runtime::Executor>> found = exchange_executors();
  for (runtime::Device *device : runtime::devices_in_use())
    if (rank_device < 0 || device->index() == rank_device ||
        (device->index() == default_device() && !device->is_host_memory()))
      found.emplace_back(std::shared_ptr<void>(), &device->executor());
  return found;
}

void drain() {
  runtime::profile::Span span(runtime::profile::Kind::kWait, "wait for everything");
  for (const std::shared_ptr<runtime::Executor> &executor : executors())
    executor->synchronize();
}
void make_room() {
  RecorderMutex::Pause pause(recorder_mutex());
  for (const std::shared_ptr<runtime::Executor> &executor : executors())
    executor->make_room();
}

} // namespace weft::recorder
