// The component's exports, in terms of what a policy defines: see tokenrouter.h.
#include "tokenrouter.h"

#include <stdlib.h>
#include <string.h>

#define EXPORTED(name) exports_tokenrouter_policy_policy_##name

// A session is the policy's own structure; wit-bindgen knows it by this name.
struct exports_tokenrouter_policy_policy_session_t {
  char none;
};

static tr_journey *journey_of(EXPORTED(session_t) * session) { return (tr_journey *)(void *)session; }

void EXPORTED(describe)(tr_descriptor *descriptor) {
  memset(descriptor, 0, sizeof *descriptor);
  descriptor->models_least = 2;
  descriptor->models_most = 2;
  tr_describe(descriptor);
}

EXPORTED(own_session_t) EXPORTED(constructor_session)(tr_start *start) {
  tr_journey *journey = calloc(1, tr_journey_size);
  if (!journey) abort();
  tr_begin(journey, start);
  tokenrouter_policy_types_start_free(start);
  return EXPORTED(session_new)((EXPORTED(session_t) *)(void *)journey);
}

uint32_t EXPORTED(method_session_enter)(EXPORTED(borrow_session_t) session) { return tr_enter(journey_of(session)); }

void EXPORTED(method_session_route)(EXPORTED(borrow_session_t) session, tr_step *step, tr_decision *decision) {
  *decision = tr_route(journey_of(session), step);
}

void EXPORTED(method_session_send)(EXPORTED(borrow_session_t) session, tr_handoff *handoff,
                                   tokenrouter_policy_types_parcel_t *parcel) {
  parcel->keep_held = tr_send(journey_of(session), handoff);
  tokenrouter_policy_types_handoff_free(handoff);
}

void EXPORTED(method_session_receive)(EXPORTED(borrow_session_t) session, tr_offer *offer, tr_accept *accept) {
  *accept = tr_receive(journey_of(session), offer);
}

void EXPORTED(session_destructor)(EXPORTED(session_t) * session) { free(session); }

__attribute__((weak)) uint32_t tr_enter(tr_journey *journey) {
  (void)journey;
  return 0;
}

__attribute__((weak)) bool tr_send(tr_journey *journey, const tr_handoff *handoff) {
  (void)journey;
  (void)handoff;
  return false;
}

__attribute__((weak)) tr_accept tr_receive(tr_journey *journey, const tr_offer *offer) {
  (void)journey;
  tr_accept accept = {.tag = TOKENROUTER_POLICY_TYPES_ACCEPT_TAKE};
  accept.val.take = (uint32_t)offer->length;
  return accept;
}

// One element more at the end of a list.
static void *grow(void *list, size_t count, size_t size) {
  void *grown = realloc(list, (count + 1) * size);
  if (!grown) abort();
  return grown;
}

void tr_name(tr_descriptor *descriptor, const char *name, const char *doc) {
  router_string_dup(&descriptor->name, name);
  router_string_dup(&descriptor->doc, doc);
}

void tr_number(tr_descriptor *descriptor, const char *key, double initial, double least, double most, const char *doc) {
  tokenrouter_policy_manifest_list_parameter_t *all = &descriptor->parameters;
  all->ptr = grow(all->ptr, all->len, sizeof *all->ptr);
  tokenrouter_policy_manifest_parameter_t *parameter = &all->ptr[all->len++];
  router_string_dup(&parameter->key, key);
  router_string_dup(&parameter->doc, doc);
  parameter->default_ = initial;
  parameter->least = least;
  parameter->most = most;
  parameter->whole = false;
}

void tr_count(tr_descriptor *descriptor, const char *key, double initial, double least, double most, const char *doc) {
  tr_number(descriptor, key, initial, least, most, doc);
  descriptor->parameters.ptr[descriptor->parameters.len - 1].whole = true;
}

static void guard(tr_descriptor *descriptor, uint32_t role, tr_signal signal, const char *parameter, uint8_t tag) {
  tokenrouter_policy_manifest_list_guard_t *all = &descriptor->guards;
  all->ptr = grow(all->ptr, all->len, sizeof *all->ptr);
  tokenrouter_policy_manifest_guard_t *guard = &all->ptr[all->len++];
  guard->role = role;
  guard->fires.tag = tag;
  // `above` and `below` hold the same.
  guard->fires.val.above.signal = signal;
  router_string_dup(&guard->fires.val.above.parameter, parameter);
}

void tr_above(tr_descriptor *descriptor, uint32_t role, tr_signal signal, const char *parameter) {
  guard(descriptor, role, signal, parameter, TOKENROUTER_POLICY_MANIFEST_TRIGGER_ABOVE);
}

void tr_below(tr_descriptor *descriptor, uint32_t role, tr_signal signal, const char *parameter) {
  guard(descriptor, role, signal, parameter, TOKENROUTER_POLICY_MANIFEST_TRIGGER_BELOW);
}

double tr_setting(const tr_start *start, size_t index) {
  // The host gives a value for every parameter that was declared.
  if (index >= start->settings.len) __builtin_trap();
  return start->settings.ptr[index];
}

tr_decision tr_stay(void) { return (tr_decision){.tag = TOKENROUTER_POLICY_TYPES_DECISION_STAY}; }

tr_decision tr_finish(void) { return (tr_decision){.tag = TOKENROUTER_POLICY_TYPES_DECISION_FINISH}; }

tr_decision tr_hand_off(uint32_t to, uint32_t tokens) {
  tr_decision decision = {.tag = TOKENROUTER_POLICY_TYPES_DECISION_HAND_OFF};
  decision.val.hand_off.to = to;
  decision.val.hand_off.tokens = tokens;
  return decision;
}

double tr_uniform(void) { return tokenrouter_policy_host_uniform(); }

void tr_log(const char *message) {
  router_string_t text;
  router_string_set(&text, message);
  tokenrouter_policy_host_log(&text);
}
