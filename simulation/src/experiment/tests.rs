use super::*;

/// A prediction of a difference that was published as 10.
fn prediction(file: &str, samples: &[f64]) -> Prediction {
    let other = Trial { cpus: Some(1), ..Trial::default() };
    let published = Figure {
        what: "what, of it".to_owned(),
        value: 10.0,
        unit: Some("us".to_owned()),
        scale: None,
        run: Trial::default(),
        beside: Some((Beside::Less, other)),
        control: false,
        cause: None,
        line: 1,
    };
    Prediction { file: file.to_owned(), published, samples: samples.to_vec() }
}

#[test]
fn a_prediction_of_the_other_sign_is_off_by_more_than_any_factor() {
    let off = prediction("a.toml", &[-10.0]);
    assert_eq!(off.factor(), f64::INFINITY);
    let good = prediction("a.toml", &[11.0]);
    let of = score(&[off.clone(), good.clone()]);
    assert_eq!((of.all, of.half_within, of.most_within), (2, 1.1, f64::INFINITY));
    let said = of.to_string();
    assert!(
        said.contains("half are within a factor of 1.1 and four fifths within no factor;"),
        "{said}"
    );
    let none = score(&[off.clone(), off]).to_string();
    assert!(none.contains("half are within no factor and"), "{none}");
}

#[test]
fn a_spreadsheet_has_numbers_and_the_unit_in_its_own_column() {
    let text = csv(&[prediction("a.toml", &[4.0, 4.25, 5.0])]);
    let expected = "file,what,unit,published,predicted,least,greatest,ratio,direction\n\
                    a.toml,\"what, of it\",us,10,4.25,4,5,0.425,right\n";
    assert_eq!(text, expected);
}
