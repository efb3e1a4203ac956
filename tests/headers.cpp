/* The public headers compile in C++. */
#include "s4/s4.h"

int s4_test_headers_cxx();
int s4_test_headers_cxx()
{
    s4_problem problem;
    S4_INIT(&problem);
    return static_cast<int>(problem.struct_size) + (s4_version() == nullptr);
}
