#include "weft/profile.h"

#include "frontend/recorder/state.h"
#include "runtime/profile/profile.h"
#include "weft/eval.h"

namespace weft {

Profile::Profile(const std::string &file, Location location) {
  synchronize();
  if (absl::Status status = runtime::profile::start(file); !status.ok())
    throw Error(absl::IsAlreadyExists(status) ? ErrorKind::kState : ErrorKind::kFile,
                "Profile: " + std::string(status.message()), CallerScope::resolve(location));
  file_ = runtime::profile::file();
}

Profile::~Profile() {
  synchronize();
  runtime::profile::stop().IgnoreError();
}

long long Profile::dropped() const {
  return runtime::profile::dropped();
}

} // namespace weft
