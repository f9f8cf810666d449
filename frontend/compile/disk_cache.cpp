#include "frontend/compile/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <optional>

#include "frontend/compile/SliceDigest.inc"
#include "frontend/compile/compile_slice.h"
#include "runtime/executable/check_specs.h"
#include "runtime/executable/executable.h"
#include "runtime/io/files.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

namespace weft::recorder {
namespace {

namespace fs = std::filesystem;

// An entry: this header with the report's figures, the lines of ops that may end a run and the
// report's remarks (each ends in a 0), the backend's blob. Raise the version with every change to
// what is written.
constexpr char kMagic[8] = {'w', 'e', 'f', 't', 'c', 'a', 'c', '7'};
struct Header {
  char magic[8];
  uint64_t places_bytes, remarks_bytes, blob_bytes;
  int64_t report[11];   // figures_of()
  uint8_t checksum[32]; // SHA-256 of the key and everything else
};

// What an entry keeps of a report.
std::array<int64_t *, 11> figures_of(compiler::CompileReport &report) {
  return {&report.kernels,
          &report.launches,
          &report.libraryCalls,
          &report.copies,
          &report.codeBytes,
          &report.preparedValues,
          &report.plan.arenaBytes,
          &report.plan.liveBound,
          &report.plan.constantBytes,
          &report.plan.recomputations,
          &report.plan.storedBytes};
}

// Texts that each end in a 0.
void split_texts(llvm::StringRef all, std::vector<std::string> &texts) {
  while (!all.empty()) {
    auto [text, after] = all.split('\0');
    texts.push_back(text.str());
    all = after;
  }
}

std::array<uint8_t, 32> sha256(llvm::ArrayRef<llvm::StringRef> pieces) {
  llvm::SHA256 hash;
  for (llvm::StringRef piece : pieces)
    hash.update(piece);
  return hash.final();
}

// Of the key as well, so that a file under another one's name is damaged: it would run as a program
// of other inputs. rest: what follows the header.
std::array<uint8_t, 32> checksum(llvm::StringRef key, Header header, llvm::StringRef rest) {
  std::memset(header.checksum, 0, sizeof header.checksum);
  return sha256(
      {key, llvm::StringRef(reinterpret_cast<const char *>(&header), sizeof header), rest});
}

// $XDG_CACHE_HOME/weft, else $HOME/.cache/weft, else nothing.
std::string default_folder() {
  if (const char *xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg)
    return std::string(xdg) + "/weft";
  if (const char *home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.cache/weft";
  return "";
}

// A folder that others may write to is refused though it is there, and one that was asked for may
// not be made, which whoever set it up does not expect. Once in a process.
std::string refused(const std::string &why) {
  static std::atomic<bool> told = false;
  if (!told.exchange(true))
    std::fprintf(stderr, "weft: the disk cache is off, and every process compiles anew: %s\n",
                 why.c_str());
  return why;
}

// Makes the folder if it is missing. Empty when it is ours and closed to others, else why it cannot
// be used.
std::string prepare(const std::string &folder) {
  std::error_code error;
  if (fs::path parent = fs::path(folder).parent_path(); !parent.empty())
    fs::create_directories(parent, error);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return "cannot make " + folder + ": " + std::strerror(errno);
  struct stat info;
  if (::stat(folder.c_str(), &info) != 0)
    return "cannot read " + folder + ": " + std::strerror(errno);
  if (!S_ISDIR(info.st_mode))
    return folder + " is not a folder";
  if (info.st_uid != ::geteuid())
    return refused(folder + " belongs to another user (its entries are code); give WEFT_CACHE_DIR "
                            "a folder of your own");
  if ((info.st_mode & 0077) != 0) {
    char mode[8];
    std::snprintf(mode, sizeof mode, "%04o", info.st_mode & 07777);
    return refused(folder + " has mode " + mode +
                   " and is open to other users (its entries are code): chmod 700 " + folder);
  }
  return "";
}

struct Entry {
  fs::path path;
  int64_t bytes;
  double used; // in seconds
};

// The folder's, after what processes that died have left has gone.
std::vector<Entry> entries_of(const std::string &folder) {
  std::vector<Entry> entries;
  std::error_code error, gone;
  constexpr double kLongest = 3600; // that a process writes one
  for (const fs::directory_entry &file : fs::directory_iterator(folder, error)) {
    struct stat info; // of a folder with many entries, one call for each is what the time goes to
    if (::stat(file.path().c_str(), &info) != 0)
      continue; // another process was faster
    Entry entry{file.path(), static_cast<int64_t>(info.st_size),
                static_cast<double>(info.st_mtim.tv_sec) +
                    static_cast<double>(info.st_mtim.tv_nsec) * 1e-9};
    if (entry.path.extension() == ".weft")
      entries.push_back(std::move(entry));
    else if (entry.path.filename().string().starts_with("tmp.") &&
             static_cast<double>(std::time(nullptr)) - entry.used > kLongest)
      fs::remove(entry.path, gone);
  }
  return entries;
}

int64_t bytes_of(const std::vector<Entry> &entries) {
  int64_t bytes = 0;
  for (const Entry &entry : entries)
    bytes += entry.bytes;
  return bytes;
}

// What the process knows of the folder that it wrote to last: it looks at its files once, and then
// adds up what it writes itself.
struct KnownFolder {
  std::mutex mutex; // of all below
  std::string folder;
  int64_t bytes = 0;   // found, and written since
  int64_t written = 0; // since it looked
};
KnownFolder &known_folder() {
  static auto *known = new KnownFolder; // threads that outlive main() may still compile
  return *known;
}
// Other processes write, too: who has written this part of the bound looks again. So n processes
// that write at once hold the folder below (1 + n / 16) bounds; in a full one as much goes at once,
// so that the next programs do not each look again.
constexpr int64_t kParts = 16;

// Where the entries are over the bound; gives the bytes that are left. One that fits stays.
int64_t keep_newest(std::vector<Entry> entries, int64_t bound) {
  int64_t total = bytes_of(entries);
  if (total <= bound)
    return total;
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry &entry : entries) {
    if (total <= bound - bound / kParts || (total <= bound && total == entry.bytes))
      break;
    std::error_code gone;
    fs::remove(entry.path, gone);
    total -= entry.bytes;
  }
  return total;
}

// Null where it is damaged or of another make.
std::shared_ptr<CompiledProgram> read_entry(llvm::StringRef key, llvm::StringRef bytes,
                                            compiler::Backend &backend) {
  Header header;
  if (bytes.size() < sizeof header)
    return nullptr;
  std::memcpy(&header, bytes.data(), sizeof header);
  llvm::StringRef rest = bytes.drop_front(sizeof header);
  auto expected = checksum(key, header, rest);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.places_bytes > rest.size() ||
      header.remarks_bytes > rest.size() - header.places_bytes ||
      header.blob_bytes != rest.size() - header.places_bytes - header.remarks_bytes ||
      std::memcmp(header.checksum, expected.data(), expected.size()) != 0)
    return nullptr;
  auto executable = backend.load(llvm::ArrayRef<char>(rest.end() - header.blob_bytes, rest.end()));
  if (!executable.ok() || !*executable ||
      !runtime::check_ties((*executable)->input_specs(), (*executable)->output_specs()).ok())
    return nullptr;
  auto program = std::make_shared<CompiledProgram>();
  program->executable = *std::move(executable);
  for (auto [i, figure] : llvm::enumerate(figures_of(*program->report)))
    *figure = header.report[i];
  split_texts(rest.take_front(header.places_bytes), program->check_places);
  split_texts(rest.substr(header.places_bytes, header.remarks_bytes), program->report->remarks);
  program->bytes = static_cast<int64_t>(bytes.size());
  return program;
}

} // namespace

std::string cache_folder(const Config &config) {
  if (config.cache_dir == "off")
    return "";
  return config.cache_dir.empty() ? default_folder() : config.cache_dir;
}

DiskCache::DiskCache(const Config &config, compiler::Backend &backend)
    : backend_(backend), bound_(config.disk_cache_bytes) {
  compiler::CompileOptions options = compile_options(config);
  target_key_ = backend.targetKey(options);
  folder_ = cache_folder(config);
  if (config.cache_dir == "off")
    why_off_ = "switched off";
  else if (folder_.empty())
    why_off_ = "neither WEFT_CACHE_DIR, XDG_CACHE_HOME nor HOME is set";
  else if (!config.dump_dir.empty())
    why_off_ = "every program is compiled while phases are dumped";
  else if (std::string why = backend.whyNotCachable(options); !why.empty())
    why_off_ = why;
  else if (target_key_.empty())
    why_off_ = "backend " + backend.name().str() + " has nothing to store";
  else if (why_off_ = prepare(folder_); !why_off_.empty() && !config.cache_dir.empty())
    refused(why_off_);
  if (!why_off_.empty())
    why_off_ = "off: " + why_off_;
}

runtime::CacheUse DiskCache::use(const Config &config) {
  std::string folder = cache_folder(config);
  std::vector<Entry> entries;
  if (!folder.empty())
    entries = entries_of(folder);
  return {static_cast<int64_t>(entries.size()), bytes_of(entries), -1, config.disk_cache_bytes};
}

std::string DiskCache::key(const std::string &content) const {
  std::string length = std::to_string(target_key_.size()) + ":";
  auto digest = sha256(
      {kSliceDigest, backend_.name(), llvm::StringRef("\0", 1), length, target_key_, content});
  return llvm::toHex(digest, /*LowerCase=*/true);
}

DiskCache::Lookup DiskCache::load(const std::string &key) {
  Lookup lookup;
  std::string path = folder_ + "/" + key + ".weft";
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0)
    return lookup;
  // While the folder was open to others, they may have put files there.
  if (S_ISREG(info.st_mode) && info.st_uid == ::geteuid() && info.st_size <= bound_) {
    auto bytes = runtime::read_file(path);
    if (!bytes.ok())
      return lookup; // another process was faster, or this one is short of files or memory
    lookup.program =
        read_entry(key, {reinterpret_cast<const char *>(bytes->data()), bytes->size()}, backend_);
  }
  lookup.corrupt = !lookup.program;
  if (lookup.corrupt)
    ::unlink(path.c_str());
  else
    ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); // used just now
  return lookup;
}

absl::Status DiskCache::store(const std::string &key, const CompiledProgram &program) {
  std::optional<std::string> blob = backend_.serialize(*program.executable);
  if (!blob)
    return absl::UnimplementedError("backend " + backend_.name().str() +
                                    " cannot write this program");
  Header header;
  std::memset(&header, 0, sizeof header);
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::string rest;
  for (const std::string &place : program.check_places)
    rest += place + '\0';
  header.places_bytes = rest.size();
  for (const std::string &remark : program.report->remarks)
    rest += remark + '\0';
  header.remarks_bytes = rest.size() - header.places_bytes;
  header.blob_bytes = blob->size();
  rest += *blob;
  for (auto [i, figure] : llvm::enumerate(figures_of(*program.report)))
    header.report[i] = *figure;
  auto digest = checksum(key, header, rest);
  std::memcpy(header.checksum, digest.data(), digest.size());

  std::string path = folder_ + "/" + key + ".weft";
  llvm::SmallString<128> temporary;
  namespace files = llvm::sys::fs;
  int file;
  if (std::error_code error =
          files::createUniqueFile(folder_ + "/tmp.%%%%%%%%", file, temporary, files::OF_None,
                                  files::owner_read | files::owner_write))
    return absl::UnavailableError("cannot write in " + folder_ + ": " + error.message());
  llvm::raw_fd_ostream stream(file, /*shouldClose=*/true);
  stream.write(reinterpret_cast<const char *>(&header), sizeof header) << rest;
  stream.close();
  std::error_code error = stream.error();
  stream.clear_error();
  if (!error)
    error = files::rename(temporary, path);
  if (error) {
    files::remove(temporary);
    return absl::UnavailableError("cannot write " + path + ": " + error.message());
  }
  trim(static_cast<int64_t>(sizeof header + rest.size()));
  return absl::OkStatus();
}

void DiskCache::trim(int64_t written) {
  KnownFolder &known = known_folder();
  std::lock_guard lock(known.mutex);
  known.bytes += written;
  known.written += written;
  bool is_known = known.folder == folder_;
  if (is_known && known.bytes <= bound_ && known.written <= bound_ / kParts)
    return;
  known.folder = folder_;
  known.bytes = keep_newest(entries_of(folder_), bound_);
  known.written = 0;
}

} // namespace weft::recorder
