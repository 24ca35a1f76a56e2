//! Values that a JSON Schema takes, and such that it does not: enough of one to try every field of a request.

use serde_json::{Map, Value, json};

/// Values to try.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    pub(crate) accepted: Vec<Value>,
    pub(crate) refused: Vec<Value>,
}

/// What a schema takes at its bounds, and what is just beyond them or of another type.
pub(crate) fn tries(document: &Value, schema: &Value) -> Tries {
    let mut tried = bounds(document, schema);
    let has_null = types(schema).contains(&"null")
        || schema["enum"].as_array().is_some_and(|values| values.contains(&Value::Null))
        || schema["anyOf"]
            .as_array()
            .is_some_and(|options| options.iter().any(|of| types(of).contains(&"null")));
    if has_null {
        tried.accepted.push(Value::Null);
    }
    // No field takes both.
    let other = if types(schema).contains(&"object") { json!(1) } else { json!({"no": {}}) };
    tried.refused.push(other);
    tried
}

/// One value that a schema takes.
fn sample(document: &Value, schema: &Value) -> Value {
    let schema = resolved(document, schema);
    if let Some(values) = schema["enum"].as_array() {
        return values[0].clone();
    }
    // An object's say what else it needs.
    if let Some(options) = schema["anyOf"].as_array().filter(|_| schema.get("type").is_none()) {
        return sample(document, &options[0]);
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    match types(schema)[0] {
        "string" => json!("x".repeat(schema["minLength"].as_u64().unwrap_or(1) as usize)),
        "integer" | "number" => schema.get("minimum").cloned().unwrap_or_else(|| json!(0)),
        "boolean" => json!(true),
        "array" => items(document, schema, schema["minItems"].as_u64().unwrap_or(0)),
        "object" => {
            let needed = [&schema["required"], &schema["anyOf"][0]["required"]].map(Value::as_array);
            let required = needed.into_iter().flatten().flatten().filter_map(Value::as_str);
            let field = |key: &str| (key.to_owned(), sample(document, &schema["properties"][key]));
            Value::Object(required.map(field).collect::<Map<_, _>>())
        }
        other => panic!("a schema of type {other}"),
    }
}

fn bounds(document: &Value, schema: &Value) -> Tries {
    let schema = resolved(document, schema);
    if let Some(values) = schema["enum"].as_array() {
        return Tries { accepted: values.clone(), refused: vec![json!("no such value")] };
    }
    if let Some(options) = schema["anyOf"].as_array() {
        let mut all = Tries::default();
        for Tries { accepted, refused } in options.iter().map(|option| bounds(document, option)) {
            all.accepted.extend(accepted);
            all.refused.extend(refused);
        }
        // What is beyond one option may be another's.
        all.refused.retain(|value| !options.iter().any(|option| takes(document, option, value)));
        return all;
    }
    match types(schema)[0] {
        "string" => string(schema),
        "integer" | "number" => number(schema),
        "boolean" => {
            Tries { accepted: vec![json!(true), json!(false)], refused: vec![json!(1), json!("true")] }
        }
        "array" => array(document, schema),
        "object" => object(document, schema),
        _ => Tries::default(),
    }
}

/// Whether a value is one of an option's, as far as options differ.
fn takes(document: &Value, schema: &Value, value: &Value) -> bool {
    let schema = resolved(document, schema);
    let within = |count: usize, least: &str, most: &str| {
        count as u64 >= schema[least].as_u64().unwrap_or(0)
            && count as u64 <= schema[most].as_u64().unwrap_or(u64::MAX)
    };
    match value {
        Value::String(text) => {
            types(schema).contains(&"string") && within(text.len(), "minLength", "maxLength")
        }
        Value::Number(number) => {
            let least = schema["minimum"].as_f64().unwrap_or(f64::MIN);
            types(schema).contains(&"integer") && number.as_f64() >= Some(least) && !number.is_f64()
        }
        Value::Array(list) => {
            types(schema).contains(&"array")
                && within(list.len(), "minItems", "maxItems")
                && list.iter().all(|item| takes(document, &schema["items"], item))
        }
        _ => false,
    }
}

fn string(schema: &Value) -> Tries {
    let mut tried = Tries { accepted: vec![json!("x")], refused: Vec::new() };
    if schema["minLength"].as_u64() > Some(0) {
        tried.refused.push(json!(""));
    }
    if let Some(most) = schema["maxLength"].as_u64() {
        tried.accepted.push(json!("x".repeat(most as usize)));
        tried.refused.push(json!("x".repeat(most as usize + 1)));
    }
    tried
}

fn number(schema: &Value) -> Tries {
    let mut tried = Tries { accepted: Vec::new(), refused: vec![json!("1"), json!(true)] };
    if types(schema)[0] == "integer" {
        tried.refused.push(json!(1.5));
    }
    for (bound, by) in [("minimum", -1.0), ("maximum", 1.0)] {
        let Some(at) = schema.get(bound) else { continue };
        tried.accepted.push(at.clone());
        let beyond = match (at.as_i64().and_then(|at| at.checked_add(by as i64)), at.as_f64()) {
            (Some(beyond), _) => json!(beyond),
            (None, at) => json!(at.expect("a number") + by * at.map_or(1.0, |at| at.abs().max(1.0))),
        };
        tried.refused.push(beyond);
    }
    tried
}

fn array(document: &Value, schema: &Value) -> Tries {
    let least = schema["minItems"].as_u64().unwrap_or(0);
    let mut tried = Tries { accepted: vec![items(document, schema, least)], refused: Vec::new() };
    if least > 0 {
        tried.refused.push(items(document, schema, least - 1));
    }
    if let Some(most) = schema["maxItems"].as_u64() {
        tried.accepted.push(items(document, schema, most));
        tried.refused.push(items(document, schema, most + 1));
    }
    for item in bounds(document, &schema["items"]).refused {
        tried.refused.push(json!([item]));
    }
    tried
}

fn object(document: &Value, schema: &Value) -> Tries {
    let mut tried = Tries { accepted: vec![sample(document, schema)], refused: Vec::new() };
    match &schema["additionalProperties"] {
        Value::Bool(false) => tried.refused.push(json!({"no_such_field": 1})),
        of @ Value::Object(_) => {
            let Tries { accepted, refused } = bounds(document, of);
            tried.accepted.extend(accepted.into_iter().map(|value| json!({ "7": value })));
            tried.refused.extend(refused.into_iter().map(|value| json!({ "7": value })));
            tried.refused.extend(["", "x", "07", "-1"].map(|key| json!({ key: 1 })));
        }
        _ => {}
    }
    if let Some(most) = schema["maxProperties"].as_u64() {
        tried.refused.push((0..=most).map(|key| (key.to_string(), json!(1))).collect::<Map<_, _>>().into());
    }
    tried
}

fn items(document: &Value, schema: &Value, count: u64) -> Value {
    let item = |ix: u64| {
        let mut item = sample(document, &schema["items"]);
        if let Some(name) = item.pointer_mut("/function/name") {
            // Two tools of one name are refused.
            *name = json!(format!("x{ix}"));
        }
        item
    };
    (0..count).map(item).collect()
}

fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => vec![""],
    }
}

/// A schema, or the one that it refers to.
fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let Some(name) = schema["$ref"].as_str().and_then(|to| to.strip_prefix("#/components/schemas/")) else {
        return schema;
    };
    &document["components"]["schemas"][name]
}
