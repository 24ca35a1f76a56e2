// What a policy in C needs, without the boilerplate of a component.
//
// A policy defines `struct tr_journey` (the state of one journey) and the functions under "the policy". The values that
// come and go are those of wit/types.wit as wit-bindgen writes them, under shorter names. They belong to the wrapper:
// a policy frees nothing but lists that it fetched with tokenrouter_policy_view_... (candidates, the end of the answer,
// answers to questions, offered tokens). There is no clock, no file and no network; random numbers come from tr_uniform.
#ifndef TOKENROUTER_H
#define TOKENROUTER_H

#include <stdbool.h>
#include <stdint.h>

#include "router.h"

typedef tokenrouter_policy_manifest_descriptor_t tr_descriptor;
typedef tokenrouter_policy_types_start_t tr_start;
typedef tokenrouter_policy_types_step_t tr_step;
typedef tokenrouter_policy_types_decision_t tr_decision;
typedef tokenrouter_policy_types_handoff_t tr_handoff;
typedef tokenrouter_policy_types_offer_t tr_offer;
typedef tokenrouter_policy_types_accept_t tr_accept;
typedef tokenrouter_policy_types_signal_t tr_signal;
typedef struct tr_journey tr_journey;

// ---- the policy ----

// Says what the policy is and needs; `descriptor` begins with routes of two models and nothing asked for.
void tr_describe(tr_descriptor *descriptor);

// Size of `struct tr_journey`.
extern const size_t tr_journey_size;

// A journey begins; `journey` is all zeros.
void tr_begin(tr_journey *journey, const tr_start *start);

// The role at which it begins; asked only if the descriptor `enters`. Without it: 0.
uint32_t tr_enter(tr_journey *journey);

// Where the journey goes after this step; its token is held, not yet part of the answer.
tr_decision tr_route(tr_journey *journey, const tr_step *step);

// Whether the held token is committed before leaving; asked only if the descriptor `sends`. Without it: no.
bool tr_send(tr_journey *journey, const tr_handoff *handoff);

// How much of a visit is kept; asked only if the descriptor `receives`. Without it: everything.
tr_accept tr_receive(tr_journey *journey, const tr_offer *offer);

// ---- short ways ----

// One word, and one line.
void tr_name(tr_descriptor *descriptor, const char *name, const char *doc);

// A parameter: any number from `least` to `most`.
void tr_number(tr_descriptor *descriptor, const char *key, double initial, double least, double most, const char *doc);

// A parameter: a whole number from `least` to `most`.
void tr_count(tr_descriptor *descriptor, const char *key, double initial, double least, double most, const char *doc);

// A guard: `tr_route` is asked about the role's tokens whose signal is above, or below, a parameter.
void tr_above(tr_descriptor *descriptor, uint32_t role, tr_signal signal, const char *parameter);
void tr_below(tr_descriptor *descriptor, uint32_t role, tr_signal signal, const char *parameter);

// The value of a parameter, by the order in which they were declared.
double tr_setting(const tr_start *start, size_t index);

// Commit the token and go on here; go to the model `to`, for that many tokens and then back, or with 0 to stay there; commit
// the token and end the answer.
tr_decision tr_stay(void);
tr_decision tr_hand_off(uint32_t to, uint32_t tokens);
tr_decision tr_finish(void);

// A number in [0, 1) that depends on the journey's seed, the position and the number of calls there.
double tr_uniform(void);

// A line for the server's log.
void tr_log(const char *message);

#endif
