#include "runtime/profile/profile.h"

#include <pthread.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/core/status.h"
#include "runtime/profile/labels.h"
#include "runtime/profile/limits.h"
#include "runtime/profile/ring.h"
#include "runtime/profile/trace_file.h"

namespace weft::runtime::profile {
namespace {

// Of the process; never destroyed, since threads may record while static objects go.
class Recorder {
public:
  static Recorder &instance() {
    static auto *recorder = new Recorder;
    return *recorder;
  }

  absl::Status start(const std::string &file);
  absl::Status stop();
  absl::Status flush();
  std::string file();
  int64_t dropped();

  // Null where there are too many threads.
  std::shared_ptr<Ring> join();
  void rename(Ring *ring, std::string name);
  void lose() {
    lost_.fetch_add(1, std::memory_order_relaxed);
  }
  void wake() {
    wanted_.store(true, std::memory_order_relaxed);
    wake_.notify_one();
  }
  // What a process that ends by an exception can still do.
  void write_last();

private:
  void loop();
  // Under mutex_.
  void drain();
  void forget_ended();

  std::mutex control_; // start and stop
  std::mutex mutex_;   // rings and file
  std::mutex sleep_;   // of the writer
  std::condition_variable wake_;
  std::atomic<bool> wanted_{false};
  bool stopping_ = false; // under sleep_
  std::thread writer_;
  std::vector<std::shared_ptr<Ring>> rings_;
  int threads_ = 0; // that ever joined
  TraceFile file_;
  int64_t origin_ = 0;
  int64_t dropped_ = 0;
  std::atomic<int64_t> lost_{0}; // by threads without a ring
  bool prepared_ = false;
};

// The calling thread's.
struct Own {
  std::shared_ptr<Ring> ring;
  bool asked = false;
  std::string name;
  ~Own() {
    if (ring)
      ring->ended.store(true, std::memory_order_release);
  }
};
thread_local Own own;
// Not an object: still there when a thread's objects have gone.
thread_local bool is_gone = false;
struct Gone {
  ~Gone() {
    is_gone = true;
  }
};
thread_local Gone gone;

std::terminate_handler before_terminate = nullptr;

[[noreturn]] void terminate_with_trace() {
  Recorder::instance().write_last();
  if (before_terminate)
    before_terminate();
  std::abort();
}

std::string name_of_thread() {
  if (gettid() == getpid())
    return "main";
  char text[32] = "";
  pthread_getname_np(pthread_self(), text, sizeof text);
  return absl::StrCat(text, " ", gettid());
}

absl::Status Recorder::start(const std::string &file) {
  std::lock_guard control(control_);
  {
    std::lock_guard lock(mutex_);
    if (file_.is_open())
      return absl::AlreadyExistsError(
          absl::StrCat("a profile is being written to ", file_.name(), "; a process writes one"));
    origin_ = now();
    WEFT_RETURN_IF_ERROR(file_.open(file, origin_));
    if (file_.name() != file)
      std::fprintf(stderr, "weft: another process writes a profile to %s; this one's goes to %s\n",
                   file.c_str(), file_.name().c_str());
    dropped_ = 0;
    lost_.store(0, std::memory_order_relaxed);
    // What came after the last trace's end is no part of this one.
    forget_ended();
    for (const std::shared_ptr<Ring> &ring : rings_) {
      ring->take([](const Event &) {});
      ring->take_dropped();
      ring->is_named = false;
    }
  }
  if (!prepared_) {
    prepared_ = true;
    before_terminate = std::set_terminate(terminate_with_trace);
    std::atexit([] { instance().stop().IgnoreError(); });
    // A child has no writer.
    pthread_atfork(nullptr, nullptr,
                   [] { detail::active.store(false, std::memory_order_relaxed); });
  }
  {
    std::lock_guard sleep(sleep_);
    stopping_ = false;
  }
  writer_ = std::thread([this] { loop(); });
  detail::active.store(true, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::Status Recorder::stop() {
  std::lock_guard control(control_);
  // Not the child of a process that writes one: the trace is its parent's.
  if (!detail::active.exchange(false, std::memory_order_relaxed) || !writer_.joinable())
    return absl::OkStatus();
  {
    std::lock_guard sleep(sleep_);
    stopping_ = true;
  }
  wake_.notify_one();
  writer_.join();
  std::lock_guard lock(mutex_);
  drain();
  if (dropped_ > 0)
    std::fprintf(stderr,
                 "weft: %lld events of the profile %s were dropped: they came faster than they "
                 "could be written, or the file is full\n",
                 static_cast<long long>(dropped_), file_.name().c_str());
  file_.close();
  return absl::OkStatus();
}

absl::Status Recorder::flush() {
  std::lock_guard lock(mutex_);
  if (!file_.is_open())
    return absl::FailedPreconditionError("no profile is being written");
  drain();
  return absl::OkStatus();
}

std::string Recorder::file() {
  std::lock_guard lock(mutex_);
  return file_.is_open() ? file_.name() : std::string();
}

int64_t Recorder::dropped() {
  std::lock_guard lock(mutex_);
  return dropped_;
}

std::shared_ptr<Ring> Recorder::join() {
  std::lock_guard lock(mutex_);
  if (static_cast<int64_t>(rings_.size()) >= kThreads)
    forget_ended();
  if (static_cast<int64_t>(rings_.size()) >= kThreads)
    return nullptr;
  return rings_.emplace_back(
      std::make_shared<Ring>(++threads_, own.name.empty() ? name_of_thread() : own.name));
}

void Recorder::rename(Ring *ring, std::string name) {
  std::lock_guard lock(mutex_);
  ring->name = std::move(name);
  ring->is_named = false;
}

// Rings whose threads have gone, after what they hold is written.
void Recorder::forget_ended() {
  if (file_.is_open())
    drain();
  std::erase_if(rings_, [](const std::shared_ptr<Ring> &ring) {
    return ring->ended.load(std::memory_order_acquire) && ring->is_empty();
  });
}

void Recorder::drain() {
  Labels &labels = Labels::instance();
  dropped_ += lost_.exchange(0, std::memory_order_relaxed);
  for (const std::shared_ptr<Ring> &ring : rings_) {
    ring->take([&](const Event &event) {
      if (event.begin < origin_)
        return;
      if (!ring->is_named) {
        file_.add_thread(ring->thread, ring->name);
        ring->is_named = true;
      }
      if (!file_.add(ring->thread, event, labels.at(event.label)))
        ++dropped_;
    });
    dropped_ += ring->take_dropped();
  }
  file_.write(dropped_);
}

void Recorder::write_last() {
  if (!on() || !mutex_.try_lock())
    return;
  if (file_.is_open())
    drain();
  mutex_.unlock();
}

void Recorder::loop() {
  pthread_setname_np(pthread_self(), "weft-profile");
  std::unique_lock sleep(sleep_);
  while (!stopping_) {
    wake_.wait_for(sleep, kPeriod,
                   [this] { return stopping_ || wanted_.load(std::memory_order_relaxed); });
    wanted_.store(false, std::memory_order_relaxed);
    sleep.unlock();
    {
      std::lock_guard lock(mutex_);
      drain();
    }
    sleep.lock();
  }
}

Ring *own_ring() {
  if (!own.asked && !is_gone) {
    [[maybe_unused]] Gone *made = &gone;
    own.asked = true;
    own.ring = Recorder::instance().join();
  }
  return is_gone ? nullptr : own.ring.get();
}

// WEFT_PROFILE.
[[maybe_unused]] const bool from_environment = [] {
  const char *file = std::getenv("WEFT_PROFILE");
  if (!file || !*file)
    return false;
  absl::Status status = start(file);
  if (!status.ok())
    std::fprintf(stderr, "weft: WEFT_PROFILE: %s\n", std::string(status.message()).c_str());
  return status.ok();
}();

} // namespace

namespace detail {
void record(uint32_t label, int64_t begin, int64_t end, int64_t value) {
  if (!on())
    return;
  Ring *ring = own_ring();
  if (!ring) {
    if (!is_gone)
      Recorder::instance().lose();
    return;
  }
  if (ring->put({begin, end - begin, value, label}) == kEventsOfThread / 2)
    Recorder::instance().wake();
}
} // namespace detail

void name_thread(std::string name) {
  if (own.ring)
    Recorder::instance().rename(own.ring.get(), name);
  own.name = std::move(name);
}

void count(uint32_t label, int64_t value) {
  int64_t when = now();
  detail::record(label, when, when, value);
}

absl::Status start(const std::string &file) {
  return Recorder::instance().start(file);
}
absl::Status stop() {
  return Recorder::instance().stop();
}
absl::Status flush() {
  return Recorder::instance().flush();
}
std::string file() {
  return Recorder::instance().file();
}
int64_t dropped() {
  return Recorder::instance().dropped();
}

} // namespace weft::runtime::profile
