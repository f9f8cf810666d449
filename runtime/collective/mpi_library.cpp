#include "runtime/collective/mpi_library.h"

#include <dlfcn.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/collective/without_signals.h"

namespace weft::runtime {
namespace {

using std::chrono::milliseconds;

// How often messages move on while no thread waits for one: a network may have taken a part only,
// and Open MPI has no thread that sends the rest.
constexpr milliseconds kPulse{2};

struct Job {
  std::function<std::string()> body;
  std::string wrong;
  bool done = false;
};

bool is_set(const char *name) {
  const char *value = std::getenv(name);
  return value && *value;
}

} // namespace

struct Mpi::Thread {
  std::mutex starting; // start() is called by one thread at a time
  bool started = false;
  std::string wrong; // why it could not be
  std::mutex mutex;  // of all below
  std::condition_variable changed;
  std::deque<std::shared_ptr<Job>> jobs;
  bool busy = false, ending = false, ended = false, gave_up = false;
  bool is_ours = false; // the thread has initialised MPI, and not the program
  std::mutex pulsing;
  int connections = 0; // under it
};

Mpi &Mpi::instance() {
  static Mpi *mpi = new Mpi;
  return *mpi;
}

Mpi::Mpi() : thread_(new Thread) {}

std::string Mpi::open() {
  const char *named = std::getenv("WEFT_MPI_LIBRARY");
  std::vector<const char *> names = {"libmpi.so.40", "libmpi.so"};
  if (named && *named)
    names = {named};
  std::string found, why;
  void *library = nullptr;
  for (const char *name : names) {
    // Open MPI's own components look for its symbols in the process.
    library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    found = name;
    if (library)
      break;
    if (const char *text = dlerror(); text && why.empty())
      why = text;
  }
  if (!library)
    return "Open MPI was not found (" + why +
           "): install it (Debian: libopenmpi3), or name its library in WEFT_MPI_LIBRARY";
  void *all = dlsym(library, "ompi_mpi_comm_world"), *bytes = dlsym(library, "ompi_mpi_byte");
  if (!all || !bytes)
    return found + " is not Open MPI: this layer knows the binary interface of that alone";
  std::string missing;
#define WEFT_FIND(name, arguments)                                                                 \
  name = reinterpret_cast<decltype(name)>(dlsym(library, "MPI_" #name));                           \
  if (!name)                                                                                       \
    missing += std::string(missing.empty() ? "" : ", ") + "MPI_" #name;
  WEFT_MPI_FUNCTIONS(WEFT_FIND)
#undef WEFT_FIND
  if (!missing.empty())
    return found + " lacks " + missing;
  world = all;
  byte = bytes;
  errors_return_ = dlsym(library, "ompi_mpi_errors_return");
  return "";
}

std::string Mpi::error(int result, const char *what) const {
  if (result == 0)
    return "";
  char text[1024] = "";
  int length = 0;
  if (Error_string(result, text, &length) != 0)
    length = 0;
  return std::string(what) + ": " +
         (length ? std::string(text, static_cast<size_t>(length)) : std::to_string(result));
}

std::string Mpi::initialise() {
  int is_there = 0, level = 0;
  Initialized(&is_there);
  if (!is_there) {
    if (std::string wrong =
            error(Init_thread(nullptr, nullptr, kMpiThreadMultiple, &level), "MPI_Init_thread");
        !wrong.empty())
      return wrong;
    std::lock_guard lock(thread_->mutex);
    thread_->is_ours = true;
  } else {
    Query_thread(&level);
  }
  if (level < kMpiThreadMultiple)
    return is_there ? "the program has called MPI_Init: threads need MPI_Init_thread with "
                      "MPI_THREAD_MULTIPLE"
                    : "this Open MPI was built without support for threads (MPI_THREAD_MULTIPLE)";
  // Messages of the program's own do not mix with these.
  MpiCommunicator own = nullptr;
  if (std::string wrong = error(Comm_dup(world, &own), "MPI_Comm_dup"); !wrong.empty())
    return wrong;
  world = own;
  if (errors_return_)
    Comm_set_errhandler(world, errors_return_);
  int *most = nullptr, has_most = 0;
  if (Comm_get_attr(world, kMpiTagUpperBound, static_cast<void *>(&most), &has_most) == 0 &&
      has_most && most)
    most_tags = *most;
  return error(Comm_size(world, &size), "MPI_Comm_size");
}

std::string Mpi::begin(milliseconds timeout) {
  if (std::string wrong = open(); !wrong.empty())
    return wrong;
  int is_there = 0;
  Initialized(&is_there);
  // Alone it would take itself for a job of one rank.
  if (!is_there && !is_set("OMPI_COMM_WORLD_SIZE") && !is_set("PMIX_RANK"))
    return "this process was not started by mpirun: start the ranks with `mpirun -n RANKS PROGRAM`";
  {
    WithoutSignals without;
    std::thread([this] { loop(); }).detach();
  }
  std::atexit([] { instance().end(); });
  return run([this] { return initialise(); }, timeout);
}

std::string Mpi::start(milliseconds timeout) {
  std::lock_guard lock(thread_->starting);
  if (!thread_->started)
    thread_->wrong = begin(timeout);
  thread_->started = true;
  return thread_->wrong;
}

std::string Mpi::run(std::function<std::string()> body, milliseconds timeout) {
  auto job = std::make_shared<Job>();
  job->body = std::move(body);
  std::unique_lock lock(thread_->mutex);
  thread_->jobs.push_back(job);
  thread_->changed.notify_all();
  if (thread_->changed.wait_for(lock, timeout, [&] { return job->done; }))
    return job->wrong;
  thread_->gave_up = true;
  return "not all ranks of the job have come to MPI within " + std::to_string(timeout.count()) +
         " ms. Their output says where they are; if they are only late, raise the timeout "
         "(WEFT_RENDEZVOUS_TIMEOUT, in seconds)";
}

void Mpi::give_up() {
  std::lock_guard lock(thread_->mutex);
  thread_->gave_up = true;
  thread_->changed.notify_all();
}

bool Mpi::is_over() const {
  int is_over = 0;
  Finalized(&is_over);
  std::lock_guard lock(thread_->mutex);
  return is_over || thread_->ending;
}

void Mpi::enter() {
  std::lock_guard lock(thread_->pulsing);
  ++thread_->connections;
}

void Mpi::leave() {
  std::lock_guard lock(thread_->pulsing);
  --thread_->connections;
}

void Mpi::pulse() {
  std::lock_guard lock(thread_->pulsing);
  int flag = 0;
  if (thread_->is_ours || thread_->connections > 0)
    Iprobe(kMpiAnySource, 0, world, &flag, nullptr);
}

void Mpi::loop() {
  std::unique_lock lock(thread_->mutex);
  for (;;) {
    auto is_due = [&] {
      return !thread_->jobs.empty() || thread_->ending;
    };
    if (thread_->changed.wait_for(lock, size ? kPulse : milliseconds(1000), is_due)) {
      if (thread_->jobs.empty())
        break;
      std::shared_ptr<Job> job = thread_->jobs.front();
      thread_->jobs.pop_front();
      lock.unlock();
      std::string wrong = job->body();
      lock.lock();
      job->wrong = std::move(wrong);
      job->done = true;
      thread_->changed.notify_all();
    } else if (size) {
      lock.unlock();
      pulse();
      lock.lock();
    }
  }
  // Not after a failure: it would wait for the rank that has failed for ever.
  if (thread_->is_ours && !thread_->gave_up) {
    lock.unlock();
    Finalize();
    lock.lock();
  }
  thread_->ended = true;
  thread_->changed.notify_all();
}

void Mpi::end() {
  std::unique_lock lock(thread_->mutex);
  thread_->ending = true;
  thread_->changed.notify_all();
  thread_->changed.wait(lock, [&] { return thread_->ended || thread_->gave_up; });
  // Where it hangs in MPI it stays there.
  thread_->changed.wait_for(lock, milliseconds(100), [&] { return thread_->ended; });
}

} // namespace weft::runtime
