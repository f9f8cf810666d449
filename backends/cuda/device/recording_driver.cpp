// Stands in for NVIDIA's driver where there is no GPU: a library that exports its functions, and,
// by the files beside this one, those of cuBLASLt and cuDNN. "The GPU's" memory is the host's, at
// addresses of its own that no host pointer equals; work is put on a stream and done when somebody
// waits for it, so that memory which goes too early is found. WEFT_RECORDING_GPUS=n has n of them,
// whose memory and streams do not mix. Kernels do what a test says.
#include "backends/cuda/device/recording_driver.h"

#include "backends/cuda/device/recording_state.h"

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

constexpr uint64_t kBase = uint64_t{1} << 46; // of addresses on "the GPU"
constexpr int kInvalid = 1, kInvalidContext = 201, kCaptureUnsupported = 900;
// A context gives them again at each call.
constexpr int kFatal[] = {214, 700, 702, 716, 719};

struct Gpu {
  int number = 0;
};

struct Block {
  std::vector<unsigned char> bytes;
  const Gpu *gpu = nullptr;
};

struct Graph {
  std::vector<std::function<void()>> work;
  std::string shape; // of its nodes: a graph takes over another one's arguments, not its nodes
};

struct Stream {
  explicit Stream(const Gpu *gpu) : gpu(gpu) {}
  const Gpu *gpu;
  std::vector<std::function<void()>> work;
  Graph *recording = nullptr; // what is put on the stream goes there
  std::thread::id recorder;   // who alone may put work there meanwhile
};

struct Kernel {
  std::string name;
  std::vector<bool> is_pointer; // of the parameters; the others are numbers of 64 bits
  bool unloaded = false;
  const Gpu *gpu = nullptr;
};

using Kernels = std::vector<std::unique_ptr<Kernel>>; // of a module

struct State {
  std::mutex mutex;
  std::string log, errors;
  std::map<uint64_t, Block> live;
  uint64_t next = kBase;
  std::vector<std::unique_ptr<Stream>> streams; // never freed
  std::vector<std::unique_ptr<Kernels>>
      modules; // never freed: handles stay distinct, and what is on the stream keeps its kernels
  std::string failing;
  int fail_at = -1, fail_with = 0;
  int lost = 0; // the error after which nothing goes any more
  weft_recording_kernel kernel = nullptr;
  long graphs = 0; // that nobody has destroyed
};

thread_local const Gpu *current = nullptr; // of the calling thread's context
const Gpu *running = nullptr;              // of the work that is being done

State &state() {
  static State *made = [] {
    // For whole programs: what was called, when they end.
    std::atexit([] {
      const char *path = std::getenv("WEFT_RECORDING_LOG");
      if (path == nullptr)
        return;
      if (std::FILE *file = std::fopen(path, "w")) {
        std::fprintf(file, "%s%s", state().log.c_str(),
                     state().errors.empty() ? "" : ("errors:\n" + state().errors).c_str());
        std::fclose(file);
      }
    });
    return new State;
  }();
  return *made;
}

void say(std::string &to, const char *format, ...) __attribute__((format(printf, 2, 3)));
void say(std::string &to, const char *format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  to += line;
  to += '\n';
}

// Whether this call is to fail, and with what.
int failure(const char *function) {
  State &s = state();
  if (s.lost != 0 || s.failing != function)
    return s.lost;
  bool fails = s.fail_at == kWeftRecordingEvery || (s.fail_at >= 0 && s.fail_at-- == 0);
  int error = fails ? s.fail_with : 0;
  if (std::find(std::begin(kFatal), std::end(kFatal), error) != std::end(kFatal))
    s.lost = error;
  return error;
}

// What allocates, frees, loads or waits is not for a thread that records launches, nor for one
// without a context. 0, or the error.
int forbidden(const char *function) {
  State &s = state();
  for (const auto &stream : s.streams)
    if (stream->recording != nullptr && stream->recorder == std::this_thread::get_id()) {
      say(s.errors, "%s while launches are recorded", function);
      return kCaptureUnsupported;
    }
  if (current == nullptr) {
    say(s.errors, "%s in no context", function);
    return kInvalidContext;
  }
  return 0;
}

// The host's address of `bytes` bytes on "the GPU"; null, and an error, where they are not in one
// live block.
unsigned char *find(uint64_t address, size_t bytes, const char *what) {
  State &s = state();
  auto after = s.live.upper_bound(address);
  if (after != s.live.begin()) {
    auto &[start, block] = *std::prev(after);
    if (block.gpu != running)
      say(s.errors, "%s: an address of GPU %d on GPU %d", what, block.gpu->number, running->number);
    else if (address + bytes <= start + block.bytes.size())
      return block.bytes.data() + (address - start);
  }
  say(s.errors, "%s: %zu bytes at %llx are not in one live block", what, bytes,
      static_cast<unsigned long long>(address));
  return nullptr;
}

// The rest of its block.
unsigned char *find_start(uint64_t address, const char *what) {
  return find(address, 0, what);
}

// A graph would read or write the host's memory when it is launched.
void refuse_graph(void *stream, const char *what) {
  if (static_cast<Stream *>(stream)->recording != nullptr)
    say(state().errors, "%s: the host's memory in a graph", what);
}

void put(void *stream, std::function<void()> run) {
  auto *on = static_cast<Stream *>(stream);
  if (current != on->gpu)
    say(state().errors, "a stream is used outside of its context");
  if (on->recording != nullptr) {
    if (on->recorder != std::this_thread::get_id())
      say(state().errors, "a thread puts work on a stream whose launches another one records");
    const std::string &log = state().log; // the call has its line there
    on->recording->shape += log.substr(log.rfind('\n', log.size() - 2) + 1);
    on->recording->work.push_back(std::move(run));
    return;
  }
  on->work.push_back(std::move(run));
}

void flush(Stream &stream) {
  running = stream.gpu;
  for (const std::function<void()> &work : stream.work)
    work();
  stream.work.clear();
}

// Names and parameters of the entries in a PTX text: pointers say what they lead to (.ptr).
Kernels entries(const char *text) {
  Kernels result;
  for (const char *at = text; (at = std::strstr(at, ".entry ")) != nullptr;) {
    at += 7;
    const char *open = std::strchr(at, '('), *close = std::strchr(at, ')');
    if (open == nullptr || close == nullptr)
      break;
    auto kernel = std::make_unique<Kernel>(Kernel{std::string(at, open), {}, false});
    for (const char *p = open; (p = std::strstr(p, ".param")) != nullptr && p < close; ++p) {
      const char *end = std::min(p + std::strcspn(p, ","), close);
      kernel->is_pointer.push_back(std::string_view(p, end).find(".ptr") != std::string_view::npos);
    }
    result.push_back(std::move(kernel));
    at = close;
  }
  return result;
}

} // namespace

namespace weft::backends::cuda::recording {

std::mutex &mutex() {
  return state().mutex;
}
int failure_of(const char *function) {
  return failure(function);
}
void record(const std::string &line) {
  state().log += line + "\n";
}
void object(const std::string &line) {
  state().errors += line + "\n";
}
bool has_context() {
  return current != nullptr;
}
const void *context_of_thread() {
  return current;
}
void put_on(void *stream, std::function<void()> run) {
  put(stream, std::move(run));
}
unsigned char *find_bytes(uint64_t address, size_t bytes, const char *what) {
  return find(address, bytes, what);
}

} // namespace weft::backends::cuda::recording

#define WEFT_UNRECORDED(function)                                                                  \
  WEFT_RECORDED(function)                                                                          \
  if (int error = forbidden(function))                                                             \
    return error;
#define WEFT_RECORDED(function)                                                                    \
  std::lock_guard lock(state().mutex);                                                             \
  if (int error = failure(function))                                                               \
    return error;

extern "C" {

const char *weft_recording_log() {
  return state().log.c_str();
}
const char *weft_recording_errors() {
  return state().errors.c_str();
}
long weft_recording_live() {
  return static_cast<long>(state().live.size()) + state().graphs;
}
void weft_recording_reset() {
  state().log.clear();
  state().errors.clear();
}
void weft_recording_fail(const char *function, int n, int error) {
  state().failing = function;
  state().fail_at = n;
  state().fail_with = error;
  state().lost = 0;
}
void weft_recording_run(weft_recording_kernel kernel) {
  state().kernel = kernel;
}

int cuInit(unsigned) {
  WEFT_RECORDED("cuInit")
  return 0;
}
int cuGetErrorString(int error, const char **text) {
  *text = error == 2     ? "out of memory"
          : error == 100 ? "no CUDA-capable device is detected"
                         : "an error";
  return 0;
}
int cuDeviceGetCount(int *count) {
  WEFT_RECORDED("cuDeviceGetCount")
  const char *text = std::getenv("WEFT_RECORDING_GPUS");
  *count = text ? std::atoi(text) : 1;
  return 0;
}
int cuDeviceGet(int *device, int ordinal) {
  int count = 0;
  *device = ordinal;
  return cuDeviceGetCount(&count) == 0 && ordinal < count ? 0 : kInvalid;
}
int cuDeviceGetAttribute(int *value, int attribute, int) {
  *value = attribute == 75 ? 9 : 0;
  return attribute == 75 || attribute == 76 ? 0 : kInvalid;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  static auto *gpus = new std::map<int, Gpu>;
  std::lock_guard lock(state().mutex);
  Gpu &gpu = (*gpus)[device];
  gpu.number = device;
  *context = &gpu;
  return 0;
}
int cuCtxSetCurrent(void *context) {
  current = static_cast<const Gpu *>(context);
  return context == nullptr ? kInvalid : 0;
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned, int *, void **) {
  WEFT_UNRECORDED("cuModuleLoadDataEx")
  Kernels &made = *state().modules.emplace_back(
      std::make_unique<Kernels>(entries(static_cast<const char *>(image))));
  for (const auto &kernel : made) {
    kernel->gpu = current;
    say(state().log, "load %s", kernel->name.c_str());
  }
  *module = &made;
  return made.empty() ? 218 : 0; // CUDA_ERROR_INVALID_PTX
}
int cuModuleUnload(void *module) {
  WEFT_UNRECORDED("cuModuleUnload")
  for (const auto &kernel : *static_cast<Kernels *>(module)) {
    say(state().log, "unload %s", kernel->name.c_str());
    kernel->unloaded = true;
  }
  return 0;
}
int cuModuleGetFunction(void **function, void *module, const char *name) {
  WEFT_UNRECORDED("cuModuleGetFunction")
  for (const auto &kernel : *static_cast<Kernels *>(module))
    if (kernel->name == name) {
      *function = kernel.get();
      return 0;
    }
  return 500; // CUDA_ERROR_NOT_FOUND
}
int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned, void *stream, void **arguments, void **) {
  WEFT_RECORDED("cuLaunchKernel")
  auto *kernel = static_cast<Kernel *>(function);
  say(state().log, "launch %s <<<%u, %u>>>", kernel->name.c_str(), gx, bx);
  if (gx == 0 || gx > 0x7fffffff || bx == 0 || bx > 1024 || gy * gz * by * bz != 1)
    say(state().errors, "%s: an impossible grid", kernel->name.c_str());
  if (kernel->gpu != current)
    say(state().errors, "%s: a kernel of another GPU", kernel->name.c_str());
  std::vector<uint64_t> values;
  for (size_t i = 0; i < kernel->is_pointer.size(); ++i)
    values.push_back(*static_cast<uint64_t *>(arguments[i]));
  put(stream, [kernel, values] {
    if (kernel->unloaded)
      say(state().errors, "%s: its module goes while the stream needs it", kernel->name.c_str());
    std::vector<void *> pointers;
    for (size_t i = 0; i < values.size(); ++i)
      pointers.push_back(!kernel->is_pointer[i] ? reinterpret_cast<void *>(values[i])
                         : values[i]            ? find_start(values[i], kernel->name.c_str())
                                                : nullptr);
    if (state().kernel)
      state().kernel(kernel->name.c_str(), pointers.data(), static_cast<int>(pointers.size()));
  });
  return 0;
}
int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
  WEFT_UNRECORDED("cuMemAlloc")
  State &s = state();
  *pointer = s.next;
  s.next += (bytes / 256 + 2) * 256; // a gap after each, so that what runs over is found
  s.live[*pointer] = {std::vector<unsigned char>(bytes, 0xAB), current};
  say(s.log, "allocate %zu", bytes);
  return bytes > 0 ? 0 : kInvalid;
}
int cuMemFree_v2(uint64_t pointer) {
  WEFT_UNRECORDED("cuMemFree")
  State &s = state();
  if (s.live.erase(pointer) == 0)
    say(s.errors, "memory is freed that is not allocated");
  say(s.log, "free");
  return 0;
}
int cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t bytes, void *stream) {
  WEFT_RECORDED("cuMemcpyHtoDAsync")
  say(state().log, "to device %zu", bytes);
  refuse_graph(stream, "copy to device");
  put(stream, [=] {
    if (unsigned char *to = find(target, bytes, "copy to device"))
      std::memcpy(to, source, bytes);
  });
  return 0;
}
int cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t bytes, void *stream) {
  WEFT_RECORDED("cuMemcpyDtoHAsync")
  say(state().log, "to host %zu", bytes);
  refuse_graph(stream, "copy to host");
  put(stream, [=] {
    if (unsigned char *from = find(source, bytes, "copy to host"))
      std::memcpy(target, from, bytes);
  });
  return 0;
}
int cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t bytes, void *stream) {
  WEFT_RECORDED("cuMemcpyDtoDAsync")
  say(state().log, "on device %zu", bytes);
  put(stream, [=] {
    unsigned char *to = find(target, bytes, "copy on device"),
                  *from = find(source, bytes, "copy on device");
    if (to && from && to < from + bytes && from < to + bytes)
      say(state().errors, "copy on device: %zu bytes onto themselves", bytes);
    else if (to && from)
      std::memcpy(to, from, bytes);
  });
  return 0;
}

struct CUDA_MEMCPY2D { // as cuda.h has it
  size_t srcXInBytes, srcY;
  int srcMemoryType;
  const void *srcHost;
  uint64_t srcDevice;
  void *srcArray;
  size_t srcPitch;
  size_t dstXInBytes, dstY;
  int dstMemoryType;
  void *dstHost;
  uint64_t dstDevice;
  void *dstArray;
  size_t dstPitch;
  size_t WidthInBytes, Height;
};
int cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *rows, void *stream) {
  WEFT_RECORDED("cuMemcpy2DAsync")
  const CUDA_MEMCPY2D c = *rows;
  size_t width = c.WidthInBytes;
  say(state().log, "on device %zu x %zu", width, c.Height);
  constexpr int kOnDevice = 2;
  constexpr size_t kMostPitch = 0x7fffffff; // CU_DEVICE_ATTRIBUTE_MAX_PITCH
  for (size_t pitch : {c.srcPitch, c.dstPitch})
    if (pitch < width || pitch > kMostPitch)
      return kInvalid;
  if (c.srcMemoryType != kOnDevice || c.dstMemoryType != kOnDevice || c.srcXInBytes != 0 ||
      c.srcY != 0 || c.dstXInBytes != 0 || c.dstY != 0)
    return kInvalid;
  put(stream, [=] {
    if (width == 0 || c.Height == 0)
      return;
    size_t all = c.Height - 1;
    unsigned char *from = find(c.srcDevice, all * c.srcPitch + width, "copy of rows on device"),
                  *to = find(c.dstDevice, all * c.dstPitch + width, "copy of rows on device");
    for (size_t i = 0; from != nullptr && to != nullptr && i < c.Height; ++i) {
      unsigned char *row = from + i * c.srcPitch, *target = to + i * c.dstPitch;
      if (target < row + width && row < target + width)
        return say(state().errors, "copy of rows on device: a row onto itself");
      std::memcpy(target, row, width);
    }
  });
  return 0;
}

static int fill(uint64_t target, size_t pitch, uint64_t value, size_t width, size_t count,
                void *stream) {
  say(state().log, "fill %zu x %zu", width, count);
  if (target % width != 0 || pitch % width != 0)
    return kInvalid;
  put(stream, [=] {
    if (count == 0)
      return;
    unsigned char *to = find(target, (count - 1) * pitch + width, "fill");
    for (size_t i = 0; to != nullptr && i < count; ++i)
      std::memcpy(to + i * pitch, &value, width);
  });
  return 0;
}
int cuMemsetD8Async(uint64_t target, unsigned char value, size_t count, void *stream) {
  WEFT_RECORDED("cuMemsetD8Async")
  return fill(target, 1, value, 1, count, stream);
}
int cuMemsetD16Async(uint64_t target, unsigned short value, size_t count, void *stream) {
  WEFT_RECORDED("cuMemsetD16Async")
  return fill(target, 2, value, 2, count, stream);
}
int cuMemsetD32Async(uint64_t target, unsigned value, size_t count, void *stream) {
  WEFT_RECORDED("cuMemsetD32Async")
  return fill(target, 4, value, 4, count, stream);
}
int cuMemsetD2D32Async(uint64_t target, size_t pitch, unsigned value, size_t width, size_t height,
                       void *stream) {
  WEFT_RECORDED("cuMemsetD2D32Async")
  if (width != 1)
    return kInvalid;
  return fill(target, pitch, value, 4, height, stream);
}
int cuStreamCreate(void **stream, unsigned) {
  std::lock_guard lock(state().mutex);
  auto made = std::make_unique<Stream>(current);
  *stream = made.get();
  state().streams.push_back(std::move(made));
  return 0;
}
int cuStreamSynchronize(void *stream) {
  std::lock_guard lock(state().mutex);
  auto *on = static_cast<Stream *>(stream);
  if (int error = failure("cuStreamSynchronize")) {
    on->work.clear(); // a failed context does nothing any more
    return error;
  }
  if (on->recording != nullptr) {
    say(state().errors, "a stream is waited for whose launches are recorded");
    return kCaptureUnsupported;
  }
  say(state().log, "synchronize");
  flush(*on);
  return 0;
}
int cuStreamBeginCapture_v2(void *stream, int) {
  WEFT_RECORDED("cuStreamBeginCapture")
  say(state().log, "record");
  static_cast<Stream *>(stream)->recording = new Graph;
  static_cast<Stream *>(stream)->recorder = std::this_thread::get_id();
  return 0;
}
int cuStreamEndCapture(void *stream, void **graph) {
  std::lock_guard lock(state().mutex);
  if (static_cast<Stream *>(stream)->recorder != std::this_thread::get_id())
    say(state().errors, "a graph's recording ends on another thread than it began");
  *graph = std::exchange(static_cast<Stream *>(stream)->recording, nullptr);
  if (int error = failure("cuStreamEndCapture")) {
    delete static_cast<Graph *>(std::exchange(*graph, nullptr));
    return error;
  }
  ++state().graphs;
  return 0;
}
int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long) {
  WEFT_RECORDED("cuGraphInstantiateWithFlags")
  say(state().log, "graph of %zu", static_cast<Graph *>(graph)->work.size());
  *exec = new Graph(*static_cast<Graph *>(graph));
  ++state().graphs;
  return 0;
}
int cuGraphExecUpdate_v2(void *exec, void *graph, void *) {
  WEFT_RECORDED("cuGraphExecUpdate")
  if (static_cast<Graph *>(exec)->shape != static_cast<Graph *>(graph)->shape)
    return 910; // CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE
  say(state().log, "update a graph");
  *static_cast<Graph *>(exec) = *static_cast<Graph *>(graph);
  return 0;
}
int cuGraphLaunch(void *exec, void *stream) {
  WEFT_RECORDED("cuGraphLaunch")
  say(state().log, "launch a graph");
  for (const std::function<void()> &work : static_cast<Graph *>(exec)->work)
    put(stream, work);
  return 0;
}
static int destroy(void *graph) {
  std::lock_guard lock(state().mutex);
  delete static_cast<Graph *>(graph);
  --state().graphs;
  return 0;
}
int cuGraphDestroy(void *graph) {
  return destroy(graph);
}
int cuGraphExecDestroy(void *exec) {
  return destroy(exec);
}

} // extern "C"
