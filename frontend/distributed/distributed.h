// Programs of several ranks; link //frontend/distributed.
#pragma once

#include "weft/distributed/collectives.h"
#include "weft/distributed/data_parallel.h"
#include "weft/distributed/group.h"
#include "weft/distributed/mesh.h"
#include "weft/distributed/sharded.h"
#include "weft/distributed/sharded_layers.h"
