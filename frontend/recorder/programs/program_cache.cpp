#include "frontend/recorder/programs/program_cache.h"

#include "compiler/pipeline/PassHooks.h"
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
      return runtime::CacheUse{program_cache().entries(), program_cache().bytes(),
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

uint64_t ProgramCache::hash(const ProgramKey &key, uint64_t salt) {
  return key.hash() ^ salt;
}

std::shared_ptr<CompiledProgram> ProgramCache::find(const ProgramKey &key, uint64_t salt) {
  const Entry *known = entries_.find(key, salt);
  return known ? known->program : nullptr;
}

void ProgramCache::insert(HeldKey key, ProgramContext context,
                          std::shared_ptr<CompiledProgram> program, const Config &config) {
  uint64_t salt = context.salt();
  bytes_ += entries_.add({std::move(key), std::move(context), salt, std::move(program)}).bytes();
  trim(config);
}

void ProgramCache::trim(const Config &config) {
  // The newest stays, whatever its size: it is about to run.
  while (entries() > 1 && (entries() > config.cache_entries || bytes_ > config.cache_bytes)) {
    bytes_ -= entries_.oldest().bytes();
    entries_.drop_oldest();
  }
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
