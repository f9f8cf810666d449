// The layer "gloo": Debian's libgloo, TCP between processes. Of Gloo its transport: pairs of
// sockets, served by a thread of Gloo's. Its collectives are not used: they add in the order of a
// ring or of a tree, which depends on the number of ranks and on the size.
#include <algorithm>
#include <chrono>
#include <condition_variable>
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

// What some thread waits for.
struct Wait {
  steady_clock::time_point end;
  Buffer *buffer;
  bool is_send;
};

void end_wait(const Wait &wait) {
  if (wait.is_send)
    wait.buffer->abortWaitSend();
  else
    wait.buffer->abortWaitRecv();
}

struct Connection {
  std::shared_ptr<gloo::rendezvous::Context> context;
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
        end_wait(wait);
      else
        own.wakes = std::min(own.wakes, wait.end);
    }
  }
}

// What Gloo says, without where in its sources.
const char *keep(const std::exception &error) {
  thread_local std::string text;
  text = error.what();
  if (size_t end = text.find("] "); text.starts_with('[') && end != std::string::npos)
    text = text.substr(end + 2);
  return text.c_str();
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
        return "this rank has closed the connection";
      own.buffers[buffer] = std::move(made);
    }
    transfer->layer = buffer;
    // Of what is begun while abort() runs, abort() knows: the wait for it ends.
    if (transfer->is_send)
      buffer->send(transfer->peer, transfer->channel);
    else
      buffer->recv(transfer->peer, transfer->channel);
    return nullptr;
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
  *why = "this rank has closed the connection";
  try {
    done = transfer->is_send ? buffer->waitSend(nullptr, kNoTimeout)
                             : buffer->waitRecv(nullptr, kNoTimeout);
  } catch (const std::exception &error) {
    *why = keep(error);
  }
  std::lock_guard lock(own.mutex);
  std::erase_if(own.waits, [&](const Wait &wait) { return wait.buffer == buffer; });
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
