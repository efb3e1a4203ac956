/* Fresh layers for the tests of initialisation, with every option in the open. */
#ifndef S4_TEST_FRESH_H
#define S4_TEST_FRESH_H

#include "expect.h"

static inline s4_context *context_new(void)
{
    s4_context_options options;
    s4_context *context;
    S4_INIT(&options);
    must(s4_context_create(&options, &context));
    return context;
}

/* A layer of plain transforms (exp, none, none), which show Re Lambda as it is. */
static inline s4_layer_options options_new(s4_mode mode, int64_t d_model, int64_t d_state, int64_t rank)
{
    s4_layer_options options;
    S4_INIT(&options);
    options.mode = mode;
    options.d_model = d_model;
    options.d_state = d_state;
    options.rank = rank;
    options.transforms_given = 1;
    options.dt_transform = S4_TRANSFORM_EXP;
    return options;
}

static inline s4_init_options init_new(s4_init init, uint64_t seed)
{
    s4_init_options options;
    S4_INIT(&options);
    options.init = init;
    options.seed = seed;
    return options;
}

static inline s4_layer *layer_new(s4_context *context, const s4_layer_options *options, const s4_init_options *init)
{
    s4_layer *layer;
    must(s4_layer_create(options, &layer));
    must(s4_layer_init(context, layer, init));
    return layer;
}

static inline int64_t rank_of(s4_init init) { return init >= S4_INIT_DIAG_LIN ? 0 : init == S4_INIT_LEGT ? 2 : 1; }
static inline s4_mode mode_of(s4_init init) { return init >= S4_INIT_DIAG_LIN ? S4_MODE_DIAG : S4_MODE_DPLR; }

#endif
