/* The families of initialisation: what each needs of a layer, and the start of one copy. */
#ifndef S4_INIT_FAMILIES_H
#define S4_INIT_FAMILIES_H

#include "s4/backend.h"

#define S4_FAMILY_RANK_MAX 2

/* Effective parameters of one copy. */
typedef struct s4_family_start {
    double *lambda; /* (n,2) */
    double *p;      /* (S4_FAMILY_RANK_MAX,n,2); the rows that the family has */
    double *b;      /* (n,2) */
} s4_family_start;

int s4_family_known(s4_init init);
s4_mode s4_family_mode(s4_init init);
int64_t s4_family_rank(s4_init init); /* columns of P it has; diagonal: 0 */

/* A mix of families has several members; copy s is of member s % count. */
int64_t s4_family_members(s4_init init);
s4_init s4_family_member(s4_init init, int64_t member);

/* Doubles of scratch that it takes to begin; formulas need none. */
int64_t s4_family_scratch(s4_init init, int64_t modes);
/* Fills *start for one member. */
s4_status s4_family_begin(const s4_backend *backend, s4_init member, int64_t modes, double *scratch,
                          const s4_family_start *start);
/* The clamps of the published code, on a start just made. */
void s4_family_clamp(s4_init member, int64_t modes, const s4_family_start *start);

#endif
