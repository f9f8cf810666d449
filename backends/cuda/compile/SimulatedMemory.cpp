#include "backends/cuda/compile/SimulatedMemory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

namespace weft::backends::cuda {

std::string SimulatedMemory::open(std::vector<MemoryRange> ranges) {
  regions_.clear();
  std::erase_if(ranges, [](const MemoryRange &range) { return range.bytes == 0; });
  std::stable_sort(ranges.begin(), ranges.end(), [](const MemoryRange &a, const MemoryRange &b) {
    return a.begin < b.begin;
  });
  for (MemoryRange &range : ranges) {
    uintptr_t end = range.begin + static_cast<uintptr_t>(range.bytes);
    if (regions_.empty() || regions_.back().end <= range.begin) {
      Region &made = regions_.emplace_back();
      made.begin = range.begin;
      made.unit = range.unit;
      made.isShared = range.isShared;
      made.isDefined = made.isFlag = false;
    }
    Region &region = regions_.back();
    region.end = std::max(region.end, end);
    region.unit = std::gcd(region.unit, std::gcd(range.unit, int64_t(range.begin - region.begin)));
    region.shift = std::countr_zero(static_cast<uint64_t>(region.unit));
    region.isDefined |= range.isDefined;
    region.isFlag |= range.isFlag;
    for (const MemoryRange &other : region.ranges)
      if ((other.isWritten && range.isCached) || (other.isCached && range.isWritten))
        return (other.isWritten ? other : range).name + " is written where " +
               (other.isWritten ? range : other).name +
               " lies, which is read through a cache that sees no writes of its launch";
    region.ranges.push_back(std::move(range));
  }
  return "";
}

SimulatedMemory::Region *SimulatedMemory::find(const Access &access) {
  for (Region &region : regions_)
    if (region.begin <= access.address &&
        access.address + static_cast<uintptr_t>(access.bytes) <= region.end &&
        region.isShared == access.isShared)
      return &region;
  return nullptr;
}

bool SimulatedMemory::comesBefore(const Toucher &other, uint32_t thread) const {
  if (other.block == kNobody)
    return true;
  return other.block == block_ && (other.thread == thread || other.epoch < epoch_);
}

SimulatedMemory::Conflict SimulatedMemory::conflict(const Region &region, const Cell &cell,
                                                    bool isWrite, uint32_t thread) const {
  if (region.isFlag)
    return {};
  // What the threads of a block share begins anew with each block.
  auto ours = [&](const Toucher &toucher) {
    return region.isShared && toucher.block != block_ ? Toucher{} : toucher;
  };
  Toucher writer = ours(cell.writer), reader = ours(cell.reader);
  bool mayBeDropped = !region.isShared;
  if (!isWrite && writer.block == kNobody && !region.isDefined)
    return {"reads what nobody wrote", mayBeDropped};
  if (!comesBefore(writer, thread))
    return isWrite ? Conflict{"writes what another thread writes"}
                   : Conflict{"reads what another thread writes", mayBeDropped};
  if (isWrite && !comesBefore(reader, thread))
    return {"writes what another thread reads", mayBeDropped};
  return {};
}

void SimulatedMemory::note(Cell &cell, bool isWrite, bool isShared, uint32_t thread) const {
  if (isWrite) {
    cell.writer = {block_, thread, epoch_};
    return;
  }
  Toucher &reader = cell.reader;
  if (reader.block != kNobody && reader.block != block_ && !isShared)
    reader.block = kSeveralBlocks;
  else if (reader.block == block_ && reader.epoch == epoch_ && reader.thread != thread)
    reader.thread = kSeveralThreads;
  else
    reader = {block_, thread, epoch_};
}

// No number comes of these bytes: NaN, and the integer that no index is.
void SimulatedMemory::spoil(const Access &access) {
  auto *at = reinterpret_cast<std::byte *>(access.address);
  spoilt_ = access.address;
  saved_.assign(at, at + access.bytes);
  std::memset(at, 0xFF, saved_.size());
}

void SimulatedMemory::unspoil() {
  if (!saved_.empty())
    std::memcpy(reinterpret_cast<void *>(spoilt_), saved_.data(), saved_.size());
  saved_.clear();
}

void SimulatedMemory::start() {
  race_.clear();
  for (Region &region : regions_)
    region.cells.clear();
}

void SimulatedMemory::eachWritten(const std::function<void(const Region &)> &see) const {
  for (const Region &region : regions_)
    if (std::any_of(region.ranges.begin(), region.ranges.end(),
                    [](const MemoryRange &range) { return range.isWritten; }))
      see(region);
}

SimulatedMemory::Image SimulatedMemory::image() {
  unspoil();
  Image image;
  eachWritten([&](const Region &region) {
    auto *begin = reinterpret_cast<const std::byte *>(region.begin);
    image.insert(image.end(), begin, begin + (region.end - region.begin));
  });
  return image;
}

void SimulatedMemory::set(const Image &image) {
  unspoil();
  size_t at = 0;
  eachWritten([&](const Region &region) {
    size_t bytes = region.end - region.begin;
    std::memcpy(reinterpret_cast<void *>(region.begin), image.data() + at, bytes);
    at += bytes;
  });
}

std::string SimulatedMemory::difference(const Image &one, const Image &other) {
  auto first = static_cast<size_t>(
      std::mismatch(one.begin(), one.end(), other.begin()).first - one.begin());
  std::string where;
  size_t at = 0;
  eachWritten([&](const Region &region) {
    size_t bytes = region.end - region.begin;
    if (first >= at && first < at + bytes)
      where = "threads leave something else at byte " + std::to_string(first - at) + " of " +
              region.ranges.back().name + " where they run in another order" +
              (race_.empty() ? "" : "; " + race_);
    at += bytes;
  });
  return where;
}

std::string SimulatedMemory::show(const Access &access, const Region *region, uint32_t thread,
                                  const char *what) const {
  std::string place;
  if (region)
    place = " at byte " + std::to_string(access.address - region->begin) + " of " +
            region->ranges.front().name;
  return "thread " + std::to_string(thread) + " of block " + std::to_string(block_) + " " + what +
         ": a " + (access.isWrite ? "store" : "load") + " of " + std::to_string(access.bytes) +
         " bytes" + place;
}

bool SimulatedMemory::see(const Access &access, uint32_t thread) {
  unspoil();
  Region *region = find(access);
  const char *wrong = nullptr;
  if (region == nullptr)
    wrong = "touches memory beside its operands";
  else if (epoch_ >= kMostEpochs)
    wrong = "has passed more barriers than are told apart";
  else if ((access.address & static_cast<uintptr_t>(access.alignment - 1)) != 0)
    wrong = "touches memory that is not aligned as its instruction says";
  if (wrong)
    return refuse(access, region, thread, wrong);
  if (region->cells.empty())
    region->cells.resize(((region->end - region->begin) >> region->shift) + 1);
  size_t offset = access.address - region->begin,
         last = (offset + static_cast<size_t>(access.bytes) - 1) >> region->shift;
  const char *race = nullptr;
  for (size_t i = offset >> region->shift; i <= last; ++i) {
    Cell &cell = region->cells[i];
    // Most are these.
    bool isQuiet = !access.isWrite && region->isDefined && cell.writer.block == kNobody;
    if (!isQuiet) {
      Conflict found = conflict(*region, cell, access.isWrite, thread);
      if (found.what && !found.mayBeDropped)
        return refuse(access, region, thread, found.what);
      race = found.what ? found.what : race;
    }
    note(cell, access.isWrite, access.isShared, thread);
  }
  if (race && race_.empty())
    race_ = show(access, region, thread, race);
  if (race && !access.isWrite)
    spoil(access);
  return true;
}

} // namespace weft::backends::cuda
