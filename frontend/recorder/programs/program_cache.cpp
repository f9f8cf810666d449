#include "frontend/recorder/programs/program_cache.h"

#include "compiler/pipeline/PassHooks.h"
#include "compiler/prepare/PrepareLimits.h"
#include "frontend/compile/compile_slice.h"
#include "frontend/compile/disk_cache.h"
#include "frontend/compile/environment.h"
#include "frontend/recorder/programs/backends.h"
#include "frontend/recorder/slices/slice.h"
#include "runtime/core/caches.h"
#include "llvm/ADT/Hashing.h"

namespace weft::recorder {

static const runtime::RegisteredCache
    registered("programs", "the least recently used beyond a bound", [] {
      const Config &config = recorder().config;
      return runtime::CacheUse{program_cache().size(), program_cache().bytes(),
                               config.cache_entries, config.cache_bytes};
    });
static const runtime::RegisteredCache
    on_disk("programs on disk", "the least recently used beyond the bound; rm -r of the folder",
            [] {
              const Config config = recorder().config;
              RecorderMutex::Pause pause(recorder_mutex());
              return DiskCache::use(config);
            });

ProgramCache &program_cache() {
  static auto *cache = new ProgramCache; // never destroyed, as the recorder
  return *cache;
}

int64_t CachedProgram::bytes() const {
  int64_t bytes = program->bytes + key.bytes() + general.bytes() + stable.size() / 8;
  for (const auto &[sizes, of_sizes] : sized)
    bytes += of_sizes->bytes;
  return bytes;
}

ProgramCache::Found ProgramCache::find(const ProgramKey &key, const Slice &slice,
                                       const Ints &ints) {
  Found best;
  int64_t variants = 0, most = -1, all = slice.stable.count();
  best.cached = find(key, [&](const CachedProgram &each) {
    std::optional<Generalization::Match> values = each.general.match(ints);
    if (!values)
      return Choice::kNo;
    int64_t count = each.stable.count();
    variants += count > 0;
    if (count <= most || each.stable.test(slice.stable)) // it counts on others
      return Choice::kNo;
    most = count;
    best.values = *std::move(values);
    return count == all ? Choice::kBest : Choice::kBetter;
  });
  best.enough = !slice.stable_at_once && variants >= compiler::kPrepareLimits.variants;
  if (most < all && !best.enough)
    best.cached = nullptr;
  return best;
}

void ProgramCache::insert(CachedProgram program) {
  add(std::move(program));
  trim();
}

void ProgramCache::trim() {
  const Config &config = recorder().config;
  // The newest is about to run.
  RecentlyUsed::trim(config.cache_entries, config.cache_bytes, /*kept=*/1);
}

ProgramContext::ProgramContext(const Config &config, uint8_t device)
    : backend(backend_of(config, device)), dump_dir(config.dump_dir), device(device),
      registrations(compiler::registrationsGeneration()), prepare(config.prepare),
      tune(config.tune), math(math_of(config)), memory_limit(config.memory_limit),
      memory_files(may_use_files(config)) {}

uint64_t ProgramContext::salt() const {
  return static_cast<size_t>(llvm::hash_combine(backend, dump_dir, device, registrations, prepare,
                                                tune, math, memory_limit, memory_files));
}

} // namespace weft::recorder
