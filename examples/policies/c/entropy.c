// Hands off where the model is unsure: the rule of policies/entropy, in C, decision for decision.
#include "tokenrouter.h"

enum { SMALL = 0, LARGE = 1 };
enum { THRESHOLD, TOKENS };  // In the order of tr_describe.

struct tr_journey {
  double threshold;
  uint32_t tokens;
};

const size_t tr_journey_size = sizeof(struct tr_journey);

void tr_describe(tr_descriptor *descriptor) {
  tr_name(descriptor, "entropy", "Hands off tokens whose distribution has more entropy than a threshold.");
  tr_number(descriptor, "threshold", 0.4, 0, 20, "Most entropy, in nats, at which a model keeps the journey.");
  tr_count(descriptor, "tokens", 1, 0, 4096,
           "Length of a visit to the large model, in tokens; 0 = until it is sure itself.");
  tr_above(descriptor, SMALL, TOKENROUTER_POLICY_TYPES_SIGNAL_ENTROPY, "threshold");
  descriptor->sends = true;
}

void tr_begin(tr_journey *journey, const tr_start *start) {
  journey->threshold = tr_setting(start, THRESHOLD);
  journey->tokens = (uint32_t)tr_setting(start, TOKENS);
}

tr_decision tr_route(tr_journey *journey, const tr_step *step) {
  // The host asks about the small model's tokens where the guard fires, and nowhere else.
  if (step->role == SMALL) return tr_hand_off(LARGE, journey->tokens);
  if (step->role == LARGE && step->entropy <= journey->threshold) return tr_hand_off(SMALL, 0);
  return tr_stay();
}

bool tr_send(tr_journey *journey, const tr_handoff *handoff) {
  (void)journey;
  // The way home keeps the sure token; were it dropped, the journey could go to and fro for ever.
  return handoff->to == SMALL;
}
