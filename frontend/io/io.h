// Files, and a progress bar.
#pragma once

#include "weft/io/files.h"
#include "weft/io/npy.h"
#include "weft/io/progress.h"
#include "weft/io/safetensors.h"
