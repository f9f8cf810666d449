// The layer "gloo": Debian's libgloo, TCP between processes. Of Gloo its transport: pairs of
// sockets, served by a thread of Gloo's. Its collectives are not used: they add in the order of a
// ring or of a tree, which depends on the number of ranks and on the size.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "runtime/abi/weft_collective.h"
#include "runtime/collective/without_signals.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/loop.h>
#include <gloo/transport/unbound_buffer.h>

namespace weft::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// A year: to Gloo, no time at all would be the default.
constexpr milliseconds kNoTimeout = std::chrono::hours(24 * 365);

// Where ranks find each other's sockets.
class Addresses : public gloo::rendezvous::Store {
public:
  explicit Addresses(const weft_collective_world &world) : world_(world) {}
  void set(const std::string &key, const std::vector<char> &data) override {
    if (const char *why =
            world_.set(world_.store, key.c_str(), data.data(), static_cast<int64_t>(data.size())))
      throw gloo::Exception(why);
  }
  std::vector<char> get(const std::string &key) override {
    std::vector<char> data(1 << 20); // an address of 136 bytes a rank
    int64_t bytes = 0;
    if (const char *why = world_.get(world_.store, key.c_str(), data.data(),
                                     static_cast<int64_t>(data.size()), &bytes))
      throw gloo::Exception(why);
    data.resize(static_cast<size_t>(bytes));
    return data;
  }
  void wait(const std::vector<std::string> &keys) override {
    for (const std::string &key : keys)
      get(key);
  }
  void wait(const std::vector<std::string> &keys, const milliseconds &) override {
    wait(keys);
  }

private:
  const weft_collective_world &world_;
};

using Buffer = gloo::transport::UnboundBuffer;

constexpr char kClosed[] = "this rank has closed the connection";

// What some thread waits for.
struct Wait {
  steady_clock::time_point end;
  Buffer *buffer;
  bool is_send;
};

void end_wait(Buffer *buffer, bool is_send) {
  if (is_send)
    buffer->abortWaitSend();
  else
    buffer->abortWaitRecv();
}

// What Gloo says, without where in its sources.
const char *keep(const std::exception &error) {
  thread_local std::string text;
  text = error.what();
  if (size_t end = text.find("] "); text.starts_with('[') && end != std::string::npos)
    text = text.substr(end + 2);
  return text.c_str();
}

// Messages are begun by Gloo's own thread, all of them. Who begins one writes to the socket of its
// pair and holds the pair's lock meanwhile. Gloo's thread, where it finds that socket readable and
// the lock taken, asks the kernel again at once, without end: so another thread's messages would
// cost as much processor time again, and on a busy machine keep who holds the lock from going on.
class Posts : public gloo::transport::tcp::Handler {
public:
  explicit Posts(std::shared_ptr<gloo::transport::tcp::Device> device)
      : device_(std::move(device)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (wake_ < 0)
      throw std::runtime_error("there is no eventfd");
    device_->registerDescriptor(wake_, EPOLLIN, this);
  }
  ~Posts() override {
    device_->unregisterDescriptor(wake_, this); // returns when the thread is not in here
    ::close(wake_);
  }

  // In the order of calls. False after stop().
  bool post(Buffer *buffer, const weft_collective_transfer &transfer) {
    std::lock_guard lock(mutex_);
    if (stopped_)
      return false;
    queue_.push_back({buffer, transfer});
    if (queue_.size() == 1 && !begins_)
      eventfd_write(wake_, 1);
    return true;
  }
  // Nothing is begun any more. Who closes a pair holds its lock and waits for Gloo's thread, which
  // so must not wait for that lock: this comes before.
  void stop() {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    queue_.clear();
    changed_.wait(lock, [&] { return !begins_; });
  }
  // Why this one could not begin; null if it has.
  const char *failure(Buffer *buffer) {
    std::lock_guard lock(mutex_);
    auto found = failures_.find(buffer);
    if (found == failures_.end())
      return nullptr;
    thread_local std::string text;
    text = found->second;
    return text.c_str();
  }

  // On Gloo's thread.
  void handleEvents(int) override {
    eventfd_t count = 0;
    eventfd_read(wake_, &count);
    std::unique_lock lock(mutex_);
    begins_ = true;
    while (!queue_.empty()) {
      Posted next = queue_.front();
      queue_.pop_front();
      lock.unlock();
      std::string why;
      try {
        if (next.transfer.is_send)
          next.buffer->send(next.transfer.peer, next.transfer.channel);
        else
          next.buffer->recv(next.transfer.peer, next.transfer.channel);
      } catch (const std::exception &error) {
        why = keep(error);
      }
      lock.lock();
      if (!why.empty()) {
        failures_[next.buffer] = std::move(why);
        end_wait(next.buffer, next.transfer.is_send);
      }
    }
    begins_ = false;
    changed_.notify_all();
  }

private:
  struct Posted {
    Buffer *buffer;
    weft_collective_transfer transfer; // as it was given
  };
  std::shared_ptr<gloo::transport::tcp::Device> device_;
  int wake_;
  std::mutex mutex_; // of all below
  std::condition_variable changed_;
  std::deque<Posted> queue_;
  bool begins_ = false, stopped_ = false;
  std::unordered_map<Buffer *, std::string> failures_;
};

struct Connection {
  std::shared_ptr<gloo::rendezvous::Context> context;
  std::unique_ptr<Posts> posts;
  std::thread guard;
  std::mutex mutex;
  std::condition_variable changed;
  bool aborted = false, closing = false;                         // under the mutex, as are
  std::unordered_map<Buffer *, std::unique_ptr<Buffer>> buffers; // those under way,
  std::vector<Wait> waits;
  steady_clock::time_point wakes = steady_clock::time_point::max(); // and when the guard looks
};

// Ends waits that are late. Gloo is given no timeout: when one is over it closes the connections
// with all ranks, before the job knows which rank it was, and threads that wait for other ranks
// would name those.
void guard(Connection &own) {
  std::unique_lock lock(own.mutex);
  while (!own.closing) {
    if (own.wakes == steady_clock::time_point::max())
      own.changed.wait(lock);
    else
      own.changed.wait_until(lock, own.wakes);
    own.wakes = steady_clock::time_point::max();
    const auto now = steady_clock::now();
    for (Wait &wait : own.waits) {
      if (wait.end <= now)
        end_wait(wait.buffer, wait.is_send);
      else
        own.wakes = std::min(own.wakes, wait.end);
    }
  }
}

const char *connect(const weft_collective_world *world, void **connection) {
  try {
    WithoutSignals without; // Gloo's threads write to sockets whose other end may be closed
    gloo::transport::tcp::attr attributes;
    attributes.hostname = world->address;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto made = std::make_unique<Connection>();
    made->context = std::make_shared<gloo::rendezvous::Context>(world->rank, world->size);
    made->context->setTimeout(milliseconds(world->timeout_ms));
    Addresses addresses(*world);
    made->context->connectFullMesh(addresses, device);
    made->posts =
        std::make_unique<Posts>(std::dynamic_pointer_cast<gloo::transport::tcp::Device>(device));
    made->guard = std::thread(guard, std::ref(*made));
    *connection = made.release();
    return nullptr;
  } catch (const std::exception &error) {
    return keep(error);
  }
}

const char *post(void *connection, weft_collective_transfer *transfer) {
  auto &own = *static_cast<Connection *>(connection);
  try {
    auto made =
        own.context->createUnboundBuffer(transfer->data, static_cast<size_t>(transfer->bytes));
    Buffer *buffer = made.get();
    {
      std::lock_guard lock(own.mutex);
      if (own.aborted)
        return kClosed;
      own.buffers[buffer] = std::move(made);
    }
    transfer->layer = buffer;
    // Of what is posted while abort() runs, abort() knows: the wait for it ends.
    return own.posts->post(buffer, *transfer) ? nullptr : kClosed;
  } catch (const std::exception &error) {
    return keep(error);
  }
}

int32_t wait(void *connection, weft_collective_transfer *transfer, int64_t timeout_ms,
             const char **why) {
  auto &own = *static_cast<Connection *>(connection);
  auto *buffer = static_cast<Buffer *>(transfer->layer);
  const auto end = steady_clock::now() + milliseconds(timeout_ms);
  {
    std::lock_guard lock(own.mutex);
    own.waits.push_back({end, buffer, transfer->is_send != 0});
    if (end < own.wakes) {
      own.wakes = end;
      own.changed.notify_one();
    }
  }
  bool done = false;
  *why = kClosed;
  try {
    done = transfer->is_send ? buffer->waitSend(nullptr, kNoTimeout)
                             : buffer->waitRecv(nullptr, kNoTimeout);
  } catch (const std::exception &error) {
    *why = keep(error);
  }
  std::lock_guard lock(own.mutex);
  std::erase_if(own.waits, [&](const Wait &wait) { return wait.buffer == buffer; });
  if (const char *failure = done ? nullptr : own.posts->failure(buffer))
    *why = failure;
  if (!done)
    return steady_clock::now() >= end ? WEFT_TRANSFER_LATE : WEFT_TRANSFER_FAILED;
  own.buffers.erase(buffer);
  return WEFT_TRANSFER_DONE;
}

void abort(void *connection) {
  auto &own = *static_cast<Connection *>(connection);
  std::lock_guard lock(own.mutex);
  if (own.aborted)
    return;
  own.aborted = true;
  own.posts->stop();
  for (const auto &[buffer, owned] : own.buffers) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
  try {
    // Closed sockets are served no more.
    own.context->closeConnections();
  } catch (const std::exception &) {
    // A connection that is broken is closed.
  }
}

void close(void *connection) {
  std::unique_ptr<Connection> own(static_cast<Connection *>(connection));
  {
    std::lock_guard lock(own->mutex);
    own->closing = true;
    own->changed.notify_one();
  }
  own->guard.join();
  own->posts.reset(); // before what it begins
  own->buffers.clear();
}

const char *const kRegistered = [] {
  weft_collective_layer layer = {};
  layer.struct_size = sizeof layer;
  layer.version = WEFT_COLLECTIVE_ABI_VERSION;
  layer.name = "gloo";
  layer.connect = connect;
  layer.post = post;
  layer.wait = wait;
  layer.abort = abort;
  layer.close = close;
  return weft_register_collective_layer(&layer);
}();

} // namespace
} // namespace weft::runtime
