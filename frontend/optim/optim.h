// Optimizers, gradient clipping and learning-rate schedules.
#pragma once

#include "weft/optim/adamw.h"
#include "weft/optim/optimizer.h"
#include "weft/optim/schedule.h"
#include "weft/optim/sgd.h"
