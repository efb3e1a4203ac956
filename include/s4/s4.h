/* libs4: structured state-space (S4) layers on the CPU, on the GPU, or split. Includes everything. */
#ifndef S4_H
#define S4_H

#include "context.h"
#include "contract.h"
#include "export.h"
#include "io.h"
#include "layer.h"
#include "plan.h"
#include "plan_set.h"
#include "status.h"
#include "types.h"

#endif
