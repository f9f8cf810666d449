#include "weft/explain.h"

#include <algorithm>

#include "frontend/recorder/programs/program_cache.h"
#include "frontend/recorder/record/state.h"
#include "frontend/recorder/requests/requests.h"
#include "frontend/recorder/runs/evaluation.h"
#include "frontend/tensor/impl.h"
#include "runtime/core/caches.h"
#include "runtime/memory/prepared_store.h"

namespace weft {

Evaluation explain(const Tensor &tensor, Location location) {
  recorder::Session session("explain", location);
  recorder::Var x = recorder::read(tensor, "tensor");
  recorder::Value *value = x.value;
  recorder::submit({&value, 1}, {CutReason::kEval, location});
  if (!value->evaluation)
    return Evaluation();
  recorder::wait_for(value, location);
  return value->evaluation->snapshot();
}

std::vector<Evaluation> recent_evaluations() {
  recorder::Session session("recent_evaluations", Location::current());
  std::vector<Evaluation> result;
  for (const auto &record : recorder::recorder().evaluations)
    result.push_back(record->snapshot());
  return result;
}

Statistics statistics() {
  recorder::Session session("statistics", Location::current());
  recorder::Recorder &r = recorder::recorder();
  Statistics result = r.statistics;
  result.live_ops = r.live_ops;
  result.cache_entries = recorder::program_cache().size();
  result.cache_bytes = recorder::program_cache().bytes();
  runtime::PreparedStats prepared = runtime::PreparedStore::instance().stats();
  result.prepared_results = static_cast<uint64_t>(prepared.results);
  result.prepared_bytes = static_cast<uint64_t>(prepared.bytes);
  result.prepared_made = static_cast<uint64_t>(prepared.made);
  result.prepared_written = static_cast<uint64_t>(prepared.written);
  result.prepared_reclaimed = static_cast<uint64_t>(prepared.reclaimed);
  return result;
}

std::vector<CacheState> caches() {
  recorder::Session session("caches", Location::current());
  std::vector<CacheState> result;
  for (const runtime::Cache &cache : runtime::CacheList::instance().all()) {
    runtime::CacheUse use = cache.use();
    result.push_back(
        {cache.name, use.entries, use.bytes, use.max_entries, use.max_bytes, cache.freed});
  }
  std::ranges::sort(result, {}, &CacheState::name);
  return result;
}

} // namespace weft
