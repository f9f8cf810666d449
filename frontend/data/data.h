// Data sets and the loader.
#pragma once

#include "weft/data/dataset.h"
#include "weft/data/idx.h"
#include "weft/data/loader.h"
#include "weft/data/random.h"
#include "weft/data/subset.h"
#include "weft/data/tensors.h"
#include "weft/data/text.h"
