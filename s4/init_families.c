/*
 * One table of the families of initialisation.
 *
 * Diagonal families are formulas, j = 0 ... n-1: Lambda_j = -1/2 - i im_j, B = 1 with
 *   lin pi j;   inv N/pi (N/(2j+1) - 1);   inv2 N/pi (N/(j+1) - 1);   quad (1+2j)^2 / pi;
 *   real: Lambda_j = -(j+1).
 * All others come from the eigenvectors of a HiPPO matrix, made by the backend: DPLR families as they are, diagonal
 * legs without P.
 */
#include "s4/init_families.h"

#include <math.h>

#include "s4/errors.h"
#include "s4/transform_inverse.h"

#define PI 3.14159265358979323846
#define CLIP 2.0 /* of the published code: |Im B| */

static double lin(double j, double N)
{
    (void)N;
    return PI * j;
}
static double inv(double j, double N) { return N / PI * (N / (2 * j + 1) - 1); }
static double inv2(double j, double N) { return N / PI * (N / (j + 1) - 1); }
static double quad(double j, double N)
{
    (void)N;
    return (1 + 2 * j) * (1 + 2 * j) / PI;
}
static double none(double j, double N)
{
    (void)j, (void)N;
    return 0;
}

static double half(double j)
{
    (void)j;
    return 0.5;
}
static double whole(double j) { return j + 1; }

static const struct {
    s4_mode mode;
    int64_t rank;
    s4_init hippo;                           /* HiPPO matrix, if no formula */
    double corner;                           /* see turn_to_published */
    double (*decay)(double j);               /* -Re Lambda; NULL: HiPPO */
    double (*frequency)(double j, double N); /* -Im Lambda */
} families[] = {
    [S4_INIT_LEGS] = {S4_MODE_DPLR, 1, S4_INIT_LEGS, -1, NULL, NULL},
    [S4_INIT_LEGT] = {S4_MODE_DPLR, 2, S4_INIT_LEGT, 0, NULL, NULL},
    [S4_INIT_LAGT] = {S4_MODE_DPLR, 1, S4_INIT_LAGT, -0.5, NULL, NULL},
    [S4_INIT_FOURIER] = {S4_MODE_DPLR, 1, S4_INIT_FOURIER, 0, NULL, NULL},
    [S4_INIT_HIPPO] = {S4_MODE_DPLR, 1, S4_INIT_HIPPO, 0, NULL, NULL},
    [S4_INIT_DIAG_LIN] = {S4_MODE_DIAG, 0, S4_INIT_DIAG_LIN, 0, half, lin},
    [S4_INIT_DIAG_INV] = {S4_MODE_DIAG, 0, S4_INIT_DIAG_INV, 0, half, inv},
    [S4_INIT_DIAG_INV2] = {S4_MODE_DIAG, 0, S4_INIT_DIAG_INV2, 0, half, inv2},
    [S4_INIT_DIAG_QUAD] = {S4_MODE_DIAG, 0, S4_INIT_DIAG_QUAD, 0, half, quad},
    [S4_INIT_DIAG_REAL] = {S4_MODE_DIAG, 0, S4_INIT_DIAG_REAL, 0, whole, none},
    [S4_INIT_DIAG_LEGS] = {S4_MODE_DIAG, 0, S4_INIT_LEGS, -1, NULL, NULL},
};

static const s4_init mix[] = {S4_INIT_LEGS, S4_INIT_FOURIER};
#define MIX_COUNT ((int64_t)(sizeof mix / sizeof mix[0]))

int s4_family_known(s4_init init) { return (int)init >= 0 && (size_t)init < sizeof families / sizeof families[0]; }

s4_mode s4_family_mode(s4_init init) { return families[init].mode; }

int64_t s4_family_rank(s4_init init) { return families[init].rank; }

int64_t s4_family_members(s4_init init) { return init == S4_INIT_HIPPO ? MIX_COUNT : 1; }

s4_init s4_family_member(s4_init init, int64_t member)
{
    return init == S4_INIT_HIPPO ? mix[member % MIX_COUNT] : init;
}

int64_t s4_family_scratch(s4_init init, int64_t modes) { return families[init].decay ? 0 : s4_hippo_scratch(modes); }

s4_status s4_family_begin(const s4_backend *backend, s4_init member, int64_t modes, double *scratch,
                          const s4_family_start *start)
{
    if (!families[member].decay) {
        if (!backend->hippo) return s4_fail(S4_ERROR_UNSUPPORTED, "place %s offers no initialisation", backend->name);
        return backend->hippo(families[member].hippo, modes, scratch, start->lambda, start->p, start->b);
    }
    for (int64_t j = 0; j < modes; j++) {
        start->lambda[2 * j] = -families[member].decay((double)j);
        start->lambda[2 * j + 1] = -families[member].frequency((double)j, (double)(2 * modes));
        start->b[2 * j] = 1;
        start->b[2 * j + 1] = 0;
    }
    return S4_OK;
}

/*
 * Mode j in the phase in which LAPACK gives its eigenvector v: the first entry of it, v_0, is real. Row 0 of
 * A V = V (Lambda - (V*P)(V*P)*) tells its phase here:
 *   v_0 (lambda_j - A_00) is conj(p_j) times something positive (legs, lagt: row 0 of A is 0 beyond A_00),
 *   v_0 lambda_j          is conj(p_j) times something positive (legt, p of the first column; the second cancels).
 * The sign that LAPACK gives v_0 is its own affair: positive here.
 */
static void turn_to_published(s4_init member, int64_t modes, const s4_family_start *start, int64_t j)
{
    double re = start->lambda[2 * j] - families[member].corner, im = start->lambda[2 * j + 1];
    double p_re = start->p[2 * j], p_im = start->p[2 * j + 1];
    double size = hypot(re, im) * hypot(p_re, p_im);
    double turn_re = (p_re * re - p_im * im) / size;
    double turn_im = -(p_re * im + p_im * re) / size;
    int64_t rows = families[families[member].hippo].rank;
    for (int64_t r = -1; r < rows; r++) {
        double *x = r < 0 ? start->b + 2 * j : start->p + 2 * (r * modes + j);
        double x_re = x[0], x_im = x[1];
        x[0] = x_re * turn_re - x_im * turn_im;
        x[1] = x_re * turn_im + x_im * turn_re;
    }
}

void s4_family_clamp(s4_init member, int64_t modes, const s4_family_start *start)
{
    /* |B| of fourier is at most 1, like that of the formulas. */
    int clips = !families[member].decay && member != S4_INIT_FOURIER;
    for (int64_t j = 0; j < modes; j++) {
        if (clips) {
            turn_to_published(member, modes, start, j);
            start->b[2 * j + 1] = fmin(fmax(start->b[2 * j + 1], -CLIP), CLIP);
        }
        start->lambda[2 * j] = fmin(start->lambda[2 * j], -S4_TRANSFORM_FLOOR);
        start->lambda[2 * j + 1] = fmin(start->lambda[2 * j + 1], -S4_TRANSFORM_FLOOR); /* <= 0 in every family */
    }
}
