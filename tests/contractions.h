/* Contractions for tests: an expression with sizes, its tensors, the loop over all indices, and runs within budgets. */
#ifndef S4_TEST_CONTRACTIONS_H
#define S4_TEST_CONTRACTIONS_H

#include "numbers.h"
#include "s4/s4.h"

#define OPERANDS S4_CONTRACT_OPERANDS_MAX
#define INDICES S4_CONTRACT_INDICES_MAX
#define KINDS 4 /* dtype, real or complex */

/* An expression without spaces, and the size of every letter. */
typedef struct subject {
    char expression[80];
    int operands;
    char term[OPERANDS + 1][INDICES + 1]; /* the last one: the result */
    int64_t size[128];                    /* by letter */
    int64_t shape[OPERANDS][INDICES];
    const int64_t *shapes[OPERANDS];
    int64_t count[OPERANDS + 1];
} subject;

typedef struct hook_log {
    long calls;
    int fails;
    int64_t current, peak, last;
} hook_log;

typedef struct progress_log {
    int64_t calls, cancel_at, total;
} progress_log;

/* Operands of a subject in the dtype of a kind, and a result. */
typedef struct tensors {
    int kind;
    const void *operand[OPERANDS];
    double *values[OPERANDS];
    int64_t count; /* reals of the result */
    void *result;
} tensors;

/* sizes: "a=3 b=1". */
subject subject_of(const char *expression, const char *sizes);
/* Fills what follows from terms and sizes; s stays where it is. */
void subject_measure(subject *s);
/* result = the loop over all indices, in long double; operands as doubles, complex as pairs. */
double *naive(const subject *s, int is_complex, double *const *operands);
double *whole_numbers(random_source *random, int64_t count);
s4_context *context_of(hook_log *log, progress_log *progress);
s4_contraction_options options_of(int kind, int threads, int64_t budget);
tensors tensors_of(const subject *s, int kind, random_source *random,
                   double *(*values)(random_source *, int64_t));
s4_contraction_info info_of(const subject *s, const s4_contraction_options *options);
/* One budget: what the plan says is what happens. */
double *run_budget(const subject *s, const tensors *t, int threads, int64_t budget);
/* Budgets from the smallest up, with 1 .. 3 threads; all give `expected`. */
void run_budgets(const subject *s, const tensors *t, const double *expected);
/* All kinds of number of one subject, exactly. */
void check_subject(subject *s, random_source *random);

#endif
