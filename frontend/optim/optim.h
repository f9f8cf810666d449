// Optimizers, gradient clipping, loss scaling, learning-rate schedules and averages of parameters.
#pragma once

#include "weft/optim/adagrad.h"
#include "weft/optim/adam.h"
#include "weft/optim/adamw.h"
#include "weft/optim/ema.h"
#include "weft/optim/lion.h"
#include "weft/optim/loss_scaler.h"
#include "weft/optim/nadam.h"
#include "weft/optim/optimizer.h"
#include "weft/optim/radam.h"
#include "weft/optim/rmsprop.h"
#include "weft/optim/schedule.h"
#include "weft/optim/sgd.h"
