// What is known of programs that differ in ints only: the ints that were seen, and what a program
// for many of them cannot leave open. Touched under the recorder's lock.
#pragma once

#include <deque>

#include "frontend/recorder/programs/program_cache.h"
#include "frontend/recorder/programs/structure.h"

namespace weft::recorder {

// What programs of one structure were refused for.
struct Refusal {
  // Where the sizes stand that cannot vary: they tell the families below apart. Empty: there are
  // none.
  std::vector<uint32_t> fixed = {};
  std::string why = {}; // the last attempt failed
  int times = 0;        // in a row
};

// Where programs for several sizes were refused, the sizes that could not vary are *fixed*: each
// combination of them has a family of its own, whose programs leave the others open. So families
// form a tree, and a slice belongs to the last one on its way from its structure's.
struct Family {
  ProgramKey key;
  uint32_t number = 0; // in the keys of its programs, and of the families below it
  uint32_t depth = 0;  // of these above it
  std::vector<Ref<const SignatureStructure>> structures = {}; // what the key's ids stand for
  std::deque<Ints> observations =
      {}; // of programs that were compiled or asked for, the newest last
  Refusal refused = {};
  // What the families below it that were refused last have in common: new ones begin with it,
  // rather than try again for each size.
  Refusal below = {};
  bool is_static = false; // nothing may vary
  // Where a library takes some sizes and not others, and no range around the size at hand was of
  // one kind: up to which sizes, the newest last.
  std::deque<Generalization> too_small = {};

  void observe(Ints ints);
  // Programs for these sizes, and less, are no part of one for several.
  void refuse_up_to_least(Generalization general);
  bool is_too_small(const Ints &ints) const;
  // Whether what was refused for the ints of this program left nothing else open.
  bool was_too_small(const Generalization &general) const;
  void note_below(const Refusal &refused);
  const ProgramKey &program_key() const {
    return key;
  }
  // Under which the program cache has its programs for many ints.
  ProgramKey programs() const {
    return {.kind = ProgramKey::Kind::kSymbolic, .code = {number}};
  }
  int64_t bytes() const;
};

class Families : public RecentlyUsed<Family> {
public:
  // Stays where it is until the next add(), and the one that was found last as well.
  Family &add(ProgramKey key);
  // The family of a structure, the most recently used then; null where none is known, unless it is
  // to be added.
  Family *top(const StructureKey &structure, bool add = false);
  // The family below it for what these ints are where sizes are fixed, likewise.
  Family *below(Family &family, const Ints &ints, bool add = false);
  struct Place {
    Family *family, *above; // above: null for a structure's
  };
  // The family that programs with these ints belong to, added where it is not known.
  Place of(const StructureKey &structure);

private:
  uint32_t numbers_ = 0; // of families
};

// The process's.
Families &families();

} // namespace weft::recorder
