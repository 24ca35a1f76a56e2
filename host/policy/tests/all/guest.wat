;; A guest by hand: the least that the interface needs, with places (@...@) where a test puts code.
;; Unless a test says otherwise it hands off one token when the entropy is above 4 nats, and stays.
(module
  (import "[export]tokenrouter:policy/policy@0.1.0" "[resource-new]session"
    (func $new (param i32) (result i32)))
  (import "tokenrouter:policy/host@0.1.0" "uniform" (func $uniform (result f64)))
  (import "tokenrouter:policy/host@0.1.0" "log" (func $log (param i32 i32)))
  (import "tokenrouter:policy/view@0.1.0" "candidates" (func $candidates (param i32)))
  @IMPORTS@
  (memory (export "memory") 4)
  (global $free (mut i32) (i32.const 65536))
  ;; Set by a step whose token is 666, and by a start that asks for 666 tokens.
  (global $armed (mut i32) (i32.const 0))
  ;; Steps so far.
  (global $steps (mut i32) (i32.const 0))

  ;; Answers of `route` by address: stay, three handoffs, finish, and one with a discriminant that does not exist.
  (data (i32.const 16) "\00")
  (data (i32.const 128) "\01\00\00\00" "\01\00\00\00" "\01\00\00\00" "\00\00\00\00\00\00\00\00")
  (data (i32.const 160) "\01\00\00\00" "\00\00\00\00" "\01\00\00\00" "\00\00\00\00\00\00\00\00")
  (data (i32.const 192) "\01\00\00\00" "\07\00\00\00" "\01\00\00\00" "\00\00\00\00\00\00\00\00")
  (data (i32.const 224) "\02")
  (data (i32.const 240) "\09")
  ;; What `receive` answers: so many tokens, which it puts at 260.
  (data (i32.const 256) "\00\00\00\00" "\00\00\00\00")
  ;; The descriptor: name, doc, parameters, models least and most, needs, guards, candidates, tail, prompt, then whether
  ;; it enters, sends, receives, wants distributions, and holdback, fallback.
  (data (i32.const 1024) "\00\08\00\00@NAME@" "\00\09\00\00\04\00\00\00" "\00\00\00\00\00\00\00\00"
    "\02\00\00\00" "\02\00\00\00" "\00\00\00\00\00\00\00\00" "\00\00\00\00\00\00\00\00"
    "\00\00\00\00" "\00\00\00\00" "\00\00\00\00" "\00\01\01\00" "\00\00\00\00" "\00\00\00\00\00\00\00\00")
  (data (i32.const 2048) "guest")
  (data (i32.const 2304) "test")

  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
    (global.set $free (i32.add (local.get $at) (local.get 3)))
    (local.get $at))

  (func $deeper (call $deeper) (call $deeper))

  (func (export "tokenrouter:policy/policy@0.1.0#describe") (result i32)
    @DESCRIBE@
    (i32.const 1024))

  (func (export "tokenrouter:policy/policy@0.1.0#[constructor]session")
    (param $models i32) (param $context i32) (param $settings i32) (param $settings_len i32)
    (param $prompt_tokens i32) (param $max_tokens i32) (param $shows i32) (result i32)
    (if (i32.eq (local.get $max_tokens) (i32.const 666)) (then (global.set $armed (i32.const 1))))
    @START@
    (global.set $armed (i32.const 0))
    (call $new (i32.const 1)))

  (func (export "tokenrouter:policy/policy@0.1.0#[method]session.enter") (param $self i32) (result i32)
    @ENTER@
    (i32.const 0))

  (func (export "tokenrouter:policy/policy@0.1.0#[method]session.route")
    (param $self i32) (param $index i32) (param $run i32) (param $role i32) (param $token i32) (param $at_eos i32)
    (param $has_fired i32) (param $fired i32) (param $logprob f32) (param $entropy f32) (param $top1 f32)
    (param $margin f32) (param $shows i32) (result i32)
    (global.set $steps (i32.add (global.get $steps) (i32.const 1)))
    (if (i32.eq (local.get $token) (i32.const 666)) (then (global.set $armed (i32.const 1))))
    @ROUTE@
    (if (result i32) (f32.gt (local.get $entropy) (f32.const 4))
      (then (i32.const 128))
      (else (i32.const 16))))

  (func (export "tokenrouter:policy/policy@0.1.0#[method]session.send")
    (param $self i32) (param $to i32) (param $tokens i32) (param $until i32) (param $until_len i32) (result i32)
    @SEND@
    (i32.const 0))

  (func (export "tokenrouter:policy/policy@0.1.0#[method]session.receive")
    (param $self i32) (param $source i32) (param $length i32) (param $why i32) (param $shows i32) (result i32)
    @RECEIVE@
    (i32.store (i32.const 260) (local.get $length))
    (i32.const 256))

  (func (export "tokenrouter:policy/policy@0.1.0#[dtor]session") (param $self i32)
    @END@)
)
