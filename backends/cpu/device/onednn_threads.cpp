// Distributions build oneDNN with OpenMP, whose threads wait for each other at barriers for
// milliseconds without giving up their processors. Of OpenMP the library uses six functions. It
// reaches them through a table of addresses that the dynamic linker has filled. Here these six
// entries are replaced, in oneDNN's table alone: nobody else in the process sees anything of it.
// Calls that Weft did not make, of others who use the same library, go on to the functions that
// stood there.
#include "backends/cpu/device/onednn_threads.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/core/spin.h"
#include "runtime/threading/parallel_for.h"
#include "runtime/threading/thread_pool.h"

namespace weft::backends::cpu {
namespace {

using runtime::ThreadPool;

// A parallel region of the library's.
struct Region {
  void (*body)(void *data);
  void *data;
  int shares, team;
  std::atomic<int> arrived{0};
  std::atomic<uint32_t> barriers{0}; // that were passed
  std::atomic<bool> met_nan{false};
};

// What the calling thread is to the library.
struct Member {
  int team = 0; // OnednnTeam's threads; 0: the call is not Weft's
  Region *region = nullptr;
  int share = 0;
  int given = 0; // threads that a region of the team got and were too few; 0: none was short
  bool met_nan = false; // in a region of the team
};
thread_local Member member;

// What stood in the table, by the names of kEntries.
struct {
  void (*parallel)(void (*)(void *), void *, unsigned, unsigned) = nullptr;
  void (*barrier)() = nullptr;
  int (*max_threads)() = nullptr, (*num_threads)() = nullptr, (*thread_num)() = nullptr,
      (*in_parallel)() = nullptr;
} openmp;

// Shares wait for each other at barriers: there are no more of them than threads (ThreadPool::run).
void parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags) {
  if (member.team == 0)
    return openmp.parallel(body, data, threads, flags);
  int wanted = threads == 0 ? member.team : static_cast<int>(threads);
  int shares =
      wanted == 1 || ThreadPool::in_task() ? 1 : ThreadPool::of_this_thread().reserve(wanted);
  if (shares < wanted && !ThreadPool::in_task()) {
    member.given = shares;
    return;
  }
  Region region{body, data, shares, member.team};
  auto run_share = [](void *data, int, int share) {
    auto &region = *static_cast<Region *>(data);
    Member before = std::exchange(member, {region.team, &region, share});
    InvalidFlag flag;
    region.body(region.data);
    if (flag.is_raised())
      region.met_nan.store(true, std::memory_order_relaxed);
    member = before;
  };
  if (shares == 1)
    run_share(&region, 0, 0);
  else
    ThreadPool::of_this_thread().run(shares, shares, run_share, &region);
  member.met_nan = member.met_nan || region.met_nan.load(std::memory_order_relaxed);
}

void barrier() {
  if (member.team == 0)
    return openmp.barrier();
  Region *region = member.region;
  if (!region)
    return;
  uint32_t passed = region->barriers.load();
  if (region->arrived.fetch_add(1) + 1 == region->shares) {
    region->arrived.store(0);
    region->barriers.fetch_add(1);
    region->barriers.notify_all();
    return;
  }
  static const int processors = runtime::available_processors();
  if (!runtime::spin_until([&] { return region->barriers.load() != passed; },
                           region->shares <= processors))
    region->barriers.wait(passed);
}

int max_threads() {
  return member.team == 0 ? openmp.max_threads() : member.team;
}
int num_threads() {
  return member.team == 0 ? openmp.num_threads() : member.region ? member.region->shares : 1;
}
int thread_num() {
  return member.team == 0 ? openmp.thread_num() : member.share;
}
int in_parallel() {
  if (member.team == 0)
    return openmp.in_parallel();
  return ThreadPool::in_task();
}

template <typename F> void **erased(F **function) {
  return reinterpret_cast<void **>(function);
}

struct Entry {
  std::string_view name;
  void *ours, **theirs;
};
const Entry kEntries[] = {
    {"GOMP_parallel", reinterpret_cast<void *>(&parallel), erased(&openmp.parallel)},
    {"GOMP_barrier", reinterpret_cast<void *>(&barrier), erased(&openmp.barrier)},
    {"omp_get_max_threads", reinterpret_cast<void *>(&max_threads), erased(&openmp.max_threads)},
    {"omp_get_num_threads", reinterpret_cast<void *>(&num_threads), erased(&openmp.num_threads)},
    {"omp_get_thread_num", reinterpret_cast<void *>(&thread_num), erased(&openmp.thread_num)},
    {"omp_in_parallel", reinterpret_cast<void *>(&in_parallel), erased(&openmp.in_parallel)},
};

// Writes to the table of a loaded library, where the linker may have left it to be read only.
bool write(const dl_phdr_info &library, void **where, void *value) {
  auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto start = reinterpret_cast<uintptr_t>(where) & ~(page - 1);
  bool read_only = std::any_of(library.dlpi_phdr, library.dlpi_phdr + library.dlpi_phnum,
                               [&](const ElfW(Phdr) & part) {
                                 uintptr_t first = library.dlpi_addr + part.p_vaddr;
                                 return part.p_type == PT_GNU_RELRO && start + page > first &&
                                        start + page <= first + part.p_memsz;
                               });
  auto *memory = reinterpret_cast<void *>(start);
  if (read_only && mprotect(memory, page, PROT_READ | PROT_WRITE) != 0)
    return false;
  std::atomic_ref<void *>(*where).store(value);
  if (read_only)
    mprotect(memory, page, PROT_READ);
  return true;
}

// Empty, or why the library keeps its own threads.
std::string take_over(const dl_phdr_info &library) {
  std::array<uintptr_t, DT_NUM> dynamic{};
  for (const ElfW(Phdr) &part : std::span(library.dlpi_phdr, library.dlpi_phnum))
    if (part.p_type == PT_DYNAMIC)
      for (auto *entry = reinterpret_cast<const ElfW(Dyn) *>(library.dlpi_addr + part.p_vaddr);
           entry->d_tag != DT_NULL; ++entry)
        if (entry->d_tag > 0 && entry->d_tag < DT_NUM)
          dynamic[static_cast<size_t>(entry->d_tag)] = entry->d_un.d_val;
  if ((dynamic[DT_FLAGS] & DF_BIND_NOW) == 0)
    return "its functions are bound at their first calls";

  auto *symbols = reinterpret_cast<const ElfW(Sym) *>(dynamic[DT_SYMTAB]);
  auto *names = reinterpret_cast<const char *>(dynamic[DT_STRTAB]);
  std::vector<std::pair<void **, const Entry *>> found;
  for (auto [table, bytes] : {std::pair(dynamic[DT_JMPREL], dynamic[DT_PLTRELSZ]),
                              std::pair(dynamic[DT_RELA], dynamic[DT_RELASZ])})
    for (const ElfW(Rela) &slot :
         std::span(reinterpret_cast<const ElfW(Rela) *>(table), bytes / sizeof(ElfW(Rela)))) {
      std::string_view name = names + symbols[ELF64_R_SYM(slot.r_info)].st_name;
      if (!name.starts_with("GOMP_") && !name.starts_with("omp_") && !name.starts_with("__kmpc_"))
        continue;
      auto *entry = std::ranges::find(kEntries, name, &Entry::name);
      if (entry == std::end(kEntries))
        return "it calls " + std::string(name) + ", which the pool does not have";
      found.emplace_back(reinterpret_cast<void **>(library.dlpi_addr + slot.r_offset), entry);
    }
  if (found.empty())
    return "it does not call libgomp";
  for (auto [where, entry] : found)
    *entry->theirs = *where;
  for (auto [where, entry] : found)
    if (!write(library, where, entry->ours))
      return "the system does not let its table of addresses be changed";
  return "";
}

// Which of the loaded libraries it is, by the address of something inside.
std::string find_and_take_over() {
  std::string why = "the dynamic linker does not say where it is";
  dl_iterate_phdr(
      [](dl_phdr_info *object, size_t, void *why) {
        auto inside = reinterpret_cast<uintptr_t>(dnnl_version());
        for (const ElfW(Phdr) &part : std::span(object->dlpi_phdr, object->dlpi_phnum))
          if (part.p_type == PT_LOAD &&
              inside - (object->dlpi_addr + part.p_vaddr) < part.p_memsz) {
            *static_cast<std::string *>(why) = take_over(*object);
            return 1;
          }
        return 0;
      },
      &why);
  return why;
}

// Of the OpenMP runtime, where the library keeps its own threads.
template <typename F> F *theirs(const char *name) {
  return reinterpret_cast<F *>(dlsym(RTLD_DEFAULT, name));
}
int their_threads(int threads) {
  static auto *const get = theirs<int()>("omp_get_max_threads");
  static auto *const set = theirs<void(int)>("omp_set_num_threads");
  if (!get || !set)
    return 0;
  int before = get();
  set(threads);
  return before;
}

} // namespace

const std::string &onednn_own_threads() {
  // Never destroyed: programs may run while the process ends.
  static const std::string *const why = new std::string(find_and_take_over());
  return *why;
}

OnednnTeam::OnednnTeam(int threads)
    : before_(onednn_own_threads().empty() ? std::exchange(member.team, threads)
                                           : their_threads(threads)),
      met_before_(std::exchange(member.met_nan, false)) {}

OnednnTeam::~OnednnTeam() {
  member.given = 0;
  member.met_nan = member.met_nan || met_before_;
  if (onednn_own_threads().empty())
    member.team = before_;
  else
    their_threads(before_);
}

absl::Status OnednnTeam::status() const {
  int given = std::exchange(member.given, 0);
  if (given == 0)
    return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the system gives this process ", given, " of the ", member.team,
                   " threads that oneDNN's call is made for; raise the limit on its threads or "
                   "memory, or let it use fewer: WEFT_NUM_THREADS=", given));
}

bool OnednnTeam::may_have_met_nan() const {
  return member.met_nan || flag_.is_raised() || !onednn_own_threads().empty();
}

bool onednn_tells_nan() {
  static const bool works = InvalidFlag::works();
  return works && onednn_own_threads().empty();
}

} // namespace weft::backends::cpu
