/* The module's only door: runs the case of that name. */
#include "gpu_emulation.h"
#include "table.h"
#include <cstring>

extern "C" S4_EMULATION_API int s4_defect_run(const char *name)
{
#define S4_DEFECT_TRY(case_, noticed_by, what)                                                                         \
    if (!std::strcmp(name, #case_)) return defects::case_();
    S4_DEFECTS(S4_DEFECT_TRY)
#undef S4_DEFECT_TRY
    return 2;
}
