#include "compiler/schedule/Measured.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "compiler/codegen/Choices.h"
#include "compiler/plan/KernelStructure.h"
#include "compiler/schedule/KernelTuner.h"
#include "compiler/schedule/Limits.h"
#include "compiler/schedule/Pins.h"
#include "runtime/core/caches.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"

namespace weft::compiler {
namespace {

constexpr size_t kHashDigits = 32; // of 128 bits

// Seconds that this process has measured for, over all targets; threads measure one at a time.
std::mutex measuring;
double measuredSeconds = 0;

std::string hashOf(const std::string &text) {
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(llvm::arrayRefFromStringRef(text));
  return llvm::utohexstr(hash.high64, /*LowerCase=*/true, kHashDigits / 2) +
         llvm::utohexstr(hash.low64, /*LowerCase=*/true, kHashDigits / 2);
}

struct All {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<MeasuredSchedules>> byFile;
};
All &all() {
  static auto *all = new All; // threads that outlive main() may still compile
  return *all;
}

} // namespace

static const runtime::RegisteredCache
    cache("measured schedules", "nothing; rm of the file: the next process knows none",
          [] { return MeasuredSchedules::use(); });

MeasuredSchedules &MeasuredSchedules::of(const std::string &folder, const TargetInfo &target) {
  std::string file;
  if (!folder.empty()) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, "schedules-" + target.cpu + "-" +
                                      hashOf(target.key()).substr(0, kHashDigits / 4) + ".txt");
    file = std::string(path);
  }
  std::lock_guard lock(all().mutex);
  std::unique_ptr<MeasuredSchedules> &one = all().byFile[file.empty() ? target.key() : file];
  if (!one)
    one = std::make_unique<MeasuredSchedules>(file);
  return *one;
}

runtime::CacheUse MeasuredSchedules::use() {
  runtime::CacheUse use{0, 0, kMostMeasuredKernels, -1};
  std::lock_guard lock(all().mutex);
  for (const auto &[file, one] : all().byFile) {
    std::lock_guard inner(one->mutex_);
    use.entries += int64_t(one->choices_.size());
    for (const auto &[hash, choices] : one->choices_)
      use.bytes += int64_t(hash.size() + choices.size());
  }
  return use;
}

MeasuredSchedules::MeasuredSchedules(std::string file) : file_(std::move(file)) {
  read();
}

void MeasuredSchedules::read() {
  if (file_.empty())
    return;
  auto buffer = llvm::MemoryBuffer::getFile(file_);
  if (!buffer)
    return; // nothing was measured yet
  llvm::SmallVector<llvm::StringRef> lines;
  (*buffer)->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : llvm::ArrayRef(lines).take_back(kMostMeasuredKernels)) {
    auto [hash, rest] = line.split(' ');
    size_t choices = rest.find(": {");
    // Half a line of a process that died, or no line of ours.
    if (hash.size() != kHashDigits || choices == llvm::StringRef::npos || !rest.ends_with("}"))
      continue;
    choices_[hash.str()] = rest.drop_front(choices + 2).str();
  }
  key_ = hashOf((*buffer)->getBuffer().str());
}

std::string MeasuredSchedules::append(const std::string &lines) {
  if (file_.empty() || lines.empty())
    return "";
  // A missing folder shows when the file is opened.
  llvm::sys::fs::create_directories(llvm::sys::path::parent_path(file_), true,
                                    llvm::sys::fs::owner_all);
  // One write at the end of the file: other processes' lines stay whole.
  int file = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  bool isWritten = file >= 0 && ::write(file, lines.data(), lines.size()) == ssize_t(lines.size());
  std::string why = isWritten ? "" : std::strerror(errno);
  if (file >= 0)
    ::close(file);
  return isWritten ? "" : "cannot keep what was measured in " + file_ + ": " + why;
}

void MeasuredSchedules::apply(mlir::ModuleOp module, double seconds,
                              std::vector<std::string> &remarks) {
  using Clock = KernelTuner::Clock;
  {
    std::lock_guard lock(mutex_);
    if (choices_.empty() && seconds <= 0)
      return;
  }
  std::unique_lock measure(measuring, std::defer_lock);
  if (seconds > 0)
    measure.lock();
  auto start = Clock::now();
  // Under the lock where it is looked at.
  auto left = std::chrono::duration<double>(seconds > 0 ? seconds - measuredSeconds : 0);
  KernelTuner tuner(start + std::chrono::duration_cast<Clock::duration>(left));
  std::string lines;
  int64_t known = 0, measured = 0, faster = 0, unknown = 0;
  for (const EqualFusions &kernel : kernelsByWork(module)) {
    ir::FusionOp first = kernel.fusions[0];
    if (first->hasAttr(kScheduleAttr))
      continue;
    std::string hash = hashOf(lastingStructureOf(first)), choices;
    bool isKnown;
    {
      std::lock_guard lock(mutex_);
      auto found = choices_.find(hash);
      isKnown = found != choices_.end();
      choices = isKnown ? found->second : "";
    }
    if (!isKnown && seconds > 0 && !tuner.isOver()) {
      absl::StatusOr<TunedKernel> tuned = tuner.tune(first);
      if (!tuned.ok()) {
        remarks.push_back("schedule: " + kernelText(first) + ": " +
                          std::string(tuned.status().message()));
        continue;
      }
      llvm::raw_string_ostream(choices) << scheduleAttr(module.getContext(), tuned->better);
      remarks.push_back("schedule: " + kernelText(first) + ": " + tuned->triedText() +
                        (tuned->better.empty() ? "" : "; taken: " + choices));
      ++(tuned->isWhole ? measured : unknown);
      faster += tuned->isWhole && !tuned->better.empty();
      // One that the time was too short for is measured again.
      if (tuned->isWhole) {
        lines += hash + " " + kernelText(first) + ": " + choices + "\n";
        std::lock_guard lock(mutex_);
        if (choices_.size() < kMostMeasuredKernels)
          choices_.emplace(hash, choices);
      }
    } else if (!isKnown) {
      ++unknown;
      continue;
    }
    known += isKnown;
    // Of a line that somebody edited, nothing.
    if (mlir::DictionaryAttr pins = choicesOf(choices, module.getContext()))
      for (ir::FusionOp fusion : kernel.fusions)
        pin(fusion, pins);
  }
  if (seconds <= 0)
    return;
  double took = std::chrono::duration<double>(Clock::now() - start).count();
  measuredSeconds += took;
  if (std::string why = append(lines); !why.empty())
    remarks.push_back("schedule: " + why);
  std::string text;
  llvm::raw_string_ostream(text) << "schedule: measured " << measured << " kernels in "
                                 << llvm::format("%.1f", took) << " s, " << faster
                                 << " are faster so; " << known
                                 << " were known, for " << unknown << " no time was left";
  remarks.push_back(std::move(text));
}

} // namespace weft::compiler
