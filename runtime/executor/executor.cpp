#include "runtime/executor/executor.h"

#include <pthread.h>

#include <algorithm>
#include <limits>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "runtime/core/ends.h"
#include "runtime/core/spin.h"
#include "runtime/core/status.h"
#include "runtime/core/thrown.h"
#include "runtime/executable/take_resources.h"
#include "runtime/memory/asking.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/memory.h"
#include "runtime/memory/prepared_store.h"
#include "runtime/profile/profile.h"
#include "runtime/threading/parallel_for.h"

namespace weft::runtime {
namespace {

using RawBuffers = absl::InlinedVector<Buffer *, 16>;
RawBuffers raw(const std::vector<std::shared_ptr<Buffer>> &buffers) {
  RawBuffers result(buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i)
    result[i] = buffers[i].get();
  return result;
}

// Whether the run writes output i: an alias is only handed on.
bool is_written(const OutputSpec &output) {
  return output.alias_input == -1 && output.alias_output == -1;
}

bool is_quiet(const Executable &executable, const std::vector<std::shared_ptr<Buffer>> &inputs,
              const std::vector<std::shared_ptr<Buffer>> &outputs) {
  std::span<const InputSpec> input_specs = executable.input_specs();
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!(input_specs[i].donatable ? inputs[i]->is_idle() : inputs[i]->is_written()))
      return false;
  return std::all_of(outputs.begin(), outputs.end(),
                     [](const std::shared_ptr<Buffer> &output) { return output->is_idle(); });
}

// Held from marking the buffers of a submission to queueing it, so that the marks follow the order
// of the queue. One for all executors: a run that waits for another device's was submitted after
// it, so that two devices never wait for each other.
std::mutex &submission_order() {
  static auto *mutex = new std::mutex; // executors may outlive static objects
  return *mutex;
}

// A wait that takes time.
absl::Status wait_for(const Event &event, const char *what) {
  if (event.done())
    return event.wait();
  profile::Span span([&] { return profile::Label{profile::Kind::kWait, what}; });
  return event.wait();
}

// Of all executors together.
std::atomic<int> all_threads{0};

// An exception that left a run, from a backend or a library of the user's, would leave its event
// open for ever.
template <typename Run> absl::Status ended(Run run) {
  RunsHere here;
  try {
    return run();
  } catch (...) {
    return absl::InternalError("it " + thrown_text());
  }
}

// Whether the thread runs an item of some executor's queue: such a thread takes no second one.
constinit thread_local bool runs_an_item = false;

} // namespace

Executor::Executor(std::shared_ptr<Memory> memory, int threads, std::string name, Waiters waiters)
    : name_(name.empty() ? "executor" : std::move(name)), waiters_(waiters),
      memory_(std::move(memory)) {
  set_threads(threads);
  expect_forks();
  thread_ = std::thread([this] { loop(); });
}

Executor::~Executor() {
  stop();
  all_threads -= threads();
}

absl::Status Executor::bind_outputs(const Executable &executable, bool in_line, Memory &memory,
                                    const std::vector<std::shared_ptr<Buffer>> &inputs,
                                    std::vector<std::shared_ptr<Buffer>> &outputs) {
  std::span<const OutputSpec> specs = executable.output_specs();
  if (inputs.size() != executable.input_specs().size() ||
      (!outputs.empty() && outputs.size() != specs.size()))
    return absl::InvalidArgumentError(absl::StrCat(
        "the program takes ", executable.input_specs().size(), " inputs and gives ", specs.size(),
        " outputs; there are ", inputs.size(), " and ", outputs.size(), " buffers"));
  outputs.resize(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    if (outputs[i])
      continue;
    if (specs[i].donated_input != -1)
      outputs[i] = inputs[specs[i].donated_input];
    else if (specs[i].alias_input != -1)
      outputs[i] = inputs[specs[i].alias_input];
    else if (specs[i].alias_output != -1)
      outputs[i] = outputs[specs[i].alias_output];
    else if (!in_line || !(outputs[i] = ordered_.take(memory, specs[i].bytes))) {
      if (asking.run && i < asking.run->outputs.size())
        asking.origin = &asking.run->outputs[i];
      auto taken = memory.allocate(specs[i].bytes, OrderedMemory::kPurpose);
      asking.origin = nullptr;
      WEFT_ASSIGN_OR_RETURN(outputs[i], std::move(taken));
    }
  }
  return check_bindings(executable, raw(inputs), raw(outputs));
}

absl::StatusOr<std::unique_ptr<RunResources>>
Executor::acquire(Executable &executable, const RunContext &context, Memory &results,
                  const std::vector<std::shared_ptr<Buffer>> &inputs,
                  std::vector<std::shared_ptr<Buffer>> &outputs) {
  std::vector<std::shared_ptr<Buffer>> bound = outputs;
  absl::Status status = bind_outputs(executable, context.arenas != nullptr, results, inputs, bound);
  if (!status.ok())
    return status;
  absl::StatusOr<std::unique_ptr<RunResources>> resources = take_resources(executable, context);
  if (resources.ok())
    if (status = ended([&] { return executable.prepare(context, **resources, raw(inputs)); });
        !status.ok())
      return status;
  if (resources.ok())
    outputs = std::move(bound);
  return resources;
}

RunContext Executor::context(bool on_executor) {
  RunContext context;
  context.memory = memory();
  context.threads = on_executor ? threads() : 1;
  context.arenas = on_executor ? &arenas_ : nullptr;
  return context;
}

// Whether a program of another caller is under way.
bool Executor::is_shared_now() {
  std::lock_guard lock(queue_mutex_);
  return !inline_runs_under_way_.empty() ||
         (in_flight_ > 0 && last_caller_ != std::this_thread::get_id());
}

// Marks every buffer of a run with the run's end, and notes what the run depends on.
void Executor::mark(Item &item) {
  auto depend = [&](Buffer::Uses uses) {
    auto is_pending = [&](const std::shared_ptr<const Event> &event) {
      return event && event != item.event;
    };
    if (is_pending(uses.write) && !(uses.write->done() && uses.write->wait().ok()))
      item.dependencies.push_back(std::move(uses.write));
    for (std::shared_ptr<const Event> &read : uses.reads)
      if (is_pending(read) && !read->done())
        item.readers.push_back(std::move(read));
  };
  std::span<const InputSpec> inputs = item.executable->input_specs();
  // The run may use a donated input's memory even where no output ends in it.
  for (size_t i = 0; i < inputs.size(); ++i)
    depend(inputs[i].donatable ? item.inputs[i]->begin_write(item.event)
                               : item.inputs[i]->begin_read(item.event));
  std::span<const OutputSpec> outputs = item.executable->output_specs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!is_written(outputs[i]))
      continue;
    // What an output held is lost anyway.
    Buffer::Uses uses = item.outputs[i]->begin_write(item.event);
    if (uses.write && uses.write != item.event && !uses.write->done())
      item.readers.push_back(uses.write);
    uses.write = nullptr;
    depend(std::move(uses));
  }
}

absl::StatusOr<Executor::Started> Executor::start(std::shared_ptr<Executable> executable,
                                                  std::vector<std::shared_ptr<Buffer>> inputs,
                                                  std::vector<std::shared_ptr<Buffer>> &outputs,
                                                  std::vector<std::shared_ptr<const Event>> after,
                                                  std::shared_ptr<const Event> *end,
                                                  Memory *results) {
  if (const char *why = why_not_compute())
    return absl::FailedPreconditionError(why);
  auto item = std::make_unique<Item>();
  int64_t bytes = executable->work_bytes();
  bool small = (executable->is_serial() && bytes <= kMaxInlineBytes) ||
               (executable->is_serial_with_one_thread() && bytes <= kMaxInlineBytesOfMany &&
                is_shared_now());
  item->context = context(!small);
  WEFT_ASSIGN_OR_RETURN(item->resources,
                        acquire(*executable, item->context,
                                results ? *results : *item->context.memory, inputs, outputs));
  count_memory();
  item->event = std::make_shared<Event>(queue_of_events());
  if (end)
    *end = item->event;
  bool waits =
      std::any_of(after.begin(), after.end(),
                  [](const std::shared_ptr<const Event> &event) { return !event->done(); });
  item->dependencies = std::move(after);
  item->executable = std::move(executable);
  item->inputs = std::move(inputs);
  item->outputs = outputs;
  Started started;
  started.executor_ = this;
  std::lock_guard order(submission_order());
  if (!small || waits || !is_quiet(*item->executable, item->inputs, item->outputs)) {
    started.end_ = item->event;
    enqueue(std::move(item));
    return started;
  }
  mark(*item);
  std::lock_guard lock(queue_mutex_);
  inline_runs_under_way_.push_back(item->event);
  started.item_ = std::move(item);
  return started;
}

Executor::Started::Started(Started &&other) noexcept
    : executor_(std::exchange(other.executor_, nullptr)), item_(std::move(other.item_)),
      end_(std::move(other.end_)) {}

Executor::Started &Executor::Started::operator=(Started &&other) noexcept {
  finish();
  executor_ = std::exchange(other.executor_, nullptr);
  item_ = std::move(other.item_);
  end_ = std::move(other.end_);
  return *this;
}

Executor::Started::~Started() {
  finish();
}

void Executor::Started::finish(bool waits) {
  Executor *executor = std::exchange(executor_, nullptr);
  if (!executor)
    return;
  if (std::unique_ptr<Item> item = std::move(item_)) {
    executor->run_inline(*item);
    return;
  }
  if (executor->waiters_ == Waiters::kRun && (waits || executor->expects_wait(*end_)))
    executor->take_turn(*end_);
  bool has_ended = end_->done();
  end_ = nullptr;
  if (has_ended)
    return;
  executor->wake();
  // Who starts runs faster than they end waits here, rather than fill the memory.
  std::unique_lock lock(executor->queue_mutex_);
  auto has_room = [executor] {
    return executor->in_flight_ <= kMaxInFlight || executor->stopped_;
  };
  if (has_room())
    return;
  profile::Span span([] { return profile::Label{profile::Kind::kWait, "wait for earlier runs"}; });
  executor->room_.wait(lock, has_room);
}

absl::Status Executor::submit(std::shared_ptr<Executable> executable,
                              std::vector<std::shared_ptr<Buffer>> inputs,
                              std::vector<std::shared_ptr<Buffer>> &outputs) {
  absl::StatusOr<Started> started = start(executable, inputs, outputs);
  if (absl::IsResourceExhausted(started.status())) {
    make_room();
    started = start(std::move(executable), std::move(inputs), outputs);
  }
  if (started.ok())
    started->finish();
  return started.status();
}

std::shared_ptr<const Event> Executor::submit(Work work) {
  if (is_forked_child()) {
    auto refused = std::make_shared<Event>();
    refused->complete(absl::FailedPreconditionError(why_not_compute()));
    return refused;
  }
  std::shared_ptr<const Event> event = enqueue(std::move(work));
  wake();
  return event;
}

absl::Status Executor::run(Work work) {
  if (const char *why = why_not_compute())
    return absl::FailedPreconditionError(why);
  return run_in_turn(std::move(work));
}

absl::Status Executor::run_in_turn(Work work) {
  std::shared_ptr<const Event> event = enqueue(std::move(work));
  if (waiters_ == Waiters::kRun)
    take_turn(*event);
  if (!event->done())
    wake();
  return event->wait();
}

std::shared_ptr<const Event> Executor::enqueue(Work work) {
  auto item = std::make_unique<Item>();
  item->context = context(true);
  item->event = std::make_shared<Event>(queue_of_events());
  item->work = std::move(work);
  std::shared_ptr<const Event> event = item->event;
  std::lock_guard order(submission_order());
  enqueue(std::move(item));
  return event;
}

// Under submission_order().
void Executor::enqueue(std::unique_ptr<Item> item) {
  std::unique_lock lock(queue_mutex_);
  if (item->executable) {
    mark(*item);
    ordered_.hold(item->inputs);
    ordered_.hold(item->outputs);
  }
  if (stopped_) {
    // After the end of main(): nothing else runs, and the order keeps other callers out.
    lock.unlock();
    run(std::move(item));
    return;
  }
  ++in_flight_;
  last_caller_ = std::this_thread::get_id();
  queue_.push_back(std::move(item));
}

void Executor::wake() {
  arrivals_.fetch_add(1, std::memory_order_release);
  arrivals_.notify_one();
}

void Executor::run_inline(Item &item) {
  absl::Status status;
  // They have ended: what failed has lost what this run reads.
  for (const std::shared_ptr<const Event> &write : item.dependencies)
    if (status.ok())
      status = wait_for(*write, "wait for inputs");
  if (status.ok())
    status = ended([&] {
      return item.executable->run(item.context, *item.resources, raw(item.inputs),
                                  raw(item.outputs));
    });
  inline_runs_.fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<Event> event = std::move(item.event);
  // Before the event: who waits for it may count the memory. What the program lends goes before it.
  item.resources.reset();
  item = Item();
  count_memory();
  event->complete(std::move(status));
  std::lock_guard lock(queue_mutex_);
  std::erase(inline_runs_under_way_, event);
}

void Executor::run(std::unique_ptr<Item> item) {
  ThreadPool::Lent lent(pool_);
  bool runs_another = std::exchange(runs_an_item, true);
  absl::Status status;
  if (item->executable) {
    // They came earlier in the queue, or a caller runs them now. One that failed has lost what this
    // run reads.
    for (const std::shared_ptr<const Event> &write : item->dependencies)
      if (status.ok())
        status = wait_for(*write, "wait for inputs");
    for (const std::shared_ptr<const Event> &reader : item->readers)
      wait_for(*reader, "wait for readers").IgnoreError();
    if (status.ok())
      status = ended([&] {
        return item->executable->run(item->context, *item->resources, raw(item->inputs),
                                     raw(item->outputs));
      });
  } else {
    status = ended([&] { return item->work(item->context); });
  }
  submitted_.fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<Event> event = std::move(item->event);
  // Before the event: who waits for it may count the memory.
  ordered_.let_go(item->inputs);
  ordered_.let_go(item->outputs);
  item.reset();
  count_memory();
  runs_an_item = runs_another;
  event->complete(std::move(status));
}

void Executor::run_next(std::unique_lock<std::mutex> &lock) {
  has_turn_ = true;
  std::unique_ptr<Item> item = std::move(queue_.front());
  queue_.pop_front();
  lock.unlock();
  run(std::move(item));
  lock.lock();
  has_turn_ = false;
  --in_flight_;
  room_.notify_all();
}

void Executor::run_until(const Event &event) {
  if (take_turn(event)) {
    std::lock_guard lock(queue_mutex_);
    waited_at_once_ = std::min(waited_at_once_ + 1, kWaitedAtOnce);
  }
}

bool Executor::expects_wait(const Event &event) {
  std::lock_guard lock(queue_mutex_);
  if (waited_at_once_ < kWaitedAtOnce || has_turn_ || queue_.size() != 1)
    return false;
  // What it depends on may wait for what this thread does next.
  const Item &item = *queue_.front();
  return item.event.get() == &event && item.dependencies.empty() && item.readers.empty() &&
         ++expected_ % kTrialRuns != 0;
}

bool Executor::take_turn(const Event &event) {
  if (runs_an_item)
    return false;
  std::unique_lock lock(queue_mutex_);
  bool ran = false, ran_it = false;
  for (; !event.done() && !has_turn_ && !queue_.empty(); ran = true) {
    ran_it = queue_.front()->event.get() == &event;
    run_next(lock);
  }
  // The thread that the others count on may have slept since it saw that this one had the turn.
  bool leaves_work = ran && !has_turn_ && (!queue_.empty() || stopping_);
  lock.unlock();
  if (leaves_work)
    wake();
  return ran_it;
}

void Executor::loop() {
  pthread_setname_np(pthread_self(), "weft-executor");
  profile::name_thread(name_);
  while (true) {
    uint32_t arrivals = arrivals_.load(std::memory_order_acquire);
    std::unique_lock lock(queue_mutex_);
    if (queue_.empty() || has_turn_) {
      if (stopping_ && !has_turn_) {
        stopped_ = true;
        room_.notify_all();
        return;
      }
      lock.unlock();
      if (!spin_until([&] { return arrivals_.load(std::memory_order_acquire) != arrivals; }))
        arrivals_.wait(arrivals, std::memory_order_acquire);
      continue;
    }
    waited_at_once_ = 0;
    run_next(lock);
  }
}

void Executor::count_memory() {
  if (!profile::on())
    return;
  AllocatorStats stats = memory()->allocator().stats();
  for (auto [what, bytes] : {std::pair("bytes in use", stats.live_bytes),
                             std::pair("bytes taken from the system", stats.reserved_bytes)})
    profile::count(profile::number_of({profile::Kind::kCounter, absl::StrCat(name_, " ", what), "",
                                       "bytes", 0, 0}),
                   bytes);
}

void Executor::synchronize() {
  if (is_forked_child())
    return; // nothing is under way in it
  std::vector<std::shared_ptr<const Event>> elsewhere;
  {
    std::lock_guard lock(queue_mutex_);
    elsewhere = inline_runs_under_way_;
  }
  for (const std::shared_ptr<const Event> &event : elsewhere)
    event->wait().IgnoreError();
  run_in_turn([](const RunContext &) { return absl::OkStatus(); }).IgnoreError();
}

void Executor::make_room() {
  synchronize();
  trim();
}

void Executor::stop() {
  if (!is_forked_child()) { // else a thread that is not there may hold the lock
    std::lock_guard lock(queue_mutex_);
    stopping_ = true;
  }
  wake();
  if (thread_.joinable())
    join(thread_);
  pool_.stop();
  set_threads(1);
}

void Executor::set_threads(int threads) {
  threads = std::max(threads, 1);
  int all = all_threads += threads - threads_.exchange(threads, std::memory_order_relaxed);
  spinning_pays.store(all < available_processors(), std::memory_order_relaxed);
}

std::shared_ptr<Memory> Executor::memory() const {
  std::lock_guard lock(settings_mutex_);
  return memory_;
}

void Executor::set_memory(std::shared_ptr<Memory> memory) {
  std::shared_ptr<Memory> old;
  {
    std::lock_guard lock(settings_mutex_);
    old = std::exchange(memory_, std::move(memory));
  }
  if (old)
    PreparedStore::instance().release(*old, std::numeric_limits<int64_t>::max());
  trim();
}

ExecutorStats Executor::stats() const {
  OrderedMemory::Stats ordered = ordered_.stats();
  return {submitted_.load(std::memory_order_relaxed), inline_runs_.load(std::memory_order_relaxed),
          ordered.buffers, ordered.bytes};
}

} // namespace weft::runtime
