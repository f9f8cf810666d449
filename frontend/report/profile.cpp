#include "weft/profile.h"

#include <cstdlib>
#include <iostream>

#include "runtime/profile/profile.h"
#include "weft/eval.h"

namespace weft {

Profile::Profile(const std::string &file, Location location) {
  synchronize();
  absl::Status status = runtime::profile::start(file);
  // That trace may have the process's number behind its name.
  const char *whole = std::getenv("WEFT_PROFILE");
  owns_trace_ = status.ok();
  if (absl::IsAlreadyExists(status) && whole && *whole &&
      runtime::profile::file().starts_with(whole)) {
    location = CallerScope::resolve(location);
    std::cerr << "weft: " + std::string(location.file_name()) + ":" +
                     std::to_string(location.line()) + ": Profile: no " + file +
                     ", as WEFT_PROFILE writes a trace of the whole process\n";
  } else if (!status.ok()) {
    fail_at(location, absl::IsAlreadyExists(status) ? ErrorKind::kState : ErrorKind::kFile,
            "Profile: " + std::string(status.message()));
  }
  file_ = runtime::profile::file();
}

Profile::~Profile() {
  synchronize();
  if (owns_trace_)
    runtime::profile::stop().IgnoreError();
}

long long Profile::dropped() const {
  return runtime::profile::dropped();
}

} // namespace weft
