// `bifocal inspect --mixers`: every mixer of this build and what it can do.
#pragma once

#include "bifocal/error.h"

namespace bifocal::cli {

Status print_mixers(bool json);

}  // namespace bifocal::cli
