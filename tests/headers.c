/* The public headers compile alone, in any order, and mention nothing of a C99 complex or a library's type. */
#include "s4/plan.h"

#include "s4/io.h"
#include "s4/s4.h"

#if defined(complex) || defined(_Complex_I) || defined(FFTW_FORWARD) || defined(CUDART_VERSION)
#error "a public header includes what it should not"
#endif

int s4_test_headers(void);
int s4_test_headers(void)
{
    s4_problem problem;
    S4_INIT(&problem);
    return (int)problem.struct_size;
}
