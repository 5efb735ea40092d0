//! As much of JSON Schema as the schemas in `docs/schemas` use. A keyword that is not known here is an error, so that none
//! is ignored.

use serde_json::{Map, Value};

/// What is wrong with a value, with its path. Empty if it fits.
pub(crate) fn misfits(schema: &Value, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    Check { root: schema }.check(schema, value, "", &mut found);
    found
}

struct Check<'s> {
    root: &'s Value,
}

impl Check<'_> {
    fn check(&self, schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
        let keywords = schema.as_object().unwrap_or_else(|| panic!("{path}: no schema: {schema}"));
        for (keyword, says) in keywords {
            let wrong = |found: &mut Vec<String>| {
                found.push(format!("{path}: {keyword} {says}, and it is {value:.200}"));
            };
            match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" | "properties" => {}
                "$ref" => {
                    let place = says.as_str().and_then(|place| place.strip_prefix('#'));
                    let target = place.and_then(|place| self.root.pointer(place));
                    self.check(target.unwrap_or_else(|| panic!("no {says}")), value, path, found);
                }
                "const" if says == value => {}
                "enum" if says.as_array().is_some_and(|all| all.contains(value)) => {}
                "type" if is_of_type(says, value) => {}
                "minimum" if value.as_f64().is_none_or(|number| Some(number) >= says.as_f64()) => {}
                "minItems" if length(value).is_none_or(|length| Some(length) >= says.as_u64()) => {}
                "maxItems" if length(value).is_none_or(|length| Some(length) <= says.as_u64()) => {}
                "required" => {
                    for key in says.as_array().into_iter().flatten().filter_map(Value::as_str) {
                        if value.as_object().is_some_and(|object| !object.contains_key(key)) {
                            found.push(format!("{path}: lacks `{key}`"));
                        }
                    }
                }
                "additionalProperties" => self.others(keywords, says, value, path, found),
                "items" => {
                    for (place, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(says, item, &format!("{path}[{place}]"), found);
                    }
                }
                "oneOf" => {
                    let fits = |schema: &&Value| {
                        let mut found = Vec::new();
                        self.check(schema, value, path, &mut found);
                        found.is_empty()
                    };
                    if says.as_array().into_iter().flatten().filter(fits).count() != 1 {
                        wrong(found);
                    }
                }
                "const" | "enum" | "type" | "minimum" | "minItems" | "maxItems" => wrong(found),
                other => panic!("{path}: the keyword `{other}` is not known"),
            }
        }
        if let (Some(own), Some(object)) = (schema["properties"].as_object(), value.as_object()) {
            for (key, value) in object {
                if let Some(schema) = own.get(key) {
                    self.check(schema, value, &format!("{path}.{key}"), found);
                }
            }
        }
    }

    /// Keys that `properties` does not name.
    fn others(
        &self,
        schema: &Map<String, Value>,
        says: &Value,
        value: &Value,
        path: &str,
        found: &mut Vec<String>,
    ) {
        let own = schema.get("properties").and_then(Value::as_object);
        for (key, value) in value.as_object().into_iter().flatten() {
            match says {
                _ if own.is_some_and(|own| own.contains_key(key)) => {}
                Value::Bool(false) => found.push(format!("{path}: has `{key}`")),
                says => self.check(says, value, &format!("{path}.{key}"), found),
            }
        }
    }
}

fn length(value: &Value) -> Option<u64> {
    value.as_array().map(|items| items.len() as u64)
}

fn is_of_type(types: &Value, value: &Value) -> bool {
    let is = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => panic!("there is no type {name}"),
    };
    match types {
        Value::Array(all) => all.iter().any(is),
        one => is(one),
    }
}

#[test]
fn what_does_not_fit_is_found() {
    let schema = serde_json::json!({
        "type": "object",
        "required": ["version", "all"],
        "additionalProperties": false,
        "properties": {
            "version": { "const": 1 },
            "all": { "type": "array", "minItems": 1, "items": { "type": "integer", "minimum": 0 } },
            "by": { "type": "object", "additionalProperties": { "type": ["string", "null"] } },
        },
    });
    let fits = |text: &str| misfits(&schema, &serde_json::from_str(text).expect("JSON")).is_empty();
    assert!(fits(r#"{ "version": 1, "all": [1, 2], "by": { "x": null } }"#));
    for wrong in [
        r#"{ "version": 2, "all": [1] }"#,
        r#"{ "version": 1 }"#,
        r#"{ "version": 1, "all": [] }"#,
        r#"{ "version": 1, "all": [-1] }"#,
        r#"{ "version": 1, "all": [0.5] }"#,
        r#"{ "version": 1, "all": [1], "more": 1 }"#,
        r#"{ "version": 1, "all": [1], "by": { "x": 1 } }"#,
        "[]",
    ] {
        assert!(!fits(wrong), "{wrong}");
    }
}
