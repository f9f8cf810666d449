#include "runtime/memory/memory.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"
#include "runtime/core/thrown.h"
#include "runtime/memory/asking.h"
#include "runtime/memory/buffer.h"
#include "runtime/memory/prepared_store.h"

namespace weft::runtime {
namespace {

constexpr int64_t kAlignment = 64;
constexpr size_t kHoldersNamed = 4; // in a message

// For who traces memory.
struct Purpose {
  explicit Purpose(const char *purpose) {
    asking.purpose = purpose;
  }
  ~Purpose() {
    asking.purpose = "";
  }
};

// A user's own allocator may throw.
absl::StatusOr<void *> ask(Allocator &allocator, int64_t bytes) {
  try {
    return allocator.allocate(bytes, kAlignment);
  } catch (const std::bad_alloc &) {
    return absl::ResourceExhaustedError("the allocator threw std::bad_alloc");
  } catch (...) {
    return absl::InternalError("the allocator " + thrown_text());
  }
}

// So may its free(), where there is nobody to tell: the memory is the allocator's affair.
void give_back(Allocator &allocator, void *data, int64_t bytes) {
  try {
    allocator.free(data, bytes);
  } catch (...) {
    std::fprintf(stderr, "weft: free() of the allocator, given %s, %s\n",
                 format_bytes(bytes).c_str(), thrown_text().c_str());
  }
}

} // namespace

std::string format_bytes(int64_t bytes) {
  static constexpr const char *kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes > -1024 && bytes < 1024)
    return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; (value >= 1024 || value <= -1024) && unit + 1 < std::size(kUnits); ++unit)
    value /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f %s", value, kUnits[unit]);
  return text;
}

std::shared_ptr<Memory> Memory::create(std::shared_ptr<Allocator> allocator) {
  return std::shared_ptr<Memory>(new Memory(std::move(allocator)));
}

absl::StatusOr<std::shared_ptr<Buffer>> Memory::allocate(int64_t bytes, const char *purpose) {
  Purpose stated(purpose);
  absl::StatusOr<void *> data = ask(*allocator_, bytes);
  // Prepared results can be made again: they go before a request fails. More bytes than were asked
  // for may have to go, since freed blocks need not be contiguous.
  while (!data.ok() && absl::IsResourceExhausted(data.status()) &&
         PreparedStore::instance().release(*this, std::max<int64_t>(bytes, 1)) > 0)
    data = ask(*allocator_, bytes);
  if (data.ok() && (*data == nullptr || reinterpret_cast<uintptr_t>(*data) % kAlignment != 0)) {
    // A user's own allocator may be wrong.
    if (*data != nullptr)
      give_back(*allocator_, *data, bytes);
    return absl::InternalError(absl::StrCat(
        "the allocator gave a null or badly aligned pointer for ", format_bytes(bytes)));
  }
  if (!data.ok()) {
    std::string message =
        absl::StrCat("out of memory: ", purpose, " asked for ", format_bytes(bytes), "; in use ",
                     format_bytes(allocator_->stats().live_bytes));
    std::vector<MemoryHolder> largest = holders();
    for (size_t i = 0; i < std::min(largest.size(), kHoldersNamed); ++i)
      absl::StrAppend(&message, i == 0 ? ", by " : ", ", largest[i].purpose, " ",
                      format_bytes(largest[i].bytes), " in ", largest[i].buffers,
                      largest[i].buffers == 1 ? " buffer" : " buffers");
    absl::StrAppend(&message, " (", data.status().message(), ")");
    return absl::Status(data.status().code(), message);
  }
  std::shared_ptr<Buffer> buffer = Buffer::make(*data, bytes, purpose);
  buffer->memory_ = shared_from_this();
  account(purpose, bytes, 1);
  return buffer;
}

void Memory::release(void *data, int64_t bytes, const char *purpose) {
  account(purpose, -bytes, -1);
  give_back(*allocator_, data, bytes);
}

void Memory::account(const char *purpose, int64_t bytes, int64_t buffers) {
  std::lock_guard lock(mutex_);
  // The same purpose is nearly always the same literal.
  auto row = std::find_if(holders_.begin(), holders_.end(),
                          [&](const MemoryHolder &holder) { return holder.purpose == purpose; });
  if (row == holders_.end())
    row = std::find_if(holders_.begin(), holders_.end(), [&](const MemoryHolder &holder) {
      return std::strcmp(holder.purpose, purpose) == 0;
    });
  if (row == holders_.end())
    row = holders_.insert(holders_.end(), MemoryHolder{purpose});
  row->bytes += bytes;
  row->buffers += buffers;
}

std::vector<MemoryHolder> Memory::holders() const {
  std::vector<MemoryHolder> result;
  {
    std::lock_guard lock(mutex_);
    std::copy_if(holders_.begin(), holders_.end(), std::back_inserter(result),
                 [](const MemoryHolder &holder) { return holder.buffers > 0; });
  }
  std::sort(result.begin(), result.end(),
            [](const MemoryHolder &a, const MemoryHolder &b) { return a.bytes > b.bytes; });
  return result;
}

} // namespace weft::runtime
