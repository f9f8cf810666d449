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

std::shared_ptr<CompiledProgram> ProgramCache::find(const ProgramKey &key) {
  const Entry *known = entries_.find(key);
  return known ? known->program : nullptr;
}

void ProgramCache::insert(HeldKey key, ProgramContext context,
                          std::shared_ptr<CompiledProgram> program) {
  bytes_ += entries_.add({std::move(key), std::move(context), std::move(program)}).bytes();
  trim();
}

void ProgramCache::trim() {
  const Config &config = recorder().config;
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
