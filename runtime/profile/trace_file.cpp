#include "runtime/profile/trace_file.h"

#include <cmath>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"

namespace weft::runtime::profile {
namespace {

// Microseconds, as the format wants them, with all nanoseconds.
void append_microseconds(std::string &to, int64_t nanoseconds) {
  char text[32];
  auto whole = std::to_chars(text, text + sizeof text, nanoseconds / 1000);
  to.append(text, whole.ptr);
  auto rest = static_cast<int>(nanoseconds % 1000);
  if (rest == 0)
    return;
  const char digits[] = {'.', static_cast<char>('0' + rest / 100),
                         static_cast<char>('0' + rest / 10 % 10),
                         static_cast<char>('0' + rest % 10)};
  to.append(digits, sizeof digits);
}

void append_number(std::string &to, double number) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, number, std::chars_format::general, 6);
  to.append(text, end.ptr);
}

void append_exactly(std::string &to, double number) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, number);
  to.append(text, end.ptr);
}

// "model name : ..." of the first processor.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown";
}

std::string host_name() {
  char text[256] = "";
  gethostname(text, sizeof text - 1);
  return text;
}

bool write_all(int descriptor, const std::string &text, int64_t offset) {
  size_t written = 0;
  while (written < text.size()) {
    ssize_t count = pwrite(descriptor, text.data() + written, text.size() - written,
                           offset + static_cast<int64_t>(written));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      return false;
    written += static_cast<size_t>(count);
  }
  return true;
}

// Opened, empty, and this process's alone; -1 and errno otherwise. EWOULDBLOCK: another process
// writes it.
int open_alone(const std::string &file) {
  int descriptor = ::open(file.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor == -1)
    return -1;
  if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && ftruncate(descriptor, 0) == 0)
    return descriptor;
  int error = errno;
  ::close(descriptor);
  errno = error;
  return -1;
}

} // namespace

absl::Status TraceFile::open(const std::string &file, int64_t origin) {
  name_ = file;
  descriptor_ = open_alone(name_);
  if (descriptor_ == -1 && errno == EWOULDBLOCK) {
    name_ = absl::StrCat(file, ".", getpid());
    descriptor_ = open_alone(name_);
  }
  if (descriptor_ == -1) {
    int error = errno;
    return absl::InvalidArgumentError(
        absl::StrCat("no profile is written: ", name_, ": ", std::strerror(error)));
  }
  origin_ = origin;
  offset_ = 0;
  said_dropped_ = -1;
  is_empty_ = true;
  failed_ = false;
  Args machine;
  machine.add("version", 1)
      .add("processor", processor())
      .add("processors", static_cast<int64_t>(std::thread::hardware_concurrency()))
      .add("host", host_name());
  pending_ = absl::StrCat("{\"displayTimeUnit\":\"ns\",\"weft\":{", machine.take(),
                          "},\n\"traceEvents\":[\n");
  next();
  Args process;
  process.add("name", absl::StrCat("weft ", getpid()));
  absl::StrAppend(&pending_, R"({"name":"process_name","ph":"M","pid":)", getpid(),
                  ",\"tid\":0,\"args\":{", process.take(), "}}");
  write(0);
  if (!failed_)
    return absl::OkStatus();
  close();
  return absl::InvalidArgumentError(absl::StrCat("no profile is written: ", name_, ": no room"));
}

void TraceFile::next() {
  if (!is_empty_)
    pending_ += ",\n";
  is_empty_ = false;
}

void TraceFile::add_thread(int thread, const std::string &name) {
  next();
  Args args;
  args.add("name", name);
  absl::StrAppend(&pending_, R"({"name":"thread_name","ph":"M","pid":)", getpid(),
                  ",\"tid\":", thread, ",\"args\":{", args.take(), "}}");
}

bool TraceFile::add(int thread, const Event &event, const Label &label) {
  if (failed_ || offset_ + static_cast<int64_t>(pending_.size()) >= kFileBytes)
    return false;
  next();
  pending_ += "{\"name\":";
  pending_ += label.name;
  bool is_counter = label.kind == Kind::kCounter;
  if (!is_counter) {
    pending_ += ",\"cat\":\"";
    pending_ += profile::name(label.kind);
    pending_ += '"';
  }
  pending_ += is_counter ? ",\"ph\":\"C\",\"ts\":" : ",\"ph\":\"X\",\"ts\":";
  append_microseconds(pending_, event.begin - origin_);
  if (!is_counter) {
    pending_ += ",\"dur\":";
    append_microseconds(pending_, event.duration);
  }
  absl::StrAppend(&pending_, ",\"pid\":", getpid(), ",\"tid\":", thread, ",\"args\":{");
  size_t start = pending_.size();
  auto key = [&](std::string_view name) {
    if (pending_.size() > start)
      pending_ += ',';
    pending_ += '"';
    pending_ += name;
    pending_ += "\":";
  };
  pending_ += label.args;
  if (*label.value) {
    key(label.value);
    absl::StrAppend(&pending_, event.value);
  }
  auto rate = [&](std::string_view amount, double of, std::string_view pace) {
    if (!(of > 0) || !std::isfinite(of))
      return;
    key(amount);
    append_exactly(pending_, of);
    if (event.duration > 0) {
      key(pace);
      append_number(pending_, of / static_cast<double>(event.duration));
    }
  };
  rate("flops", label.flops, "GFLOP/s");
  rate("bytes", label.bytes, "GB/s");
  pending_ += "}}";
  return true;
}

void TraceFile::write(int64_t dropped) {
  if (failed_ || (pending_.empty() && dropped == said_dropped_))
    return;
  auto bytes = static_cast<int64_t>(pending_.size());
  // One write: a process that ends between two leaves a whole file.
  absl::StrAppend(&pending_, "\n],\"dropped\":", dropped, "}\n");
  if (!write_all(descriptor_, pending_, offset_)) {
    failed_ = true;
    std::fprintf(stderr, "weft: the profile ends early: %s: %s\n", name_.c_str(),
                 std::strerror(errno));
    // What was whole before it failed.
    std::string end = absl::StrCat("\n],\"dropped\":", std::max<int64_t>(said_dropped_, 0), "}\n");
    if (ftruncate(descriptor_, offset_) == 0)
      (void)write_all(descriptor_, end, offset_);
  } else {
    offset_ += bytes;
    said_dropped_ = dropped;
  }
  pending_.clear();
}

void TraceFile::close() {
  if (descriptor_ != -1)
    ::close(descriptor_);
  descriptor_ = -1;
}

} // namespace weft::runtime::profile
